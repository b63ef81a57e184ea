"""How a search ends, what it tells on the way, and which problems it refuses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal import Iteration, Status
from stepmap.optimal import riccati as lq
from stepmap.optimal.objective import Expansion
from stepmap.steps.kernels.compiled import CompiledKernel, say_once
from stepmap.steps.layout import Layout
from tests import problems

STEPS = 40


@pytest.fixture(scope="module")
def problem() -> sm.Problem:
    return problems.figure_eight(STEPS)


@pytest.fixture(scope="module")
def best(problem: sm.Problem) -> sm.Solution:
    return sm.optimize(problem).require()


# how it ends ------------------------------------------------------------------------------------------------------


def test_converged_search_says_so(best: sm.Solution) -> None:
    assert best.status is Status.CONVERGED
    assert best.status.ok
    assert str(best.status) == "converged"
    assert best.require() is best
    assert best.history[-1].length == 0.0
    assert all(iteration.length > 0 for iteration in best.history[:-1])


def test_optimum_is_found_where_it_is(problem: sm.Problem, best: sm.Solution) -> None:
    """From its own solution a search takes no step, even when none is allowed."""
    again = sm.optimize(dataclasses.replace(problem, guess=best.trajectory), max_iterations=0)
    assert again.status is Status.CONVERGED
    assert len(again.history) == 1
    np.testing.assert_array_equal(again.trajectory.x, best.trajectory.x)


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_search_stops_at_the_iteration_limit(problem: sm.Problem, best: sm.Solution, limit: int) -> None:
    stopped = sm.optimize(problem, max_iterations=limit)
    assert stopped.status is Status.ITERATIONS
    assert not stopped.status.ok
    assert "raise max_iterations" in str(stopped.status)
    assert len(stopped.history) == limit
    assert stopped.history == best.history[:limit]
    assert stopped.cost == best.history[limit].cost
    assert stopped.gains.shape == (STEPS, 2, 8)


def test_what_did_not_converge_can_be_required(problem: sm.Problem) -> None:
    stopped = sm.optimize(problem, max_iterations=2)
    with pytest.raises(sm.ConvergenceError, match="optimization stopped at the iteration limit; raise") as caught:
        stopped.require()
    assert caught.value.iterations == 2
    assert caught.value.residual == abs(stopped.history[-1].slope)
    np.testing.assert_array_equal(caught.value.x, stopped.trajectory.x)
    with pytest.raises(sm.ConvergenceError) as caught:
        sm.optimize(problem, max_iterations=0).require()
    assert np.isnan(caught.value.residual)


def test_search_goes_on_where_it_stopped(problem: sm.Problem, best: sm.Solution) -> None:
    stopped = sm.optimize(problem, max_iterations=3)
    rest = sm.optimize(dataclasses.replace(problem, guess=stopped.trajectory))
    assert rest.history == best.history[3:]


class Uphill(sm.TrackingCost):
    """A cost with the wrong sign in its slope: no direction it gives leads down."""

    def expand(self, trajectory: sm.Trajectory) -> Expansion:
        e = super().expand(trajectory)
        return e._replace(x=-e.x, u=-e.u)


@pytest.mark.parametrize("method", ["newton", "gauss-newton", "steepest"])
def test_search_without_a_way_down_stalls(problem: sm.Problem, method: Any) -> None:
    c = problem.cost
    uphill = dataclasses.replace(problem, cost=Uphill(c.Q, c.R, c.Qf, c.x_ref, c.u_ref))
    stalled = sm.optimize(uphill, method=method)
    assert stalled.status is Status.STALLED
    assert "start from another guess" in str(stalled.status)
    assert "homotopy" in str(stalled.status)
    assert stalled.history == ()
    assert stalled.cost == c.value(stalled.trajectory)
    with pytest.raises(sm.ConvergenceError, match="cannot descend further"):
        stalled.require()


def test_every_status_tells_what_to_do() -> None:
    assert [status.ok for status in Status].count(True) == 1
    for status in Status:
        assert str(status) == status.value
        assert status.ok or ";" in str(status)  # what happened; what to do


def test_tolerance_decides_when_to_stop(problem: sm.Problem, best: sm.Solution) -> None:
    loose = sm.optimize(problem, tolerance=1e-2)
    assert loose.status is Status.CONVERGED
    assert loose.history == (*best.history[: len(loose.history) - 1], loose.history[-1])
    assert len(loose.history) < len(best.history)
    assert -1e-2 <= loose.history[-1].slope < 0


def test_no_tolerance_at_all_ends_at_rounding(problem: sm.Problem, best: sm.Solution) -> None:
    exact = sm.optimize(problem, tolerance=0.0)
    assert exact.status is Status.CONVERGED
    assert len(exact.history) <= len(best.history) + 2


# what it tells ----------------------------------------------------------------------------------------------------


def test_monitor_sees_every_iteration(problem: sm.Problem, best: sm.Solution) -> None:
    seen: list[tuple[int, Iteration, sm.Trajectory]] = []
    solution = sm.optimize(problem, monitor=lambda *e: seen.append(e))
    numbers, iterations, trajectories = zip(*seen, strict=True)
    assert numbers == tuple(range(len(best.history)))
    assert iterations == solution.history == best.history
    assert [problem.cost.value(t) for t in trajectories] == [i.cost for i in iterations]
    np.testing.assert_array_equal(trajectories[-1].x, solution.trajectory.x)


@pytest.mark.parametrize("number", [0, 2])
def test_interrupted_monitor_keeps_the_best_trajectory(problem: sm.Problem, best: sm.Solution, number: int) -> None:
    """The iteration it was told of is done and its step is kept."""

    def monitor(now: int, iteration: Iteration, trajectory: sm.Trajectory) -> None:
        if now == number:
            raise KeyboardInterrupt

    stopped = sm.optimize(problem, monitor=monitor)
    assert stopped.status is Status.INTERRUPTED
    assert stopped.status.interrupted
    assert "start again from it" in str(stopped.status)
    assert stopped.history == best.history[: number + 1]
    assert stopped.cost == best.history[number + 1].cost
    assert stopped.cost == problem.cost.value(stopped.trajectory)
    with pytest.raises(sm.ConvergenceError, match="interrupted"):
        stopped.require()


def test_interrupted_line_search_keeps_the_best_trajectory(
    problem: sm.Problem, best: sm.Solution, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle of an iteration: what the ones before reached."""
    calls, follow = 0, sm.VariationalStep.follow

    def interrupted(self: sm.VariationalStep, *arguments: Any) -> sm.Trajectory:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return follow(self, *arguments)

    monkeypatch.setattr(sm.VariationalStep, "follow", interrupted)
    stopped = sm.optimize(problem)
    assert stopped.status is Status.INTERRUPTED
    assert 0 < len(stopped.history) < len(best.history)
    assert stopped.history == best.history[: len(stopped.history)]
    assert stopped.cost == best.history[len(stopped.history)].cost


def test_other_errors_of_a_monitor_are_its_caller_s(problem: sm.Problem) -> None:
    def monitor(*_: Any) -> None:
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        sm.optimize(problem, monitor=monitor)


# guesses ----------------------------------------------------------------------------------------------------------


def test_without_a_guess_the_start_is_held(problem: sm.Problem) -> None:
    guess = problem.first_guess()
    np.testing.assert_array_equal(guess.x, np.tile(problem.start, (STEPS + 1, 1)))
    np.testing.assert_array_equal(guess.u, np.tile([0.0, 1.0], (STEPS, 1)))
    held = problem.step.rollout(problem.start, guess.u).x[-1]
    np.testing.assert_allclose(held, problem.start, rtol=0, atol=1e-15)  # rounding of r = 1
    assert guess.t[-1] == pytest.approx(STEPS / 30)


def test_start_is_held_by_an_euler_step_too() -> None:
    """Its inputs are accelerations: none, wherever the robot stands."""
    step = sm.euler(sm.systems.get("suspended_mass"), 0.01)
    x0 = step.rest({"xm": 0.3, "xr": 0.3})
    cost = sm.TrackingCost(np.eye(8), np.eye(2), np.eye(8), np.zeros((6, 8)), np.zeros((5, 2)))
    guess = sm.Problem(step, cost, x0).first_guess()
    np.testing.assert_array_equal(guess.u, 0.0)
    np.testing.assert_allclose(step.rollout(x0, guess.u).x, guess.x, rtol=0, atol=1e-14)


def test_infeasible_guess_is_projected(problem: sm.Problem, best: sm.Solution) -> None:
    """The reference itself, which no trajectory follows, from a start it does not have."""
    reference = sm.Trajectory(best.trajectory.t, problem.cost.x_ref, problem.cost.u_ref)
    solution = sm.optimize(dataclasses.replace(problem, guess=reference)).require()
    np.testing.assert_array_equal(solution.trajectory.x[0], problem.start)
    assert solution.cost == pytest.approx(best.cost, rel=1e-12)


def test_guess_that_cannot_be_projected_is_an_error() -> None:
    step = sm.discretize(sm.systems.get("planar_arm"), 0.01)
    x0, n = step.rest({}), 10
    held = np.tile(x0[2:4], (n, 1))
    cost = sm.TrackingCost(np.eye(8), np.eye(2), np.eye(8), np.tile(x0, (n + 1, 1)), held)
    u = held.copy()
    u[5:] = [0.5, 0.1]  # a string shorter than the arm can reach
    guess = sm.Trajectory(step.dt * np.arange(n + 1), cost.x_ref, u)
    with pytest.raises(sm.ConvergenceError, match="step 5 of the trajectory"):
        sm.optimize(sm.Problem(step, cost, x0, guess))


def test_one_step_is_a_horizon() -> None:
    one = problems.figure_eight(1)
    solution = sm.optimize(one).require()
    assert solution.trajectory.steps == 1
    assert solution.gains.shape == (1, 2, 8)


def test_system_without_inputs_is_at_its_optimum() -> None:
    step = sm.discretize(sm.systems.get("double_pendulum", actuated=False), 0.01)
    cost = sm.TrackingCost(np.eye(4), np.zeros((0, 0)), np.eye(4), np.zeros((21, 4)), np.zeros((20, 0)))
    solution = sm.optimize(sm.Problem(step, cost, step.rest({"theta1": 0.3}))).require()
    assert len(solution.history) == 1


# refused ----------------------------------------------------------------------------------------------------------


def test_start_off_the_constraints_is_refused(problem: sm.Problem) -> None:
    off = problem.start + 0.1 * np.eye(8)[1]
    with pytest.raises(sm.ModelError, match=r"off constraint 'string' by -0.1 m.*satisfy_constraints"):
        dataclasses.replace(problem, start=off)


@pytest.mark.parametrize("start", [np.zeros(3), np.zeros((1, 8)), np.full(8, np.nan), "here"])
def test_start_that_is_no_state_is_refused(problem: sm.Problem, start: Any) -> None:
    with pytest.raises(sm.ShapeError, match="start"):
        dataclasses.replace(problem, start=start)


def test_cost_of_another_system_is_refused(problem: sm.Problem) -> None:
    other = sm.TrackingCost(np.eye(4), np.eye(1), np.eye(4), np.zeros((11, 4)), np.zeros((10, 1)))
    with pytest.raises(sm.ShapeError, match="has 4 states and 1 inputs, the step map has 8 and 2"):
        dataclasses.replace(problem, cost=other)


def guesses() -> Iterator[Any]:
    t, x, u = np.arange(STEPS + 1.0), np.zeros((STEPS + 1, 8)), np.zeros((STEPS, 2))
    bad_x, bad_u = x.copy(), u.copy()
    bad_x[3, 1], bad_u[2, 0] = np.nan, np.inf
    yield pytest.param(sm.Trajectory(t[:-1], x[:-1], u[:-1]), r"guess: expected states \(41, 8\)", id="short")
    yield pytest.param(sm.Trajectory(t, x[:, :6], u), r"guess: expected states \(41, 8\)", id="narrow")
    yield pytest.param(sm.Trajectory(t, x, u[:, :1]), r"inputs \(40, 2\)", id="inputs")
    yield pytest.param(sm.Trajectory(t, bad_x, u), "guess: has entries that are not finite", id="nan")
    yield pytest.param(sm.Trajectory(t, x, bad_u), "guess: has entries that are not finite", id="inf")


@pytest.mark.parametrize(("guess", "message"), list(guesses()))
def test_guess_of_another_shape_is_refused(problem: sm.Problem, guess: sm.Trajectory, message: str) -> None:
    with pytest.raises(sm.ShapeError, match=message):
        dataclasses.replace(problem, guess=guess)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "bfgs"}, "method: expected 'newton', 'gauss-newton' or 'steepest', got 'bfgs'"),
        ({"max_iterations": -1}, "must not be negative"),
        ({"tolerance": -1e-9}, "must not be negative"),
        ({"tolerance": float("nan")}, "must not be negative"),
    ],
)
def test_options_without_meaning_are_refused(problem: sm.Problem, options: dict[str, Any], message: str) -> None:
    with pytest.raises(sm.ModelError, match=message):
        sm.optimize(problem, **options)


# other maps -------------------------------------------------------------------------------------------------------


class LinearMap:
    """x_next = A x + B u: nothing but what the StepMap protocol asks for."""

    nx, ndx, nu, dt = 3, 3, 1, 0.1
    state_names, input_names = ("a", "b", "c"), ("u",)
    layout = Layout({"x": [(name, "") for name in state_names]})
    A = np.array([[1.0, 0.1, 0.0], [0.0, 1.0, 0.1], [0.3, 0.0, 0.9]])
    B = np.array([[0.0], [0.0], [0.2]])

    def step(self, x: Any, u: Any) -> sm.StepResult:
        return sm.StepResult(self.A @ x + self.B @ u, np.zeros(0), 1)

    def linearize(self, x: Any, u: Any) -> sm.Linearization:
        return sm.Linearization(self.step(x, u).x, self.A, self.B)

    def curvature(self, x: Any, u: Any, z: Any) -> sm.Curvature:
        return sm.Curvature(np.zeros((3, 3)), np.zeros((3, 1)), np.zeros((1, 1)))

    def rollout(self, x0: Any, U: Any) -> sm.Trajectory:
        nowhere = sm.Trajectory(self.dt * np.arange(len(U) + 1), np.zeros((len(U) + 1, 3)), U)
        return self.follow(x0, nowhere, np.zeros((len(U), 1, 3)))

    def follow(self, x0: Any, reference: sm.Trajectory, gains: Any) -> sm.Trajectory:
        x, u = [np.asarray(x0, dtype=float)], []
        for k in range(reference.steps):
            u.append(reference.u[k] - gains[k] @ (x[k] - reference.x[k]))
            x.append(self.step(x[k], u[k]).x)
        return sm.Trajectory(reference.t, np.array(x), np.array(u))

    def linearize_many(self, X: Any, U: Any) -> tuple[Any, Any, Any]:
        n = len(U)
        return X @ self.A.T + U @ self.B.T, np.tile(self.A, (n, 1, 1)), np.tile(self.B, (n, 1, 1))

    def linearize_along(self, trajectory: sm.Trajectory) -> tuple[Any, Any]:
        return self.linearize_many(trajectory.x[:-1], trajectory.u)[1:]

    def curvature_along(self, trajectory: sm.Trajectory, Z: Any) -> sm.Curvature:
        n = trajectory.steps
        return sm.Curvature(np.zeros((n, 3, 3)), np.zeros((n, 3, 1)), np.zeros((n, 1, 1)))


@pytest.mark.parametrize("method", ["newton", "gauss-newton"])
def test_linear_map_is_solved_in_one_step(method: Any) -> None:
    """By any map that keeps the protocol; from rest the optimum towards zero is the regulator's closed loop."""
    step = LinearMap()
    assert isinstance(step, sm.StepMap)
    Q, R, n = np.diag([1.0, 2.0, 3.0]), np.array([[0.5]]), 30
    cost = sm.TrackingCost(Q, R, 5 * Q, np.zeros((n + 1, 3)), np.zeros((n, 1)))
    x0 = np.array([1.0, -0.5, 0.3])
    solution = sm.optimize(sm.Problem(step, cost, x0), method=method).require()
    assert [i.length for i in solution.history] == [1.0, 0.0]
    zero = sm.Trajectory(solution.trajectory.t, np.zeros((n + 1, 3)), np.zeros((n, 1)))
    closed = step.follow(x0, zero, sm.lqr(step, zero, Q, R, 5 * Q))
    np.testing.assert_allclose(solution.trajectory.u, closed.u, rtol=0, atol=1e-12)


@pytest.fixture
def no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """As on a machine without a compiler, until the function is called."""

    def restore() -> None:
        monkeypatch.undo()
        lq.recursions.cache_clear()

    monkeypatch.setenv("CC", "/nonexistent/cc")
    monkeypatch.setenv("STEPMAP_CACHE", str(tmp_path))
    lq.recursions.cache_clear()
    say_once.cache_clear()
    yield restore
    restore()


def test_without_a_compiler_the_solution_is_the_same(no_compiler: Callable[[], None]) -> None:
    with pytest.warns(UserWarning, match="no C compiler found"):
        slow = problems.figure_eight(20)
    found = sm.optimize(slow).require()
    assert isinstance(lq.recursions(), lq.NumpyRecursions)
    no_compiler()
    fast = problems.figure_eight(20)
    assert isinstance(fast.step.kernel, CompiledKernel)  # type: ignore[attr-defined]
    best = sm.optimize(fast).require()
    assert [(i.method, i.length) for i in found.history] == [(i.method, i.length) for i in best.history]
    assert found.cost == pytest.approx(best.cost, rel=1e-12)
    np.testing.assert_allclose(found.trajectory.x, best.trajectory.x, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.gains, best.gains, rtol=0, atol=1e-8)


def test_newton_keeps_its_pace_at_an_active_soft_limit() -> None:
    """The limit changes the model's curvature step by step; read in the wrong order it would converge linearly."""
    free = problems.figure_eight(100)
    limit = sm.SoftLimit(2, -0.2, 0.2, weight=50.0)
    cost = free.cost
    limited = sm.TrackingCost(cost.Q, cost.R, cost.Qf, cost.x_ref, cost.u_ref, (limit,))
    guess = sm.optimize(free).require().trajectory
    solution = sm.optimize(sm.Problem(free.step, limited, free.start, guess)).require()
    assert 0.2 < np.abs(solution.trajectory.x[:, 2]).max() < np.abs(guess.x[:, 2]).max()
    slopes = [abs(h.slope) for h in solution.history]
    assert slopes[-2] < 1e-2 * slopes[-3]
    assert slopes[-1] < 1e-3 * slopes[-2]
