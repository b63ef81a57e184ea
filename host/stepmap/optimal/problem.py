"""A trajectory optimization problem, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, vector, weight
from stepmap.errors import ConvergenceError, ModelError, ShapeError
from stepmap.optimal.goals.singular import nearly_singular
from stepmap.optimal.objective import Objective, Weights
from stepmap.optimal.plan import Plan, gains_with_steady_end, held_input
from stepmap.steps.limits import InputBounds, InputLimits, state_bounds
from stepmap.steps.pointwise import as_step_map
from stepmap.steps.protocol import Event, StepMap, Trajectory
from stepmap.steps.variational import VariationalStep

if TYPE_CHECKING:
    from stepmap.optimal.events.relaxed import Relaxation


@dataclass(frozen=True, eq=False)
class Problem:
    """min cost(ξ) over trajectories ξ of the step map that begin at ``start`` (eq. 10, Schultz & Murphey).

    The cost is a TrackingCost, a Cost of terms, or any Objective. ``guess`` may be infeasible: it is projected first.
    Without one the inputs of the start are held. ``regulator`` are weights Q, R, Qf of the feedback that projects the
    guess and of the plan's gains; by default those of the cost where it has such, else its own second derivatives.
    ``limits`` of inputs are kept: the search goes along them, and its rollouts are clamped to them. ``states`` are
    limits (low, high) by the name of a state, ``end`` is the state to end in, not a number where it is free: both are
    kept to 1e-8 by multipliers, around the search.
    """

    step: StepMap
    cost: Objective
    start: Array
    guess: Trajectory | None = None
    regulator: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None
    limits: InputLimits | None = None
    states: Mapping[str, tuple[float, float]] | None = None
    end: ArrayLike | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", as_step_map(self.step))
        step, cost = self.step, self.cost
        if not isinstance(cost, Objective):
            raise ModelError(f"cost: expected a TrackingCost or a Cost of terms, got {type(cost).__name__}")
        if self.guess is not None and not isinstance(self.guess, Trajectory):
            raise ModelError(f"guess: expected a Trajectory(t, x, u), got {type(self.guess).__name__}")
        if hasattr(cost, "on"):
            object.__setattr__(self, "cost", cost.on(step))
        object.__setattr__(self, "start", vector(self.start, step.nx, "start"))
        require = getattr(getattr(step, "system", None), "require_on_constraints", None)
        if require is not None:
            try:
                require(step.layout.pose(self.start))
            except ModelError as error:
                raise ModelError(f"start: {error}") from error
        if self.guess is None and self.cost.horizon is None:
            raise ModelError("guess: the cost is for any number of steps; a guess tells how many there are")
        if self.guess is not None:
            states, inputs = (self.horizon + 1, step.nx), (self.horizon, step.nu)
            if self.guess.x.shape != states or self.guess.u.shape != inputs:
                raise ShapeError(
                    f"guess: expected states {states} and inputs {inputs}, "
                    f"got {self.guess.x.shape} and {self.guess.u.shape}"
                )
            if not (np.isfinite(self.guess.x).all() and np.isfinite(self.guess.u).all()):
                raise ShapeError("guess: has entries that are not finite")
        _ = self.weights  # raises where those of the regulator do not fit
        self._check_limits()
        _ = self.state_bounds

    def _check_limits(self) -> None:
        """Raises where limits do not fit the step map, or kinematic coordinates begin outside of them."""
        if self.limits is not None and not isinstance(self.limits, InputLimits):
            raise ModelError(f"limits: expected sm.InputLimits(low, high, rate), got {type(self.limits).__name__}")
        bounds = self.bounds
        if bounds is None:
            return
        for name, at, low, high in zip(self.step.input_names, bounds.tied, bounds.low, bounds.high, strict=True):
            if at >= 0 and not low - 1e-9 <= self.start[at] <= high + 1e-9:
                raise ModelError(
                    f"start: {self.step.state_names[at]} is {self.start[at]:g}, outside the limits of {name}, "
                    f"{low:g} to {high:g}"
                )

    @property
    def constrained(self) -> bool:
        """Whether there are limits of states, or a state to end in."""
        return bool(self.states) or self.end is not None

    @cached_property
    def state_bounds(self) -> tuple[Array, Array, Array]:
        """Low and high limits of states, infinite where there are none, and the end, not a number where it is free."""
        return state_bounds(self.step, self.states or {}, self.end)

    @cached_property
    def bounds(self) -> InputBounds | None:
        """The limits for the inputs of its step map."""
        return None if self.limits is None else self.limits.on(self.step)

    @property
    def horizon(self) -> int:
        """Steps."""
        if self.cost.horizon is not None:
            return self.cost.horizon
        assert self.guess is not None  # one of them tells
        return self.guess.steps

    @cached_property
    def weights(self) -> Weights | None:
        """Of feedback along trajectories: the regulator's, or the cost's; None where neither has any."""
        if self.regulator is None:
            own: Weights | None = getattr(self.cost, "weights", None)
            return own
        if not isinstance(self.regulator, tuple | list) or len(self.regulator) != 3:
            raise ModelError(f"regulator: expected Q, R and Qf, got {self.regulator!r}")
        Q, R, Qf = self.regulator
        n, ndx = self.horizon, self.step.ndx
        return Weights(
            weight(Q, n, ndx, "regulator, Q"),
            weight(R, n, self.step.nu, "regulator, R", definite=True),
            weight(Qf, 0, ndx, "regulator, Qf"),
        )

    def first_guess(self) -> Trajectory:
        """The given guess, or the start held for the whole horizon."""
        n = self.horizon
        t = self.step.dt * np.arange(n + 1)
        if self.guess is not None:
            return Trajectory(t, self.guess.x, self.guess.u)
        held = held_input(self.step, self.start, np.zeros(self.step.nu))
        return Trajectory(t, np.tile(self.start, (n + 1, 1)), np.tile(held, (n, 1)))


class Status(Enum):
    """How a search ended; the text is what to do."""

    CONVERGED = "converged"
    ITERATIONS = "stopped at the iteration limit; raise max_iterations, or start from this solution's trajectory"
    STALLED = (
        "cannot descend further along any direction tried; start from another guess, approach the reference in stages "
        "(homotopy), or make R larger relative to Q"
    )
    KINK = (
        "stands on a kink: an event is at the border between two steps, where the cost has a corner; take another dt, "
        "weigh positions and not momenta, or search with relaxed gaps (sm.optimize_relaxed; in a job gaps = 'relaxed' "
        "in [solver])"
    )
    UNMET = (
        "found no trajectory within the limits of states that ends where it is to; give it more time or wider limits, "
        "or start from another guess"
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
    """The best trajectory found, its stabilizing gains (N, nu, ndx), its cost, and how it was found.

    ``gains`` are those of the search, for the weights of its cost; ``plan`` has those that go to a board.
    """

    status: Status
    trajectory: Trajectory
    gains: Array
    cost: float
    history: tuple[Iteration, ...] = field(default=())
    problem: Problem | None = None  # what it solves
    kink: Event | None = None  # the event at a border between two steps, on which it ended
    relaxation: Relaxation | None = None  # how a search with relaxed gaps came to it

    @cached_property
    def plan(self) -> Plan:
        """The trajectory with gains whose last one can be held, and its reference."""
        if self.problem is None:
            return Plan(self.trajectory, self.gains, self.trajectory)
        weights, found = self.problem.weights, self.trajectory
        gains, fading = (
            self.gains,
            "gains of the search fade towards its end: there are no weights of a regulator",
        )
        if weights is not None:
            gains, fading = gains_with_steady_end(self.problem.step, found, weights.Q, weights.R, self.gains)
        wanted: tuple[Array, Array] | None = getattr(self.problem.cost, "reference", None)
        reference = found if wanted is None else Trajectory(found.t, *wanted)
        return Plan(found, gains, reference, found.events, fading=fading)

    @property
    def advice(self) -> str:
        """How the search ended and what to do, with the event that it ended on, or a constraint that is singular."""
        step = None if self.problem is None else self.problem.step
        if self.status in (Status.STALLED, Status.ITERATIONS) and isinstance(step, VariationalStep):
            worst = nearly_singular(step, self.trajectory)[:1]
            return "; ".join([str(self.status), *map(str, worst)])
        if self.kink is None or self.status is not Status.KINK:
            return str(self.status)
        return f"{self.status} ({self.kink.kind} of {self.kink.name!r} at {self.kink.time:.6g} s)"

    def require(self) -> Solution:
        """Itself when converged; raises ConvergenceError otherwise."""
        if not self.status.ok:
            last = self.history[-1].slope if self.history else float("nan")
            raise ConvergenceError(
                f"optimization {self.advice}", iterations=len(self.history), residual=abs(last), x=self.trajectory.x
            )
        return self
