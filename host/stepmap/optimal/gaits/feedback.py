"""Gains that hold a gait through its landings, and Floquet multipliers of its return map.

    P_k = Q + A_kᵀ P_{k+1} (A_k − B_k K_k),   K_k = (R + B_kᵀ P_{k+1} B_k)⁻¹ B_kᵀ P_{k+1} A_k,   P_N = P_0

A and B of the step that lands are those of landing.py. The period is swept until P repeats.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, weight
from stepmap.errors import ConvergenceError
from stepmap.optimal.gaits.cycle import Cycle
from stepmap.optimal.gaits.jump import Jump
from stepmap.optimal.lqr import gains as regulator
from stepmap.optimal.riccati import Quadratic, recursions
from stepmap.steps.protocol import Trajectory

TURNS, REPEATS = 200, 1e-11


class Slopes(NamedTuple):
    """A (N, ndx, ndx), B (N, ndx, nu) along a gait, deviations as Mode.deviations leaves them; ``start``: Π at x[0]."""

    A: Array
    B: Array
    start: Array  # (ndx, ndx)

    def monodromy(self, gains: Array | None = None) -> Array:
        """The derivative of the return map, with feedback where gains are given."""
        total = self.start
        for k in range(len(self.A)):
            total = (self.A[k] if gains is None else self.A[k] - self.B[k] @ gains[k]) @ total
        return self.start @ total

    def multipliers(self, gains: Array | None = None) -> Array:
        """Floquet multipliers, the largest first; directions that do not matter have none."""
        values = np.linalg.eigvals(self.monodromy(gains))
        count = round(float(np.trace(self.start)))
        return values[np.argsort(-np.abs(values))][:count]


class Feedback(NamedTuple):
    """Gains (N, nu, ndx), the cost-to-go P at x[0], and how often the period was swept."""

    gains: Array
    P: Array
    turns: int


def slopes(cycle: Cycle, *, fixed: bool = False) -> Slopes:
    """A and B along a gait; ``fixed`` takes landings at the times of the plan, which they are not in the world."""
    all_A, all_B = [], []
    for i, begin in cycle.begins():
        step, stretch, mode = cycle.maps[i], cycle.stretches[i], cycle.modes[i]
        nodes = slice(begin, begin + stretch.steps)
        X = cycle.x[begin : begin + stretch.steps + 1].copy()
        X[0] = cycle.start_of(begin, i)
        A, B = step.linearize_along(Trajectory(cycle.t[: stretch.steps + 1], X, cycle.u[nodes]))
        landing = cycle.landing(i)
        if landing is not None:
            landed = landing(X[-2], cycle.u[nodes][-1])
            A[-1], B[-1] = landed.fixed if fixed else (landed.A, landed.B)
        elif i + 1 == len(cycle.stretches):
            J = _renamed(cycle, X[-1])
            A[-1], B[-1] = J @ A[-1], J @ B[-1]
        keep = np.array([mode.deviations(x) for x in step.layout.pose(X[:-1])])
        all_A.append(A @ keep)
        all_B.append(B)
    start = cycle.modes[0].deviations(cycle.maps[0].layout.pose(cycle.x[0]))
    return Slopes(np.concatenate(all_A), np.concatenate(all_B), start)


def _renamed(cycle: Cycle, x: Array) -> Array:
    """The derivative of a renaming without an impact."""
    mode = cycle.modes[-1]
    return Jump(mode, mode, cycle.renaming)(x, cycle.system.parameter_values).slope


def periodic_gains(found: Slopes, Q: ArrayLike, R: ArrayLike) -> Feedback:
    """The regulator of a periodic motion; Q (ndx, ndx) weighs deviations of the state, R (nu, nu) those of inputs."""
    n, nu = found.B.shape[1:]
    Q, R = weight(Q, 0, n, "Q"), weight(R, 0, nu, "R", definite=True)
    P, change = Q, np.inf
    for turn in range(1, TURNS + 1):
        status, gains, _, before = recursions().backward(Quadratic(found.A, found.B, Q, R, P))
        if status or not np.isfinite(before).all():
            break
        change = float(np.abs(before - P).max() / np.abs(before).max())
        P = before
        if change <= REPEATS:
            return Feedback(gains, P, turn)
    raise ConvergenceError(
        "no gains hold this gait: the cost of a deviation grows from period to period",
        hint="Its landings may have no speed (ask for landing={...}), or its inputs cannot reach what falls.",
        iterations=TURNS,
        residual=change,
        x=P,
    )


def finite_gains(found: Slopes, Q: Array, R: Array) -> Array:
    """Gains of one period with Qf = Q: what a tracking job would take, for comparison."""
    return regulator(found.A, found.B, Q, R, Q)
