"""Trajectory optimization with the discrete projection operator (Murphey & Johnson III; eq. 10–12, Schultz & Murphey).

A descent direction ζ is found in the space tangent to the trajectories, by a linear-quadratic problem; ξ + γ ζ is not
a trajectory, so a feedback rollout along it, the projection P, makes it one. Newton's direction needs the second
derivative of cost ∘ P, which is that of the cost plus Σ s_{k+1}ᵀ D²f with the costates s of the closed loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.optimal.augmented import within_constraints
from stepmap.optimal.directions import (
    FINENESS,
    ROUNDING,
    Direction,
    Point,
    gauss_newton,
    largest_part,
    newton_model,
    point,
    solve_gauss_newton,
    steepest,
)
from stepmap.optimal.events.kinks import kink, shifted
from stepmap.optimal.lqr import gains, lqr
from stepmap.optimal.objective import Objective
from stepmap.optimal.problem import Iteration, Problem, Solution, Status
from stepmap.steps.kernels import kept
from stepmap.steps.protocol import Event, StepMap, Trajectory

Method: TypeAlias = Literal["newton", "gauss-newton", "steepest"]
Monitor: TypeAlias = Callable[[int, Iteration, Trajectory], None]

ARMIJO = 1e-3  # part of the predicted decrease that must be had
SHORTEST = 1e-7  # step length below which a direction is given up
LONG_ENOUGH = 0.25  # Newton's direction is taken without looking further when a step this long succeeds
MILDER = 0.7
FAST = 0.3  # part of the cost that Gauss–Newton has to gain, or curvature is evaluated
TRUSTED = 0.1  # error of a model's prediction up to which it is trusted
NEARLY_NONE = 0.2
CREEPING = 1e-2  # length of the last steps of a search that is held up


@dataclass
class Pace:
    """What a search remembers of its last iteration."""

    slow: bool = False  # Gauss–Newton gained too little: curvature is worth its time
    part: float = 1.0  # of the curvature, with which the model had a minimum
    trusted: bool = False  # Gauss–Newton's step of this iteration gained what its model had foretold


@dataclass(frozen=True)
class Trial:
    """A step along a direction that lowers the cost."""

    direction: Direction
    length: float
    trajectory: Trajectory
    cost: float


@kept.arrays()
def optimize(
    problem: Problem,
    *,
    method: Method = "newton",
    max_iterations: int = 200,
    tolerance: float = 1e-12,
    monitor: Monitor | None = None,
) -> Solution:
    """The trajectory of least cost near the guess, with stabilizing gains.

    Stops when the directional derivative of the best direction is above −``tolerance``, or is all rounding. ``monitor``
    is called after every iteration with its number, its Iteration and the trajectory it set out from. A search that
    ends early returns its best trajectory and a status that says what to do; Ctrl-C does so too.
    """
    if method not in ("newton", "gauss-newton", "steepest"):
        raise ModelError(f"method: expected 'newton', 'gauss-newton' or 'steepest', got {method!r}")
    if max_iterations < 0 or not tolerance >= 0:
        raise ModelError("max_iterations and tolerance must not be negative")
    if problem.constrained:

        def search(inner: Problem, iterations: int) -> Solution:
            return optimize(inner, method=method, max_iterations=iterations, tolerance=tolerance, monitor=monitor)

        return within_constraints(problem, search, max_iterations)
    step, cost = problem.step, problem.cost
    at, pace = _start(problem), Pace()
    history: list[Iteration] = []
    status = Status.ITERATIONS
    try:
        for number in range(max_iterations + 1):
            try:
                found = _descend(step, cost, at, method, tolerance, pace, last=number == max_iterations)
            except (ConvergenceError, ModelError):  # beyond here the model cannot be evaluated: keep what there is
                found = Status.STALLED
            if isinstance(found, Status):
                status = found
                break
            direction, length, next_point = found
            history.append(Iteration(at.cost, direction.slope, length, direction.method))
            before, at = at, next_point or at  # first, so that an interrupted monitor does not cost the step
            if monitor is not None:
                monitor(number, history[-1], before.trajectory)
            if next_point is None:
                status = Status.CONVERGED
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    corner = _corner(step, at, status, history)
    status = status if corner is None else Status.KINK
    return Solution(status, at.trajectory, _gains(problem, at), at.cost, tuple(history), problem, corner)


def _start(problem: Problem) -> Point:
    """The guess, projected with the regulator along it; a start that feedback cannot hold is let go."""
    step, cost, guess = problem.step, problem.cost, problem.first_guess()
    weights = getattr(cost, "weights", None) or problem.weights  # the plan is the same, however feedback is tuned
    K = point(step, cost, guess, np.inf).K if weights is None else lqr(step, guess, *weights)
    bounds = problem.bounds
    within = {} if bounds is None else {"within": bounds}  # a map of the user's own may not know of limits
    try:
        trajectory = step.follow(problem.start, guess, K, **within)
    except ConvergenceError as error:
        if problem.guess is not None:
            raise ConvergenceError(
                f"guess: the closed loop along it has no solution; start from one nearer to a trajectory ({error})",
                iterations=error.iterations,
                residual=error.residual,
                x=error.x,
            ) from error
        let_go = np.zeros_like(K)
        trajectory = (
            step.follow(problem.start, guess, let_go, **within) if within else step.rollout(problem.start, guess.u)
        )
    value = cost.value(trajectory)
    if not np.isfinite(value):
        raise ModelError(
            f"cost: it is not a finite number along the guess, but {value}; a root, say, may not exist there"
        )
    return point(step, cost, trajectory, value, bounds)


def _corner(step: StepMap, at: Point, status: Status, history: list[Iteration]) -> Event | None:
    """The event on whose kink a search ended that could not descend, or only by ever shorter steps."""
    creeping = status is Status.ITERATIONS and history and max(entry.length for entry in history[-3:]) < CREEPING
    if not (status is Status.STALLED or creeping):
        return None
    try:
        return kink(step, at, [gauss_newton(at), steepest(at)])
    except ModelError:  # there is no direction
        return None


def _gains(problem: Problem, at: Point) -> Array:
    """Gains along the result for the weights of its regulator; the search's own where there are none.

    With limits those of the search are no use: they are zero wherever an input is at one.
    """
    weights, e = problem.weights, at.expansion
    same = weights is not None and weights.Q is e.xx and weights.R is e.uu and weights.Qf is e.terminal and e.xu is None
    own = at.f is not None and at.bounds is None
    if weights is not None and not (same and own):
        return gains(at.A, at.B, *weights, at.copied)
    return at.K if own else solve_gauss_newton(replace(at, bounds=None))[0]


def _descend(
    step: StepMap, cost: Objective, at: Point, method: Method, tolerance: float, pace: Pace, last: bool
) -> Status | tuple[Direction, float, Point | None]:
    """One iteration: the trial of least cost among those the method calls for, or how the search ends."""
    best: Trial | None = None
    for direction in _directions(step, at, method, pace):
        if -direction.slope <= max(tolerance, ROUNDING**2 * abs(at.cost)):  # the slope is quadratic in the direction
            return direction, 0.0, None
        if last:
            return Status.ITERATIONS
        trial = _line_search(step, cost, at, direction)
        if trial is not None and (best is None or trial.cost < best.cost):
            best = trial
        if best is not None and _enough(at, best):
            break
        pace.trusted = trial is not None and _foretold(at, trial)
        if trial is None and -direction.slope <= ROUNDING * abs(at.cost):
            return direction, 0.0, None  # what is left to gain is below the cost's rounding
    if best is None:
        best = _line_search(step, cost, at, steepest(at))
    if best is None:
        return Status.STALLED
    pace.slow = not _fast(at, best)
    K = at.K if best.direction.method == "newton" and _foretold(at, best) else None
    held = best.direction.held
    return best.direction, best.length, point(step, cost, best.trajectory, best.cost, at.bounds, K=K, held=held)


def _enough(at: Point, trial: Trial) -> bool:
    """Whether other directions need not be tried."""
    if trial.direction.method == "newton":
        return trial.length >= LONG_ENOUGH
    return _fast(at, trial)


def _fast(at: Point, trial: Trial) -> bool:
    """Whether Gauss–Newton gained so much that curvature would be a waste of time."""
    return trial.direction.method == "gauss-newton" and at.cost - trial.cost >= FAST * abs(at.cost)


def _foretold(at: Point, trial: Trial) -> bool:
    """Whether a whole step gained what its model foretells, half its slope: then no saddle is near."""
    foretold = -trial.direction.slope / 2
    return trial.length == 1.0 and abs(at.cost - trial.cost - foretold) <= TRUSTED * foretold


def _line_search(step: StepMap, cost: Objective, at: Point, direction: Direction) -> Trial | None:
    """Armijo's rule by halving; a step whose rollout fails counts as too long."""
    length = 1.0
    here = at.trajectory
    while length >= SHORTEST:
        wanted = shifted(step, here, direction, length)
        try:
            trajectory = at.follow(step, wanted, direction)
            with np.errstate(over="ignore", invalid="ignore"):
                value = cost.value(trajectory)
        except ConvergenceError:
            value = np.inf
        if value <= at.cost + ARMIJO * length * direction.slope + _slack(at.cost, length * direction.slope):
            return Trial(direction, length, trajectory, value)
        length /= 2
    return None


def _slack(cost: float, predicted: float) -> float:
    """Near the optimum the predicted decrease drowns in rounding: there any step within rounding is a success."""
    rounding = ROUNDING * abs(cost)
    return rounding if -predicted < 100 * rounding else 0.0


def _directions(step: StepMap, at: Point, method: Method, pace: Pace) -> Iterator[Direction]:
    """Directions to try. Newton's own is taken when a long step along it succeeds, Gauss–Newton's when it gains much.

    Far from the optimum Newton's model may have no minimum. It has one with a part of the curvature: the largest such
    part leads fastest out of a saddle, none at all is Gauss–Newton and safest; the trial of least cost decides.
    """
    if method == "steepest":
        yield steepest(at)
        return
    if method == "gauss-newton" or not pace.slow:
        yield gauss_newton(at)
        if method == "gauss-newton":
            return
    solve = newton_model(step, at)
    largest, direction = 1.0, solve(1.0)
    if direction is None:
        if pace.slow:
            yield gauss_newton(at)
        if pace.trusted:
            return  # no saddle is near, or Gauss–Newton would not know its way so well
        largest, direction = largest_part(solve, pace.part, limited=at.bounds is not None)
        pace.part = largest or FINENESS
    if direction is not None:
        yield direction
    milder = solve(MILDER * largest) if largest > NEARLY_NONE else None
    if milder is not None:
        yield milder
    if pace.slow and largest == 1.0:
        yield gauss_newton(at)
