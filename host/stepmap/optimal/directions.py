"""Directions at a trajectory: minimizers of linear-quadratic models of the cost over its tangent space.

Where inputs have limits, a model is minimized within them by an active set over the whole horizon. Inputs of the set
are held at their limits, and feedback through them is switched off, in the projection and in the costates: kept there,
it would promise a change that the limit does not allow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.optimal.objective import Bend, Expansion, Objective
from stepmap.optimal.riccati import Quadratic, recursions
from stepmap.steps.layout import Copied
from stepmap.steps.limits import InputBounds
from stepmap.steps.protocol import StepMap, Trajectory

ROUNDING = 1e-13  # relative rounding of a cost summed over a trajectory
PASSES = 30  # over the horizon, in which a set of held inputs has to settle; most do in five
MANY_PASSES = 50  # for a model that would otherwise give no direction at all
FINENESS = 1 / 16  # of the part of the curvature that is searched for, relative to what is left out of it
SHRINK = 0.8


@dataclass(frozen=True)
class Direction:
    """A tangent direction: changes of x and u, the derivative of the cost along it, and how it was made.

    With limits, ``held`` are the inputs that are at theirs (riccati.Limited) and ``K`` the gains of its model.
    """

    z: Array
    v: Array
    slope: float
    method: str
    held: Array | None = None
    K: Array | None = None


@dataclass(frozen=True)
class Point:
    """A feasible trajectory with what all directions at it share.

    K is the feedback of the projection: that of the Gauss–Newton model, whose solution is v = −K z − f. Where Newton's
    method converges, K is that of an earlier point and f is None: a pass of the recursion less. With limits, ``held``
    is the set of inputs that models begin with.
    """

    trajectory: Trajectory
    cost: float
    A: Array
    B: Array
    K: Array
    f: Array | None
    expansion: Expansion
    bounds: InputBounds | None = None
    held: Array | None = None
    copied: Copied | None = None  # what is known of A and B

    def model(self) -> Quadratic:
        """Of Gauss and Newton: without curvature of the map."""
        e = self.expansion
        return Quadratic(self.A, self.B, e.xx, e.uu, e.terminal, e.x, e.u, S=e.xu, copied=self.copied)

    def follow(self, step: StepMap, wanted: Trajectory, direction: Direction) -> Trajectory:
        """The projection of a step along a direction, from the same start."""
        if self.bounds is None:
            return step.follow(wanted.x[0], wanted, self.K)
        K, held = self.K, direction.held
        if held is not None and held.any():
            own = direction.K is not None and direction.method in ("newton", "gauss-newton")
            K = direction.K if own and direction.K is not None else without(self.K, held, self.bounds)
        return step.follow(wanted.x[0], wanted, K, within=self.bounds)  # type: ignore[call-arg]


def point(
    step: StepMap,
    cost: Objective,
    trajectory: Trajectory,
    value: float,
    bounds: InputBounds | None = None,
    *,
    K: Array | None = None,
    held: Array | None = None,
) -> Point:
    """The point at a trajectory, with its own gains or those of another; ``held`` is what was, on the way to it."""
    e = cost.expand(trajectory)
    A, B = e.linearization or step.linearize_along(trajectory)
    if bounds is not None:
        at = bounds.at_limit(trajectory.x[:-1], trajectory.u)
        held = np.zeros_like(at) if held is None else np.where(held == at, held, 0).astype(np.intc)
    copied = step.layout.copied
    made = Point(trajectory, value, A, B, np.zeros(0) if K is None else K, None, e, bounds, held, copied)
    if K is not None:
        return made
    K, f, held = solve_gauss_newton(made)
    return replace(made, K=K, f=f, held=held)


def solve_gauss_newton(at: Point) -> tuple[Array, Array, Array | None]:
    """K, f and the held inputs of the Gauss–Newton model."""
    status, K, f, held = _solve(at.model(), 0.0, at)
    if status:
        raise ModelError(
            f"the cost's second derivative is not positive at step {status - 1}: every input needs a cost, and weights "
            "must not be too far apart; scale Q and R closer to each other"
        )
    return K, f, held


def gauss_newton(at: Point) -> Direction:
    """The direction of the model without curvature."""
    K, f, held = (at.K, at.f, at.held) if at.f is not None else solve_gauss_newton(at)
    direction = _direction(at, K, f, "gauss-newton", held)
    if direction is None and at.bounds is not None:  # the set has not settled
        _, K, f, held = _solve(at.model(), 0.0, at, MANY_PASSES)
        direction = _direction(at, K, f, "gauss-newton", held)
    if direction is None:
        raise ModelError("the cost's weights are so far apart that no direction can be computed; scale Q and R closer")
    return direction


def steepest(at: Point) -> Direction:
    """Down the slope, all states and inputs weighing the same."""
    e = at.expansion
    x, u = np.eye(at.A.shape[1]), np.eye(at.B.shape[2])
    model = Quadratic(at.A, at.B, x, u, x, e.x, e.u, copied=at.copied)
    status, K, f, held = _solve(model, 0.0, at, MANY_PASSES)
    direction = None if status else _direction(at, K, f, "steepest", held)
    if direction is None:  # R = 1 makes it positive definite, unless numbers overflow
        raise ModelError("the linearization overflows; scale the states and inputs, or shorten the horizon")
    return direction


def newton_model(step: StepMap, at: Point) -> Callable[..., Direction | None]:
    """Directions with a part of all curvature, 1 for Newton's own; None where the model has no minimum."""
    e = at.expansion
    K = at.K
    if at.bounds is not None:
        K = without(K, at.bounds.at_limit(at.trajectory.x[:-1], at.trajectory.u), at.bounds)
    s = recursions().adjoint(at.A, at.B, K, e.x, e.u)
    if e.multipliers is None:
        found = step.curvature_along(at.trajectory, s[1:])
    else:
        found = step.second_sensitivity_along(at.trajectory, s[1:], e.multipliers)  # type: ignore[attr-defined]
    own = Bend() if e.bend is None else e.bend()
    xx, xu, uu = (M if added is None else M + added for M, added in zip(found[:3], own[:3], strict=True))
    rates = None if at.copied is None else at.copied.without_rates
    coupled = rates is not None and any(M is not None and M[:, rates:].any() for M in own[:2])
    copied = None if coupled else at.copied
    model = replace(at.model(), bend=(xx, xu, uu), terminal_bend=own.terminal, copied=copied)

    def solve(part: float, passes: int = PASSES) -> Direction | None:
        status, K, f, held = _solve(model, part, at, passes)
        return None if status else _direction(at, K, f, "newton" if part == 1.0 else f"newton {part:.2g}", held)

    return solve


def largest_part(
    solve: Callable[..., Direction | None], first: float, *, limited: bool
) -> tuple[float, Direction | None]:
    """The largest part of the curvature that leaves a minimum, by bisection; finer near 1, where saddles are.

    With limits it is searched for with the set of held inputs as it is, which then settles for the part that was found.
    """
    low, high, found = 0.0, 1.0, None
    middle = first if first < 1.0 else 0.5
    while high - low > max(FINENESS * (1.0 - low), FINENESS**2):
        direction = solve(middle, 1) if limited else solve(middle)
        if direction is None:
            high = middle
        else:
            low, found = middle, direction
        middle = (low + high) / 2
    if limited and found is not None:
        found = solve(low)
        while found is None and low > FINENESS / 4:
            low *= SHRINK
            found = solve(low)
    return low, found


def without(K: Array, held: Array, bounds: InputBounds) -> Array:
    """Gains without feedback through held inputs; those at a limit of their rate follow their coordinate."""
    rows, columns = np.nonzero(held)
    out = np.array(K)
    out[rows, columns] = 0.0
    rate = np.abs(held[rows, columns]) == 2
    rows, columns = rows[rate], columns[rate]
    out[rows, columns, bounds.tied_tangent[columns]] = -1.0
    return out


def _solve(model: Quadratic, part: float, at: Point, passes: int = PASSES) -> tuple[int, Array, Array, Array | None]:
    """Status, K, f and held inputs of a model's minimizer within the limits."""
    if at.bounds is None or at.held is None:
        status, K, f, _ = recursions().backward(model, part)
        return status, K, f, None
    box = at.bounds.around(at.trajectory.x[:-1], at.trajectory.u)
    found = recursions().limited(model, part, box, at.held, passes)
    return found.status, found.K, found.f, found.at


def _direction(at: Point, K: Array, f: Array, name: str, held: Array | None) -> Direction | None:
    """The minimizer v = −K z − f of a model over the tangent space, or None where it leads nowhere."""
    z, v = recursions().forward(at.A, at.B, K, f, at.copied)
    by_state, by_input = at.expansion.x * z, at.expansion.u * v
    slope = float(np.sum(by_state) + np.sum(by_input))
    if not np.isfinite(slope):
        return None
    if slope > 0:  # at the optimum it is all rounding, of either sign
        if slope > ROUNDING * float(np.sum(np.abs(by_state)) + np.sum(np.abs(by_input))):
            return None
        slope = -0.0
    return Direction(z, v, slope, name, held, K)
