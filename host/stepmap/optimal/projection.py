"""Trajectory optimization with the discrete projection operator (Murphey & Johnson III; eq. 10–12, Schultz & Murphey).

A descent direction ζ is found in the space tangent to the trajectories, by a linear-quadratic problem; ξ + γ ζ is not
a trajectory, so a feedback rollout along it, the projection P, makes it one. Newton's direction needs the second
derivative of cost ∘ P, which is that of the cost plus Σ s_{k+1}ᵀ D²f with the costates s of the closed loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.optimal.cost import Expansion, TrackingCost
from stepmap.optimal.lqr import gains
from stepmap.optimal.problem import Iteration, Problem, Solution, Status
from stepmap.optimal.riccati import Quadratic, recursions
from stepmap.steps.protocol import StepMap, Trajectory

Method: TypeAlias = Literal["newton", "gauss-newton", "steepest"]
Monitor: TypeAlias = Callable[[int, Iteration, Trajectory], None]

ARMIJO = 1e-3  # part of the predicted decrease that must be had
SHORTEST = 1e-7  # step length below which a direction is given up
ROUNDING = 1e-13  # relative rounding of a cost summed over a trajectory
LONG_ENOUGH = 0.25  # Newton's direction is taken without looking further when a step this long succeeds
FINENESS = 1 / 16  # of the part of the curvature that is searched for, relative to what is left out of it
MILDER = 0.7
NEARLY_NONE = 0.2


@dataclass(frozen=True)
class Direction:
    """A tangent direction: changes of x and u, the derivative of the cost along it, and how it was made."""

    z: Array
    v: Array
    slope: float
    method: str


@dataclass(frozen=True)
class Point:
    """A feasible trajectory with what all directions at it share."""

    trajectory: Trajectory
    cost: float
    A: Array
    B: Array
    K: Array
    expansion: Expansion


@dataclass(frozen=True)
class Trial:
    """A step along a direction that lowers the cost."""

    direction: Direction
    length: float
    trajectory: Trajectory
    cost: float


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
    step, cost = problem.step, problem.cost
    at = _start(problem)
    history: list[Iteration] = []
    status = Status.ITERATIONS
    try:
        for number in range(max_iterations + 1):
            try:
                found = _descend(step, cost, at, method, tolerance, last=number == max_iterations)
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
    return Solution(status, at.trajectory, at.K, at.cost, tuple(history), problem)


def _start(problem: Problem) -> Point:
    """The guess, projected with the regulator along it; a start that feedback cannot hold is let go."""
    step, cost, guess = problem.step, problem.cost, problem.first_guess()
    A, B = step.linearize_along(guess)
    K = gains(A, B, cost.Q, cost.R, cost.Qf)
    try:
        trajectory = step.follow(problem.start, guess, K)
    except ConvergenceError as error:
        if problem.guess is not None:
            raise ConvergenceError(
                f"guess: the closed loop along it has no solution; start from one nearer to a trajectory ({error})",
                iterations=error.iterations,
                residual=error.residual,
                x=error.x,
            ) from error
        trajectory = step.rollout(problem.start, guess.u)
    return _point(step, cost, trajectory, cost.value(trajectory))


def _point(step: StepMap, cost: TrackingCost, trajectory: Trajectory, value: float) -> Point:
    A, B = step.linearize_along(trajectory)
    K = gains(A, B, cost.Q, cost.R, cost.Qf)
    return Point(trajectory, value, A, B, K, cost.expand(trajectory))


def _descend(
    step: StepMap, cost: TrackingCost, at: Point, method: Method, tolerance: float, last: bool
) -> Status | tuple[Direction, float, Point | None]:
    """One iteration: the trial of least cost among those the method calls for, or how the search ends."""
    best: Trial | None = None
    for direction in _directions(step, at, method):
        if -direction.slope <= max(tolerance, ROUNDING**2 * abs(at.cost)):  # the slope is quadratic in the direction
            return direction, 0.0, None
        if last:
            return Status.ITERATIONS
        trial = _line_search(step, cost, at, direction)
        if trial is not None and (best is None or trial.cost < best.cost):
            best = trial
        if best is not None and (best.length >= LONG_ENOUGH and best.direction.method == "newton"):
            break
        if trial is None and -direction.slope <= ROUNDING * abs(at.cost):
            return direction, 0.0, None  # what is left to gain is below the cost's rounding
    if best is None:
        steepest = _steepest(at)
        best = _line_search(step, cost, at, steepest)
    if best is None:
        return Status.STALLED
    return best.direction, best.length, _point(step, cost, best.trajectory, best.cost)


def _line_search(step: StepMap, cost: TrackingCost, at: Point, direction: Direction) -> Trial | None:
    """Armijo's rule by halving; a step whose rollout fails counts as too long."""
    length = 1.0
    here = at.trajectory
    while length >= SHORTEST:
        wanted = Trajectory(here.t, here.x + length * direction.z, here.u + length * direction.v)
        try:
            trajectory = step.follow(here.x[0], wanted, at.K)
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


def _directions(step: StepMap, at: Point, method: Method) -> Iterator[Direction]:
    """Directions to try. Newton's own comes first and is taken when a long step along it succeeds.

    Far from the optimum its model may have no minimum. It has one with a part of the dynamics' curvature: the largest
    such part leads fastest out of a saddle, none at all is Gauss–Newton and safest; the trial of least cost decides.
    """
    if method == "steepest":
        yield _steepest(at)
        return
    if method == "gauss-newton":
        yield _gauss_newton(at)
        return
    solve = _newton_model(step, at)
    full = solve(1.0)
    largest = 1.0
    if full is not None:
        yield full
    else:
        largest, direction = _largest_part(solve)
        if direction is not None:
            yield direction
    milder = solve(MILDER * largest) if largest > NEARLY_NONE else None
    if milder is not None:
        yield milder
    yield _gauss_newton(at)


def _newton_model(step: StepMap, at: Point) -> Callable[[float], Direction | None]:
    """Directions with a part of the dynamics' curvature, 1 for Newton's own; None where the model has no minimum."""
    e = at.expansion
    s = recursions().adjoint(at.A, at.B, at.K, e.x, e.u)
    bend = step.curvature_along(at.trajectory, s[1:])

    model = Quadratic(at.A, at.B, e.xx, e.uu, e.terminal, e.x, e.u, (bend.xx, bend.xu, bend.uu))

    def solve(part: float) -> Direction | None:
        return _minimize(at, model, part, "newton" if part == 1.0 else f"newton {part:.2g}")

    return solve


def _largest_part(solve: Callable[[float], Direction | None]) -> tuple[float, Direction | None]:
    """The largest part of the curvature that leaves a minimum, by bisection; finer near 1, where saddles are."""
    low, high, found = 0.0, 1.0, None
    while high - low > max(FINENESS * (1.0 - low), FINENESS**2):
        middle = (low + high) / 2
        direction = solve(middle)
        if direction is None:
            high = middle
        else:
            low, found = middle, direction
    return low, found


def _gauss_newton(at: Point) -> Direction:
    e = at.expansion
    direction = _minimize(at, Quadratic(at.A, at.B, e.xx, e.uu, e.terminal, e.x, e.u), 0.0, "gauss-newton")
    if direction is None:
        raise ModelError("the cost's weights are so far apart that no direction can be computed; scale Q and R closer")
    return direction


def _steepest(at: Point) -> Direction:
    e = at.expansion
    x, u = np.eye(at.A.shape[1]), np.eye(at.B.shape[2])
    direction = _minimize(at, Quadratic(at.A, at.B, x, u, x, e.x, e.u), 0.0, "steepest")
    if direction is None:  # R = 1 makes it positive definite, unless numbers overflow
        raise ModelError("the linearization overflows; scale the states and inputs, or shorten the horizon")
    return direction


def _minimize(at: Point, model: Quadratic, part: float, name: str) -> Direction | None:
    """The minimizer of the quadratic model over the tangent space, or None where it has none."""
    status, K, f, _ = recursions().backward(model, part)
    if status:
        return None
    z, v = recursions().forward(at.A, at.B, K, f)
    slope = float(np.sum(at.expansion.x * z) + np.sum(at.expansion.u * v))
    if not np.isfinite(slope) or slope > 0:
        return None
    return Direction(z, v, slope, name)
