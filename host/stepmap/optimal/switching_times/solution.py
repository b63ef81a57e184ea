"""What a search for switching times ends in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError
from stepmap.optimal.lqr import gains
from stepmap.optimal.plan import Plan
from stepmap.optimal.problem import Status
from stepmap.steps.base import KernelStep
from stepmap.steps.protocol import Trajectory

ADVICE = {
    Status.ITERATIONS: "the search stopped at the iteration limit; raise max_iterations, or start from its tau",
    Status.STALLED: "no step descends any further; start from other times, or give long modes more steps",
    Status.INTERRUPTED: "the search was interrupted; the best times so far are kept, start again from its tau",
}


@dataclass(frozen=True, eq=False)
class SwitchingSolution:
    """The best switching times found, their cost, gradient and motion."""

    status: Status
    tau: Array
    cost: float
    gradient: Array
    iterations: int
    trajectory: Trajectory
    step: KernelStep
    lengths: Array  # of the steps [s]
    vanished: tuple[int, ...] = ()  # modes that would rather not be: as short as they may become

    @cached_property
    def plan(self) -> Plan:
        """The motion with gains that weigh all tangent dimensions and inputs the same, and its switches as acts."""
        A, B = self.step.linearize_along(self.trajectory, self.lengths)
        n, nu = self.step.ndx, self.step.nu
        K = gains(A, B, np.eye(n), np.eye(nu), np.eye(n))
        why = "gains of a finite horizon fade towards its end: steps have different lengths"
        acts = (0.0, *self.tau.tolist())
        return Plan(self.trajectory, K, self.trajectory, self.trajectory.events, acts, fading=why)

    def require(self) -> SwitchingSolution:
        """Itself when converged; raises ConvergenceError otherwise."""
        if not self.status.ok:
            residual = float(np.abs(self.gradient).max(initial=0.0))
            told = f"switching times: {ADVICE.get(self.status, self.status.value)}"
            raise ConvergenceError(told, iterations=self.iterations, residual=residual, x=self.tau)
        return self
