"""Laws of the projection operator and of the directions made with it, on free, constrained and driven mechanisms."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal.directions import Direction, Point, gauss_newton, newton_model, steepest
from stepmap.optimal.projection import _start
from stepmap.optimal.riccati import NumpyRecursions
from tests import problems

N = 40


def figure_eight() -> sm.Problem:
    return problems.figure_eight(N)


def cart() -> sm.Problem:
    """A jump of 0.5 rad, tracked with weights that grow with time, and a soft limit on the force."""
    step = sm.discretize(sm.systems.get("cart_pendulum"), 0.02, forces="left")
    x_ref = np.zeros((N + 1, 4))
    x_ref[N // 2 :, 1] = 0.5
    grow = np.linspace(1.0, 3.0, N)[:, None, None]
    Q, R = grow * np.diag([10.0, 100.0, 0.1, 0.1]), np.eye(1) * 1e-3
    cost = sm.TrackingCost(Q, R, 10 * Q[-1], x_ref, np.zeros((N, 1)), [sm.SoftLimit(0, -60.0, 60.0, 0.1, True)])
    return sm.Problem(step, cost, step.rest({"theta": 0.3}))


def arm() -> sm.Problem:
    """A two-link arm hanging on a string, from rest; its joints are wanted elsewhere."""
    step = sm.discretize(sm.systems.get("planar_arm"), 0.02, forces="left")
    x0, u0 = step.equilibrium(step.satisfy_constraints(sm.systems.example("planar_arm"), fixed=["x", "L"]))
    x_ref = np.tile(x0, (N + 1, 1))
    x_ref[:, 0] += 0.2 * np.sin(np.arange(N + 1) / 10)
    Q = np.diag([50.0, 50.0, 1.0, 1.0, 1.0, 1.0, 0.1, 0.1])
    return sm.Problem(step, sm.TrackingCost(Q, np.eye(2), Q, x_ref, np.tile(u0, (N, 1))), x0)


def euler() -> sm.Problem:
    """The suspended mass as an Euler map, whose inputs are accelerations."""
    step = sm.euler(sm.systems.get("suspended_mass"), 0.01)
    x0 = step.rest({})
    x_ref = np.tile(x0, (N + 1, 1))
    x_ref[:, 0] = x_ref[:, 2] = 0.1 * np.sin(np.arange(N + 1) / 10)
    Q = np.diag([100.0, 100.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    return sm.Problem(step, sm.TrackingCost(Q, 0.1 * np.eye(2), Q, x_ref, np.zeros((N, 2))), x0)


PROBLEMS = {f.__name__: f for f in (figure_eight, cart, arm, euler)}
DIRECTIONS: dict[str, Callable[[sm.Problem, Point], Direction | None]] = {
    "newton": lambda problem, at: newton_model(problem.step, at)(1.0),
    "part": lambda problem, at: newton_model(problem.step, at)(0.05),
    "gauss-newton": lambda problem, at: gauss_newton(at),
    "steepest": lambda problem, at: steepest(at),
}
each_problem = pytest.mark.parametrize("name", PROBLEMS)


@functools.cache
def midway(name: str) -> tuple[sm.Problem, Point]:
    """A problem and a trajectory on the way to its optimum, where Newton's model has a minimum."""
    problem = PROBLEMS[name]()
    some = sm.optimize(problem, method="gauss-newton", max_iterations=1).trajectory
    best = sm.optimize(problem).require().trajectory
    between = sm.Trajectory(some.t, 0.05 * some.x + 0.95 * best.x, 0.05 * some.u + 0.95 * best.u)
    problem = sm.Problem(problem.step, problem.cost, problem.start, between)
    return problem, _start(problem)


def moved(problem: sm.Problem, at: Point, direction: Direction, length: float) -> sm.Trajectory:
    """P(ξ + γ ζ)."""
    here = at.trajectory
    wanted = sm.Trajectory(here.t, here.x + length * direction.z, here.u + length * direction.v)
    return problem.step.follow(here.x[0], wanted, at.K)


# the projection ---------------------------------------------------------------------------------------------------


@each_problem
def test_projecting_twice_is_projecting_once(name: str) -> None:
    """P(P(ξ)) = P(ξ) bit for bit: on a trajectory the feedback is exactly zero."""
    problem, at = midway(name)
    rng = np.random.default_rng(0)
    here = at.trajectory
    wild = sm.Trajectory(
        here.t, here.x + 2e-3 * rng.normal(size=here.x.shape), here.u + 3e-4 * rng.normal(size=here.u.shape)
    )
    once = problem.step.follow(here.x[0], wild, at.K)
    twice = problem.step.follow(here.x[0], once, at.K)
    assert np.abs(once.x - wild.x).max() > 1e-3  # it was no trajectory
    np.testing.assert_array_equal(twice.x, once.x)
    np.testing.assert_array_equal(twice.u, once.u)


@each_problem
def test_trajectories_are_those_of_their_inputs(name: str) -> None:
    """What is projected follows from its start and its inputs alone."""
    problem, at = midway(name)
    again = problem.step.rollout(at.trajectory.x[0], at.trajectory.u)
    np.testing.assert_array_equal(again.x, at.trajectory.x)


@each_problem
@pytest.mark.parametrize("kind", DIRECTIONS)
def test_directions_are_tangent(name: str, kind: str) -> None:
    """z' = A z + B v from z = 0, so that P(ξ + γζ) = ξ + γζ up to γ²."""
    problem, at = midway(name)
    direction = made(problem, at, kind)
    np.testing.assert_array_equal(direction.z[0], 0.0)
    after = np.einsum("kij,kj->ki", at.A, direction.z[:-1]) + np.einsum("kij,kj->ki", at.B, direction.v)
    np.testing.assert_allclose(direction.z[1:], after, rtol=0, atol=1e-12 * np.abs(direction.z).max())
    size = float(np.abs(direction.z).max())
    left = []
    for length in (1e-2 / size, 5e-3 / size):
        projected = moved(problem, at, direction, length)
        left.append(np.abs(projected.x - at.trajectory.x - length * direction.z).max())
    assert left[1] == 0 or 3.5 < left[0] / left[1] < 4.5, left


def made(problem: sm.Problem, at: Point, kind: str) -> Direction:
    direction = DIRECTIONS[kind](problem, at)
    assert direction is not None
    return direction


# derivatives of cost ∘ P --------------------------------------------------------------------------------------------


def along(problem: sm.Problem, at: Point, direction: Direction) -> tuple[tuple[float, float], tuple[float, float]]:
    """First and second derivative of cost(P(ξ + γζ)) at γ = 0, by differences of fourth order.

    Each with its rounding: that of a sum over a trajectory, over h and h².
    """
    forces = max(1.0, np.abs(at.trajectory.u).max())
    h = 3e-3 / float(max(np.abs(direction.z).max(), np.abs(direction.v).max() / forces))
    g = {k: problem.cost.value(moved(problem, at, direction, k * h)) for k in (-2, -1, 0, 1, 2)}
    first = (8 * (g[1] - g[-1]) - (g[2] - g[-2])) / (12 * h)
    second = (16 * (g[1] + g[-1]) - (g[2] + g[-2]) - 30 * g[0]) / (12 * h**2)
    rounding = 1e-15 * at.cost
    return (first, rounding / h), (second, 4 * rounding / h**2)


@each_problem
@pytest.mark.parametrize("kind", DIRECTIONS)
def test_slope_is_the_derivative_along_the_direction(name: str, kind: str) -> None:
    problem, at = midway(name)
    direction = made(problem, at, kind)
    assert direction.slope < 0
    numeric, rounding = along(problem, at, direction)[0]
    assert numeric == pytest.approx(direction.slope, rel=1e-7, abs=rounding)


@each_problem
@pytest.mark.parametrize("kind", DIRECTIONS)
def test_second_derivative_is_that_of_newton_s_model(name: str, kind: str) -> None:
    """ζᵀ(D²cost + Σ sᵀD²f)ζ along any tangent direction, with the costates of the closed loop."""
    problem, at = midway(name)
    direction, e = made(problem, at, kind), at.expansion
    s = NumpyRecursions().adjoint(at.A, at.B, at.K, e.x, e.u)
    bend = problem.step.curvature_along(at.trajectory, s[1:])
    z, v = direction.z, direction.v
    xx, uu = np.broadcast_to(e.xx, bend.xx.shape) + bend.xx, np.broadcast_to(e.uu, bend.uu.shape) + bend.uu
    model = np.einsum("ki,kij,kj->", z[:-1], xx, z[:-1]) + np.einsum("ki,kij,kj->", v, uu, v)
    model += 2 * np.einsum("ki,kij,kj->", z[:-1], bend.xu, v) + z[-1] @ e.terminal @ z[-1]
    numeric, rounding = along(problem, at, direction)[1]
    assert rounding < 1e-3 * model
    assert numeric == pytest.approx(model, rel=1e-5, abs=rounding)
    if kind == "newton":
        assert model == pytest.approx(-direction.slope, rel=1e-9)  # it is the minimizer


@each_problem
def test_newton_s_direction_reaches_the_optimum_quadratically(name: str) -> None:
    """From the optimum, off by ε in all inputs, a Newton step lands at a distance of order ε²."""
    problem, _ = midway(name)
    best = sm.optimize(problem, tolerance=0.0).require().trajectory
    shape = np.random.default_rng(1).normal(size=best.u.shape)
    largest = {"figure_eight": 1e-4, "cart": 1e-2, "arm": 1e-5, "euler": 1e-2}[name]  # m, N, m, m/s²
    left = []
    for epsilon in (largest, largest / 2):
        off = sm.Trajectory(best.t, best.x, best.u + epsilon * shape)
        near = sm.Problem(problem.step, problem.cost, problem.start, off)
        left.append(np.abs(sm.optimize(near, max_iterations=1).trajectory.u - best.u).max())
    assert 3.8 < left[0] / left[1] < 4.2, left


# the search ---------------------------------------------------------------------------------------------------------


@each_problem
def test_costs_fall_from_iteration_to_iteration(name: str) -> None:
    """Up to rounding of a sum over a trajectory, and each by what Armijo's rule asks for."""
    solution = sm.optimize(PROBLEMS[name]()).require()
    costs = np.array([i.cost for i in solution.history] + [solution.cost])
    assert (np.diff(costs) <= 1e-13 * costs[:-1]).all()
    for iteration, after in zip(solution.history, costs[1:], strict=True):
        assert after <= iteration.cost + 1e-3 * iteration.length * iteration.slope + 1e-13 * iteration.cost


@each_problem
def test_gains_of_the_solution_are_the_regulator_s_along_it(name: str) -> None:
    problem = PROBLEMS[name]()
    solution, cost = sm.optimize(problem).require(), problem.cost
    np.testing.assert_array_equal(solution.gains, sm.lqr(problem.step, solution.trajectory, cost.Q, cost.R, cost.Qf))
    assert solution.cost == cost.value(solution.trajectory)


@pytest.mark.parametrize("name", ["figure_eight", "cart"])
def test_optimum_does_not_depend_on_the_guess(name: str) -> None:
    problem = PROBLEMS[name]()
    best = sm.optimize(problem).require()
    first = problem.first_guess()
    rng = np.random.default_rng(2)
    for _ in range(3):
        noisy = sm.Trajectory(first.t, first.x, first.u + 0.02 * rng.normal(size=first.u.shape))
        other = sm.optimize(sm.Problem(problem.step, problem.cost, problem.start, noisy)).require()
        assert other.cost == pytest.approx(best.cost, rel=1e-12)


def test_all_methods_reach_the_same_optimum() -> None:
    """A pendulum pulled aside by weights of order 1: even the steepest descent gets there."""
    step = sm.discretize(sm.systems.get("pendulum"), 0.1, forces="left")
    x_ref = np.zeros((31, 2))
    x_ref[:, 0] = 0.8
    Q, R = np.diag([2.0, 0.5]), np.eye(1)
    problem = sm.Problem(step, sm.TrackingCost(Q, R, Q, x_ref, np.zeros((30, 1))), step.rest({}))
    found = {
        method: sm.optimize(problem, method=method, max_iterations=2000).require()
        for method in ("newton", "gauss-newton", "steepest")
    }
    newton = found["newton"]
    counts = [len(solution.history) for solution in found.values()]
    assert counts == sorted(counts)
    for method, solution in found.items():
        allowed = {method, "gauss-newton"} if method == "newton" else {method}  # whose steps Newton's begin with
        assert {i.method for i in solution.history} <= allowed
        assert solution.cost == pytest.approx(newton.cost, rel=1e-12)
        # √|Dg| = 1e-6 over √R = 1, and as much again for what H has more than R.
        np.testing.assert_allclose(solution.trajectory.u, newton.trajectory.u, rtol=0, atol=2e-6)


def test_weights_may_be_scaled() -> None:
    """The optimum is that of the weights' ratios; the cost is theirs."""
    problem = figure_eight()
    best, cost = sm.optimize(problem).require(), problem.cost
    for scale in (1e-3, 1e16):
        scaled = sm.TrackingCost(scale * cost.Q, scale * cost.R, scale * cost.Qf, cost.x_ref, cost.u_ref)
        other = sm.optimize(sm.Problem(problem.step, scaled, problem.start), tolerance=0.0).require()
        assert other.cost == pytest.approx(scale * best.cost, rel=1e-12)
        np.testing.assert_allclose(other.trajectory.x, best.trajectory.x, rtol=0, atol=1e-6)


def test_feasible_reference_costs_nothing() -> None:
    """A trajectory tracked from its own start is its own optimum."""
    step = sm.discretize(sm.systems.get("suspended_mass"), 1 / 30, forces="left")
    rho = np.array([0.0, 1.0]) + 0.1 * np.sin(np.arange(1, N + 1) / 5)[:, None] * [1.0, 0.5]
    path = step.rollout(step.rest({}), rho)
    cost = sm.TrackingCost(np.eye(8), np.eye(2), np.eye(8), path.x, path.u)
    solution = sm.optimize(sm.Problem(step, cost, path.x[0])).require()
    assert solution.cost <= 1e-12
    np.testing.assert_allclose(solution.trajectory.x, path.x, rtol=0, atol=2e-6)
