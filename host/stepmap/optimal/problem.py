"""A trajectory optimization problem, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stepmap.arrays import Array, vector
from stepmap.errors import ConvergenceError, ModelError, ShapeError
from stepmap.optimal.cost import TrackingCost
from stepmap.optimal.plan import Plan, gains_with_steady_end, held_input
from stepmap.steps.protocol import StepMap, Trajectory


@dataclass(frozen=True, eq=False)
class Problem:
    """min cost(ξ) over trajectories ξ of the step map that begin at ``start`` (eq. 10, Schultz & Murphey).

    ``guess`` may be infeasible: it is projected first. Without one the inputs of the start are held.
    """

    step: StepMap
    cost: TrackingCost
    start: Array
    guess: Trajectory | None = None

    def __post_init__(self) -> None:
        step, cost = self.step, self.cost
        if not isinstance(step, StepMap):
            raise ModelError(f"step: expected a StepMap from discretize(...), got {type(step).__name__}")
        if not isinstance(cost, TrackingCost):
            raise ModelError(f"cost: expected a TrackingCost, got {type(cost).__name__}")
        if self.guess is not None and not isinstance(self.guess, Trajectory):
            raise ModelError(f"guess: expected a Trajectory(t, x, u), got {type(self.guess).__name__}")
        if cost.x_ref.shape[1] != step.nx or cost.u_ref.shape[1] != step.nu:
            raise ShapeError(
                f"cost: its reference has {cost.x_ref.shape[1]} states and {cost.u_ref.shape[1]} inputs, "
                f"the step map has {step.nx} and {step.nu}"
            )
        object.__setattr__(self, "start", vector(self.start, step.nx, "start"))
        require = getattr(getattr(step, "system", None), "require_on_constraints", None)
        if require is not None:
            try:
                require(self.start[: step.nx // 2])
            except ModelError as error:
                raise ModelError(f"start: {error}") from error
        if self.guess is not None:
            if self.guess.x.shape != cost.x_ref.shape or self.guess.u.shape != cost.u_ref.shape:
                raise ShapeError(
                    f"guess: expected states {cost.x_ref.shape} and inputs {cost.u_ref.shape}, "
                    f"got {self.guess.x.shape} and {self.guess.u.shape}"
                )
            if not (np.isfinite(self.guess.x).all() and np.isfinite(self.guess.u).all()):
                raise ShapeError("guess: has entries that are not finite")

    def first_guess(self) -> Trajectory:
        """The given guess, or the start held for the whole horizon."""
        t = self.step.dt * np.arange(self.cost.horizon + 1)
        if self.guess is not None:
            return Trajectory(t, self.guess.x, self.guess.u)
        n, held = self.cost.horizon, held_input(self.step, self.start, np.zeros(self.step.nu))
        return Trajectory(t, np.tile(self.start, (n + 1, 1)), np.tile(held, (n, 1)))


class Status(Enum):
    """How a search ended; the text is what to do."""

    CONVERGED = "converged"
    ITERATIONS = "stopped at the iteration limit; raise max_iterations, or start from this solution's trajectory"
    STALLED = (
        "cannot descend further along any direction tried; start from another guess, approach the reference in stages "
        "(homotopy), or make R larger relative to Q"
    )
    INTERRUPTED = "interrupted; the best trajectory so far is kept, start again from it"

    @property
    def ok(self) -> bool:
        return self is Status.CONVERGED

    @property
    def interrupted(self) -> bool:
        return self is Status.INTERRUPTED

    def __str__(self) -> str:
        return self.value


class Iteration(NamedTuple):
    """One iteration: cost before it, directional derivative of its direction, step length taken, kind of direction."""

    cost: float
    slope: float
    length: float
    method: str


@dataclass(frozen=True, eq=False)
class Solution:
    """The best trajectory found, its stabilizing gains (N, nu, nx), its cost, and how it was found.

    ``gains`` are those of the search, for the weights of its cost; ``plan`` has those that go to a board.
    """

    status: Status
    trajectory: Trajectory
    gains: Array
    cost: float
    history: tuple[Iteration, ...] = field(default=())
    problem: Problem | None = None  # what it solves

    @cached_property
    def plan(self) -> Plan:
        """The trajectory with gains whose last one can be held, and its reference."""
        if self.problem is None:
            return Plan(self.trajectory, self.gains, self.trajectory)
        step, cost = self.problem.step, self.problem.cost
        gains = gains_with_steady_end(step, self.trajectory, cost.Q, cost.R, self.gains)
        return Plan(self.trajectory, gains, Trajectory(self.trajectory.t, cost.x_ref, cost.u_ref))

    def require(self) -> Solution:
        """Itself when converged; raises ConvergenceError otherwise."""
        if not self.status.ok:
            last = self.history[-1].slope if self.history else float("nan")
            raise ConvergenceError(
                f"optimization {self.status}", iterations=len(self.history), residual=abs(last), x=self.trajectory.x
            )
        return self
