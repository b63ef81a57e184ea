"""Soft limits on constraint forces: strings pull and do not push, and tear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.optimal.cost import SoftLimit
from stepmap.optimal.terms.term import BoundTerm, Expanded, Part, constraint_names, require_horizon
from stepmap.optimal.terms.weights import weight_rows
from stepmap.steps.protocol import StepMap, Trajectory


@dataclass(frozen=True, eq=False)
class Tension:
    """½ Σ weight · (excess over high or below low)² of constraint forces [N], positive when they pull, at every step.

    Of all constraints, or of those in ``names``; one weight, one per constraint, or a row of these per step. Forces
    answer steeply to kinematic inputs: raise the weight in stages.
    """

    low: float = -np.inf
    high: float = np.inf
    weight: ArrayLike = 1.0
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        SoftLimit(0, self.low, self.high)  # raises where these have no meaning
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
        weights = weight_rows(self.weight, len(chosen), "constraint")
        if not weights.any():
            raise ModelError(f"weight: must be positive somewhere, got {self.weight!r}")
        return _Bound(self, np.array([known.index(name) for name in chosen]), step.ndx + step.nu, weights)


class _Bound:
    forces = True

    def __init__(self, term: Tension, columns: Array, first: int, weights: Array) -> None:
        self.limit, self.columns, self.at = SoftLimit(0, term.low, term.high), columns, first + columns
        self.factors, self.horizon = weights, len(weights) if len(weights) > 1 else None

    def _excess(self, trajectory: Trajectory) -> Array:
        assert trajectory.multipliers is not None  # Cost sees to it
        if self.horizon is not None:
            require_horizon(trajectory, self.horizon, "weight of Tension")
        return self.limit.excess(trajectory.multipliers[:, self.columns])

    def value(self, trajectory: Trajectory) -> float:
        return 0.5 * float(np.sum(self.factors * self._excess(trajectory) ** 2))

    def expand(self, trajectory: Trajectory) -> Expanded:
        excess = self._excess(trajectory)
        positive = (self.factors * (excess != 0))[..., None] * np.eye(len(self.columns))
        return Expanded((Part(self.at, self.factors * excess, positive),))
