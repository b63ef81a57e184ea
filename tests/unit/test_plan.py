"""Plans: the gains that go to a board, and what a plan refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.errors import DamagedError
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
    made, fading = gains_with_steady_end(step, found, Q, R, solution.gains)
    np.testing.assert_array_equal(made, solution.plan.gains)
    assert fading == ""


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


# on disk ----------------------------------------------------------------------------------------------------------


def test_plans_come_back_from_disk(solution: sm.Solution, tmp_path: Path) -> None:
    event = sm.Event(0.5, 12, "foot", "impact", 0.1, 0.02)
    plan = replace(solution.plan, events=(event,), acts=(0.0, 1.5))
    assert solution.problem is not None
    plan.save(tmp_path / "plan.npz", solution.problem.step, kind="track")
    again = sm.Plan.load(tmp_path / "plan.npz", solution.problem.step)
    for ours, theirs in ((again.trajectory, plan.trajectory), (again.reference, plan.reference)):
        np.testing.assert_array_equal(ours.t, theirs.t)
        np.testing.assert_array_equal(ours.x, theirs.x)
        np.testing.assert_array_equal(ours.u, theirs.u)
    np.testing.assert_array_equal(again.gains, plan.gains)
    assert again.events == (event,)
    assert again.acts == (0.0, 1.5)


def test_plan_of_another_system_is_refused(solution: sm.Solution, tmp_path: Path) -> None:
    assert solution.problem is not None
    solution.plan.save(tmp_path / "plan.npz", solution.problem.step)
    other = sm.discretize(sm.systems.get("double_pendulum"), 0.02)
    with pytest.raises(sm.ModelError, match="this step map has others"):
        sm.Plan.load(tmp_path / "plan.npz", other)


def test_files_from_before_manifests_are_plans(solution: sm.Solution, tmp_path: Path) -> None:
    found, wanted = solution.trajectory, solution.plan.reference
    np.savez(
        tmp_path / "old.npz", t=found.t, x=found.x, u=found.u, gains=solution.gains, x_ref=wanted.x, u_ref=wanted.u
    )
    np.testing.assert_array_equal(sm.Plan.load(tmp_path / "old.npz").gains, solution.gains)


def test_damaged_and_foreign_files_are_refused(solution: sm.Solution, tmp_path: Path) -> None:
    """Cut off anywhere, with a byte changed, or something else: an error of ours, never a wrong plan."""
    solution.plan.save(tmp_path / "plan.npz")
    content = (tmp_path / "plan.npz").read_bytes()
    path = tmp_path / "bad.npz"
    for cut in (0, 1, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises((DamagedError, sm.ModelError), match=r"bad\.npz|no archive"):
            sm.Plan.load(path)
    for at in range(200, len(content), len(content) // 40):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        try:
            again = sm.Plan.load(path)
        except (DamagedError, sm.ModelError):
            continue
        np.testing.assert_array_equal(again.gains, solution.plan.gains)  # the byte was one that nobody reads
    np.savez(path, a=np.zeros(3))
    with pytest.raises(sm.ModelError, match="it is no plan; it has no t, x, u, gains"):
        sm.Plan.load(path)
    with pytest.raises(FileNotFoundError):
        sm.Plan.load(tmp_path / "nothing.npz")
    broken = replace(solution.plan, gains=solution.plan.gains).packed(more={"gains": np.zeros((1, 1, 1))})
    path.write_bytes(broken)
    with pytest.raises(DamagedError, match="do not fit together"):
        sm.Plan.load(path)


def test_a_plan_is_written_whole_or_not_at_all(
    solution: sm.Solution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solution.plan.save(tmp_path / "plan.npz")
    before = (tmp_path / "plan.npz").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        solution.plan.save(tmp_path / "plan.npz")
    assert (tmp_path / "plan.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["plan.npz"]
