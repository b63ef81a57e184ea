"""Soft limits on states and inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.optimal.cost import SoftLimit
from stepmap.optimal.terms.term import BoundTerm, Expanded, Part, require_horizon
from stepmap.optimal.terms.weights import weight_rows
from stepmap.steps.protocol import StepMap, Trajectory
from stepmap.text import did_you_mean


@dataclass(frozen=True)
class Limits:
    """½ Σ weight · (excess over high or below low)² of states and inputs, at all times.

    ``bounds`` are (low, high) by name, None where there is none; or SoftLimits, which have weights of their own.
    ``weight`` is one number, one per bound, or a row of these per state, (N+1, 1) or (N+1, bounds).
    """

    bounds: Mapping[str, tuple[float | None, float | None]] | Sequence[SoftLimit]
    weight: ArrayLike = 1.0

    @staticmethod
    def example(step: StepMap, steps: int) -> Limits:
        """One on a state and one on an input."""
        return Limits({step.layout.names[0]: (-0.1, 0.1), step.input_names[-1]: (None, 0.05)}, weight=4.0)

    def on(self, step: StepMap) -> BoundTerm:
        if isinstance(self.bounds, Mapping):
            limits = [self._named(step, name, pair) for name, pair in self.bounds.items()]
        else:
            limits = list(self.bounds)
            if not all(isinstance(limit, SoftLimit) for limit in limits):
                raise ModelError(f"bounds: expected (low, high) by name, or SoftLimits, got {self.bounds!r}")
        for limit in limits:
            size = step.nu if limit.of_input else step.nx
            if not 0 <= limit.index < size:
                raise ModelError(f"SoftLimit: index {limit.index} is outside 0 … {size - 1}")
        return _Bound(step, limits, weight_rows(self.weight, len(limits), "bound"))

    def _named(self, step: StepMap, name: str, pair: tuple[float | None, float | None]) -> SoftLimit:
        states, inputs = list(step.layout.names), list(step.input_names)
        if name not in states and name not in inputs:
            near = did_you_mean(name, [*states, *inputs])
            raise ModelError(
                f"bounds: no state or input is called {name!r}; {near}there are {', '.join(states + inputs)}"
            )
        index = states.index(name) if name in states else inputs.index(name)
        try:
            low, high = (
                none if bound is None else float(bound) for bound, none in zip(pair, (-np.inf, np.inf), strict=True)
            )
        except (TypeError, ValueError):
            raise ModelError(f"bounds: expected (low, high) of {name}, got {pair!r}") from None
        return SoftLimit(index, low, high, of_input=name not in states)


class _Bound:
    def __init__(self, step: StepMap, limits: Sequence[SoftLimit], weights: Array) -> None:
        tangent, stored = list(step.layout.tangent_names), step.layout.names
        self.horizon = len(weights) - 1 if len(weights) > 1 else None
        self.limits: list[tuple[SoftLimit, Array, Array]] = []
        for limit, factors in zip(limits, weights.T, strict=True):
            if not limit.of_input and stored[limit.index] not in tangent:
                raise ModelError(f"bounds: {stored[limit.index]} is no number by itself but a part of a rotation")
            at = step.ndx + limit.index if limit.of_input else tangent.index(stored[limit.index])
            self.limits.append((limit, np.array([at]), limit.weight * factors))

    def _excess(self, limit: SoftLimit, factors: Array, trajectory: Trajectory) -> tuple[Array, Array]:
        """The excess, and the weights at the same times."""
        if self.horizon is not None:
            require_horizon(trajectory, self.horizon, "weight of Limits")
        excess = limit.excess((trajectory.u if limit.of_input else trajectory.x)[:, limit.index])
        return excess, np.broadcast_to(factors[: len(excess)], excess.shape)

    def value(self, trajectory: Trajectory) -> float:
        made = (self._excess(limit, factors, trajectory) for limit, _, factors in self.limits)
        return sum(0.5 * float(np.sum(factors * excess**2)) for excess, factors in made)

    def expand(self, trajectory: Trajectory) -> Expanded:
        running, end = [], []
        for limit, at, weights in self.limits:
            excess, factors = self._excess(limit, weights, trajectory)
            slope, bend = (factors * excess)[:, None], (factors * (excess != 0))[:, None, None]
            running.append(Part(at, slope[: trajectory.steps], bend[: trajectory.steps]))
            if not limit.of_input:
                end.append(Part(at, slope[-1:], bend[-1:]))
        return Expanded(tuple(running), tuple(end))
