"""The landing as one step of free length: the map up to where the gap closes, the jump, the new names.

    g(q_α) = 0,   x_α = f(x, u; α),   x' = J(x_α)
    dα = −(g_q q̇_α)⁻¹ g_q dq_α,   A = J_x (∂x_α/∂x + ∂x_α/∂α dα/dx),   B likewise

These A and B are the saltation matrices of the discrete map: a deviation changes the time of the landing as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError
from stepmap.optimal.gaits.jump import Jump
from stepmap.steps.events.step import EventStep

ENOUGH, TURNS = 1e-13, 40  # s; of Newton's method for the time


class Landed(NamedTuple):
    """What a landing did, and its derivatives."""

    x: Array  # after it, in new names
    A: Array  # (ndx, ndx)
    B: Array  # (ndx, nu)
    time: float  # since the step's begin [s]
    before: Array  # x_α
    impulses: Array  # N s
    fixed: tuple[Array, Array]  # A and B where the time of the landing is taken as fixed


@dataclass(frozen=True, eq=False)
class Landing:
    """The gap in row ``row`` of h closes while ``step`` moves, a map in which that gap does not exist."""

    step: EventStep
    row: int
    jump: Jump

    def __call__(self, x: Array, u: Array, near: float | None = None) -> Landed:
        """The landing from x under u that happens about ``near`` [s] later, by default at the end of the step."""
        step, system, n, nq = self.step, self.step.system, self.step.nd, self.step.layout.nq
        alpha = step.dt if near is None else near
        for _ in range(TURNS):
            at = step.length_sensitivity(x, u, dt=alpha)
            pose = at.x[:nq]
            slope = system.residuals_slope(pose)[self.row, :n]
            speed = float(slope @ at.T[:n])
            change = -float(system.residuals(pose)[self.row]) / speed if speed else np.inf
            if not np.isfinite(change) or not 0 < alpha + change < 20 * step.dt:
                break
            alpha += change
            if abs(change) <= ENOUGH * max(1.0, step.dt):
                return self._landed(x, u, alpha)
        raise ConvergenceError(
            f"no landing of {system.constraint_names[self.row]!r} near {alpha:.4g} s",
            hint="A landing needs speed: ask for one with landing={...}.",
            iterations=TURNS,
            residual=float(abs(system.residuals(pose)[self.row])),
            x=x,
        )

    def _landed(self, x: Array, u: Array, alpha: float) -> Landed:
        n = self.step.nd
        at = self.step.length_sensitivity(x, u, dt=alpha)
        slope = self.step.system.residuals_slope(self.step.layout.pose(at.x))[self.row, :n]
        later = -1.0 / float(slope @ at.T[:n])
        A, B = (D + np.outer(at.T, later * slope @ D[:n]) for D in (at.A, at.B))
        after = self.jump(at.x, self.step.system.parameter_values)
        J = after.slope
        return Landed(after.x, J @ A, J @ B, alpha, at.x, after.impulses, (J @ at.A, J @ at.B))
