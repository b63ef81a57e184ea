"""Soft limits on constraint forces: strings pull and do not push, and tear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.optimal.cost import SoftLimit
from stepmap.optimal.terms.term import BoundTerm, Expanded, Part, constraint_names
from stepmap.steps.protocol import StepMap, Trajectory


@dataclass(frozen=True)
class Tension:
    """½ Σ weight · (excess over high or below low)² of constraint forces [N], positive when they pull, at every step.

    Of all constraints, or of those in ``names``. Forces answer steeply to kinematic inputs: raise the weight in stages.
    """

    low: float = -np.inf
    high: float = np.inf
    weight: float = 1.0
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        SoftLimit(0, self.low, self.high, self.weight)  # raises where these have no meaning
        if self.low == -np.inf and self.high == np.inf:
            raise ModelError("Tension: give low, high or both")

    @staticmethod
    def example(step: StepMap, steps: int) -> Tension:
        """One that any map with constraints exceeds on both sides somewhere."""
        return Tension(low=0.5, high=0.9, weight=0.7)

    def on(self, step: StepMap) -> BoundTerm:
        known = constraint_names(step)
        for name in self.names or ():
            if name not in known:
                raise ModelError(f"names: no constraint is called {name!r}; there are {', '.join(known) or 'none'}")
        chosen = known if self.names is None else self.names
        if not chosen:
            raise ModelError("step: there is no constraint whose force could be limited")
        if not hasattr(step, "length_sensitivity_along"):
            raise ModelError("step: this map does not tell how constraint forces change")
        return _Bound(self, np.array([known.index(name) for name in chosen]), step.ndx + step.nu)


class _Bound:
    forces = True

    def __init__(self, term: Tension, columns: Array, first: int) -> None:
        self.limit, self.columns, self.at = SoftLimit(0, term.low, term.high, term.weight), columns, first + columns

    def _excess(self, trajectory: Trajectory) -> Array:
        assert trajectory.multipliers is not None  # Cost sees to it
        return self.limit.excess(trajectory.multipliers[:, self.columns])

    def value(self, trajectory: Trajectory) -> float:
        return 0.5 * self.limit.weight * float(np.sum(self._excess(trajectory) ** 2))

    def expand(self, trajectory: Trajectory) -> Expanded:
        excess = self._excess(trajectory)
        positive = self.limit.weight * (excess != 0)[..., None] * np.eye(len(self.columns))
        return Expanded((Part(self.at, self.limit.weight * excess, positive),))
