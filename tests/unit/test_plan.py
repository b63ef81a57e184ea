"""Plans: the gains that go to a board, and what a plan refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.optimal.lqr import riccati
from stepmap.optimal.plan import gains_with_steady_end, held_input

JOB = Path(__file__).parents[2] / "examples" / "cart_pendulum.toml"


@pytest.fixture(scope="module")
def solution() -> sm.Solution:
    found: sm.Solution = jobs.load(JOB).solve().require()
    return found


def test_a_plan_is_the_solution_with_its_reference(solution: sm.Solution) -> None:
    plan = solution.plan
    assert solution.problem is not None
    assert plan.trajectory is solution.trajectory
    np.testing.assert_array_equal(plan.reference.x, solution.problem.cost.x_ref)
    np.testing.assert_array_equal(plan.reference.u, solution.problem.cost.u_ref)
    assert plan.events == ()
    assert plan is solution.plan  # computed once


def test_the_terminal_weight_is_the_cost_of_holding_the_end(solution: sm.Solution) -> None:
    """The last gain is that of the steady regulator, to what the end moves."""
    assert solution.problem is not None
    step, cost = solution.problem.step, solution.problem.cost
    end = step.linearize(solution.trajectory.x[-1], solution.trajectory.u[-1])
    P = riccati(end.A, end.B, cost.Q, cost.R)
    K = np.linalg.solve(cost.R + end.B.T @ P @ end.B, end.B.T @ P @ end.A)
    np.testing.assert_allclose(solution.plan.gains[-1], K, rtol=1e-6)


def test_weights_that_change_with_time(solution: sm.Solution) -> None:
    """The same weights, one for each step, give the same gains."""
    assert solution.problem is not None
    step, cost, found = solution.problem.step, solution.problem.cost, solution.trajectory
    Q, R = (np.tile(M, (found.steps, 1, 1)) for M in (cost.Q, cost.R))
    made = gains_with_steady_end(step, found, Q, R, solution.gains)
    np.testing.assert_array_equal(made, solution.plan.gains)


def test_a_solution_of_no_problem_keeps_its_gains(solution: sm.Solution) -> None:
    plan = replace(solution, problem=None).plan
    assert plan.gains is solution.gains
    assert plan.reference is solution.trajectory


def test_interrupted_stages_are_planned_for_the_whole_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    job = jobs.load(JOB)
    staged = replace(job, solver=jobs.Solver(stages=(0.5, 1.0), max_iterations=1))
    np.testing.assert_array_equal(staged.solve().plan.reference.x, job.cost().x_ref)


def test_inputs_that_hold() -> None:
    system = sm.systems.get("suspended_mass")
    x = sm.discretize(system, 0.02).rest({"xm": 0.2, "xr": 0.2})
    np.testing.assert_array_equal(held_input(sm.discretize(system, 0.02), x, np.array([0.5, 0.5])), [0.2, 1.0])
    rates = sm.euler(system, 0.02)
    np.testing.assert_array_equal(
        held_input(rates, rates.rest({"xm": 0.2, "xr": 0.2}), np.array([0.5, 0.5])), [0.0, 0.0]
    )


def test_shapes_are_checked(solution: sm.Solution) -> None:
    found = solution.trajectory
    with pytest.raises(sm.ShapeError, match="gains: expected"):
        sm.Plan(found, solution.gains[:-1], found)
    with pytest.raises(sm.ShapeError, match="reference: expected states"):
        sm.Plan(found, solution.gains, sm.Trajectory(found.t[:-1], found.x[:-1], found.u[:-1]))
