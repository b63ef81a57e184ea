"""Every job in examples/ is solved, and solved well."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.cli.commands.demo import JOB as DEMO

EXAMPLES = Path(__file__).parents[2] / "examples"
SLOW = {"marionette_track"}
# The most steps each may take; measured: 5, 3, 14, 48, 21, 33, 9.
STEPS = {
    "suspended_mass": 7,
    "figure_eight": 7,
    "cart_pendulum": 20,
    "cart_pendulum_swingup": 60,
    "double_pendulum": 80,
    "pendulum_swingup": 60,
    "marionette_track": 20,
}


@functools.cache
def solved(name: str) -> tuple[jobs.Job, sm.Solution]:
    job = jobs.load(EXAMPLES / f"{name}.toml")
    return job, job.solve()


def column(job: jobs.Job, solution: sm.Solution, name: str) -> np.ndarray:
    return solution.trajectory.x[:, job.step.state_names.index(name)]


def test_the_list_is_complete() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.toml")} == set(STEPS)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in STEPS])
def test_is_solved_well(name: str) -> None:
    # One test a job, so that no two processes solve the same.
    job, solution = solved(name)
    require_convergence(solution, STEPS[name])
    require_trajectory(job, solution)
    require_ranges(job, solution)
    if job.step.nc:
        assert solution.trajectory.multipliers is not None
        assert solution.trajectory.multipliers.min() > 0.1  # strings stay taut


def require_convergence(solution: sm.Solution, steps: int) -> None:
    """At the end Newton's method takes full steps and converges quadratically: the exponent grows at least by half."""
    history = solution.require().history
    assert len(history) - 1 <= steps
    assert -history[-1].slope <= 1e-12
    assert [(entry.method, entry.length) for entry in history[-3:]] == [("newton", length) for length in (1, 1, 0)]
    last, before = (-entry.slope / solution.cost for entry in (history[-1], history[-2]))
    assert last < before**1.5 or last < 1e-14


def require_trajectory(job: jobs.Job, solution: sm.Solution) -> None:
    again = job.step.rollout(job.start, solution.trajectory.u)
    # The swing-ups are unstable: open loop, rounding grows by e^(t √(g/l)), five seconds make 1e-16 about 1e-9.
    np.testing.assert_allclose(again.x, solution.trajectory.x, atol=1e-6)


def require_ranges(job: jobs.Job, solution: sm.Solution) -> None:
    """Nothing leaves the range that the catalog states for it."""
    columns = [(c, column(job, solution, c.name)) for c in job.system.coordinates]
    columns += [(i, solution.trajectory.u[:, i.index]) for i in job.system.inputs]
    for quantity, values in columns:
        assert quantity.low is None or values.min() >= quantity.low, quantity.name
        assert quantity.high is None or values.max() <= quantity.high, quantity.name


def test_the_suspended_mass_rests_where_it_should() -> None:
    """Schultz & Murphey, Fig. 2: N = 300 steps of 1/30 s, the last two seconds near (0.43, 0.25)."""
    job, solution = solved("suspended_mass")
    assert (job.steps, job.dt) == (300, 1 / 30)
    at_rest = solution.trajectory.x[240:, :2]
    np.testing.assert_allclose(at_rest, np.tile([0.43, 0.25], (61, 1)), atol=2e-3)
    np.testing.assert_allclose(at_rest[-1], [0.43, 0.25], atol=1e-5)
    off = np.linalg.norm(solution.trajectory.x[:, :2] - job.reference.poses[:, :2], axis=1)
    assert 1e-3 < off.max() < 0.05  # near the reference, which is infeasible


def test_the_suspended_mass_has_a_filter() -> None:
    job, solution = solved("suspended_mass")
    ekf, belief = job.ekf(), job.belief()
    rng = np.random.default_rng(0)
    for k in range(100):
        z = job.system.readings(solution.trajectory.x[k + 1, :4]) + 0.01 * rng.standard_normal(4)
        belief, _ = ekf.update(ekf.predict(belief, solution.trajectory.u[k]), z)
    assert np.linalg.norm(belief.x[:2] - solution.trajectory.x[100, :2]) < 0.02


def test_gains_bring_the_suspended_mass_back() -> None:
    job, solution = solved("suspended_mass")
    off = job.start.copy()
    off[4] += 0.1 * 0.3  # a push of 0.3 m/s
    plan = solution.trajectory
    closed = job.step.follow(off, plan, solution.gains)
    opened = job.step.rollout(off, plan.u)
    miss = [np.abs(run.x[-30:, 0] - plan.x[-30:, 0]).max() for run in (closed, opened)]
    assert miss[0] < 1e-3 < 0.05 < miss[1]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("pendulum_swingup", {"theta": np.pi}),
        ("cart_pendulum", {"theta": np.pi, "x": 0.0}),
        ("cart_pendulum_swingup", {"theta": np.pi, "x": 0.0}),
        ("double_pendulum", {"theta1": np.pi, "theta2": 0.0}),
    ],
)
def test_swing_ups_end_upright(name: str, wanted: dict[str, float]) -> None:
    job, solution = solved(name)
    for coordinate, value in wanted.items():
        assert column(job, solution, coordinate)[-1] == pytest.approx(value, abs=0.05)


def test_soft_limits_are_kept_softly() -> None:
    for name, limit in (("pendulum_swingup", 5.0), ("double_pendulum", 15.0), ("cart_pendulum", 60.0)):
        _, solution = solved(name)
        largest = np.abs(solution.trajectory.u).max()
        assert limit < largest < 1.1 * limit  # active, and exceeded a little


def test_the_demo_solves_the_main_job() -> None:
    assert DEMO.read_text() == (EXAMPLES / "suspended_mass.toml").read_text()
