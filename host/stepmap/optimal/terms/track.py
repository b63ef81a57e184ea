"""Distance to a reference, weighted: the first term of most costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.optimal.cost import TrackingCost
from stepmap.optimal.objective import Bend, Weights
from stepmap.optimal.terms.term import BoundTerm, Expanded, Part
from stepmap.steps.protocol import StepMap, Trajectory


@dataclass(frozen=True, eq=False)
class Track:
    """½ Σ dxᵀQ dx + duᵀR du + ½ dx_NᵀQf dx_N, as in TrackingCost; R positive definite, Q and Qf semidefinite."""

    Q: ArrayLike
    R: ArrayLike
    Qf: ArrayLike
    x_ref: ArrayLike
    u_ref: ArrayLike

    def __post_init__(self) -> None:
        TrackingCost(self.Q, self.R, self.Qf, self.x_ref, self.u_ref)  # raises where these do not fit together

    @staticmethod
    def example(step: StepMap, steps: int) -> Track:
        """Full matrices, and a reference that no map follows."""
        rng = np.random.default_rng(3)
        Q, R, Qf = (M @ M.T + np.eye(len(M)) for M in (rng.normal(size=(n, n)) for n in (step.ndx, step.nu, step.ndx)))
        x_ref, u_ref = rng.normal(size=(steps + 1, step.nx)), rng.normal(size=(steps, step.nu))
        return Track(Q, R, Qf, step.layout.normalize(x_ref), u_ref)

    def on(self, step: StepMap) -> BoundTerm:
        return _Bound(TrackingCost(self.Q, self.R, self.Qf, self.x_ref, self.u_ref).on(step), step)


class _Bound:
    def __init__(self, cost: TrackingCost, step: StepMap) -> None:
        self.cost, self.horizon = cost, cost.horizon
        self.x, self.u = np.arange(step.ndx), step.ndx + np.arange(step.nu)

    @property
    def weights(self) -> Weights:
        return self.cost.weights

    @property
    def reference(self) -> tuple[Array, Array]:
        return self.cost.reference

    def value(self, trajectory: Trajectory) -> float:
        return self.cost.value(trajectory)

    def expand(self, trajectory: Trajectory) -> Expanded:
        e = self.cost.expand(trajectory)
        running, end = (None, None) if e.bend is None else _halves(e.bend)
        moves = Part(self.x, e.x[:-1], e.xx, running), Part(self.u, e.u, e.uu)
        return Expanded(moves, (Part(self.x, e.x[-1:], e.terminal, end),))


def _halves(bend: Callable[[], Bend]) -> tuple[Callable[[], Array], Callable[[], Array]]:
    def running() -> Array:
        found = bend().xx
        assert found is not None  # of a tracking cost on a manifold
        return found

    def end() -> Array:
        found = bend().terminal
        assert found is not None
        return found[None]

    return running, end
