"""Jobs with a goal, hard limits, an end at rest, natural weights, and weights of the controller."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.jobs import optimize as optimum
from stepmap.jobs.limits import HardLimits, motor_limits
from tests.messages import told as message_of

GOAL = """[system]
name = "pendulum"
[time]
dt = 0.05
duration = 6.0
[goal]
theta = "pi"
[limits]
torque = { low = -2, high = 2 }
"""

TRACK = """[system]
name = "suspended_mass"
[time]
dt = "1/30"
duration = 2.0
[reference]
kind = "expressions"
of = { xm = "0.3*sin(t)**2", xr = "0.3*sin(t)**2" }
[weights.state]
q = 100
rho = 1
p = 0.1
v = 1
[weights.input]
rho_next = 1
"""


def load(folder: Path, text: str) -> jobs.TrackingJob:
    (folder / "try.toml").write_text(text)
    job = jobs.load(folder / "try.toml")
    assert isinstance(job, jobs.TrackingJob)
    return job


def test_a_goal_is_enough(tmp_path: Path) -> None:
    """No weights, no reference, no guess: a swing-up that ends at rest, and says that it will work."""
    job = load(tmp_path, GOAL)
    assert (job.goal, job.rest, job.solver.max_iterations) == (True, True, 500)
    np.testing.assert_allclose(job.reference.poses, np.pi)
    solution = job.solve().require()
    x, u = solution.trajectory.x, solution.trajectory.u
    np.testing.assert_allclose(x[-1], job.standing.x, atol=1e-7)
    assert np.abs(u).max() == 2.0
    assert u[-1] == job.standing.u
    weights = job.weights
    assert (weights.state > 0).all()
    np.testing.assert_allclose(weights.terminal[0] / weights.state[0], 100 / (0.05 * np.sqrt(9.8)), rtol=0.02)
    verdict = optimum.verdict(job, solution.plan)
    assert verdict.ok
    made = optimum.stage(job, tmp_path)
    told = json.loads(json.dumps(optimum.summary(made, job, solution, 0.0)))
    assert told["verdict"] == json.loads(json.dumps(verdict.data()))
    assert told["steps"] == len(u)


def test_a_plan_that_took_more_time_is_read_back(tmp_path: Path) -> None:
    job = load(tmp_path, GOAL.replace("duration = 6.0", "duration = 4.0"))
    solution = job.solve().require()
    assert solution.trajectory.steps == 120 > job.steps
    stage = optimum.stage(job, tmp_path)
    with stage.replace() as folder:
        (folder / "solution.npz").write_bytes(optimum.arrays(job, solution))
    np.testing.assert_array_equal(optimum.result(stage, job).trajectory.x, solution.trajectory.x)
    assert dict(optimum.key_figures(job, solution, 0.0))["horizon"].endswith("longer than the 4 s of the job")
    resumed = job.solve(guess=solution.trajectory).require()
    assert resumed.trajectory.steps == 120
    assert resumed.cost == pytest.approx(solution.cost, rel=1e-6)


def test_a_reference_may_end_at_rest(tmp_path: Path) -> None:
    moving = load(tmp_path, TRACK).solve().require()
    job = load(tmp_path, TRACK + "[end]\nrest = true\n")
    found = job.solve().require()
    assert found.trajectory.x.shape == moving.trajectory.x.shape
    np.testing.assert_allclose(found.trajectory.x[-2:], [job.standing.x] * 2, atol=1e-6)  # v: 1e-8 m by dt
    assert np.abs(moving.trajectory.x[-1] - job.standing.x).max() > 0.01
    assert found.problem is not None
    assert found.cost == pytest.approx(found.problem.cost.value(found.trajectory))
    assert dict(optimum.verdict(job, found.plan).rows())["rest"].startswith("the end is an equilibrium")


def test_limits_without_a_weight_are_hard(tmp_path: Path) -> None:
    limits = "[limits]\nxr = { high = 0.2 }\nv_xr = { low = -0.25, high = 0.25 }\nym = { high = 0.01 }\n"
    job = load(tmp_path, TRACK + limits)
    assert job.hard == HardLimits(0.75, {"xr_next": (-1.0, 0.2)}, {"xr_next": 0.25}, {"ym": (-np.inf, 0.01)})
    assert job.limits == ()
    x = job.solve().require().trajectory.x
    assert x[:, 2].max() == 0.2
    assert np.abs(x[:, 6]).max() == pytest.approx(0.25, abs=1e-12)
    assert x[:, 1].max() < 0.01 + 1e-8
    free = load(tmp_path, TRACK).solve().require().trajectory.x
    assert free[:, 2].max() > 0.2
    assert np.abs(free[:, 6]).max() > 0.25


def test_three_quarters_of_a_motor_are_used(tmp_path: Path) -> None:
    def limits(text: str) -> tuple[np.ndarray, np.ndarray]:
        job = load(tmp_path, GOAL.partition("[limits]")[0] + text)
        assert job.input_limits is not None
        bounds = job.input_limits.on(job.step)
        return bounds.low, bounds.high

    assert limits("") == (-15.0, 15.0)  # of 20 N m
    assert limits("[limits]\nuse = 1\n") == (-20.0, 20.0)
    assert limits("[limits]\nuse = 0.5\n") == (-10.0, 10.0)
    assert limits("[limits]\ntorque = { low = -2, weight = 3 }\n") == (-15.0, 15.0)  # soft, the hard one stays
    assert limits("[limits]\ntorque = { low = -18 }\n") == (-18.0, 20.0)
    motor = motor_limits(sm.systems.get("pendulum"))
    assert motor is not None
    assert motor.on(load(tmp_path, GOAL).step).high == 20.0


def test_weights_of_the_controller_are_those_of_the_gains_alone(tmp_path: Path) -> None:
    controller = "[weights.controller]\nstate = { q = 1, p = 1 }\ninput = { rho_next = 9 }\n"
    plain, tuned = load(tmp_path, TRACK).solve().require(), load(tmp_path, TRACK + controller).solve().require()
    np.testing.assert_allclose(tuned.trajectory.x, plain.trajectory.x, atol=1e-9)
    assert np.abs(tuned.plan.gains - plain.plan.gains).max() > 0.1
    assert tuned.problem is not None
    assert tuned.problem.weights is not None
    np.testing.assert_array_equal(np.diagonal(tuned.problem.weights.R), [9, 9])
    np.testing.assert_array_equal(np.diagonal(tuned.problem.cost.R), [1, 1])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('theta = "pi"', "theta = 2", "goal: no inputs hold"),
        ('theta = "pi"', "", "goal: name at least one coordinate"),
        ('theta = "pi"', "phi = 1", "goal.phi: no coordinate is called 'phi'"),
        (
            "[limits]",
            '[solver]\nguess = "release"\n[limits]',
            "solver.guess: a job with a [goal] tries starts of its own",
        ),
        ("[limits]", "[weights.state]\nq = 1\n[limits]", "weights: 'input' is missing"),
        ("[goal]\ntheta", "[start]\ntheta", "give either the table [reference] or the table [goal]"),
    ],
)
def test_goals_that_mean_nothing_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = GOAL.replace(old, new)
    if "no inputs hold" in said:
        text = text.replace('"pendulum"', '"cart_pendulum"').replace("torque = { low = -2, high = 2 }", "")
    with pytest.raises(sm.JobError) as caught:
        load(tmp_path, text).solve()
    assert said in message_of(caught.value)


def test_natural_weights_are_refused_without_limits(tmp_path: Path) -> None:
    wire = TRACK.partition("[weights.state]")[0].replace("suspended_mass", "marionette")
    text = wire.replace('of = { xm = "0.3*sin(t)**2", xr = "0.3*sin(t)**2" }', "of = {}")
    with pytest.raises(sm.JobError, match="weights: natural weights need limits of all inputs, and"):
        load(tmp_path, text)


TURNING = """\
[system]
name = "spherical_pendulum"
[time]
dt = 0.02
steps = 50
[start]
BALL = [0.8, 0.6, 0.0, 0.0]
[reference]
kind = "waypoints"
[[reference.points]]
t = 1.0
CART = 0.1
[weights.state]
q = 1
[weights.input]
rho_next = 1
"""


def test_what_turns_freely_is_given_whole(tmp_path: Path) -> None:
    system = sm.systems.get("spherical_pendulum")
    ball, cart = system.balls[0].name, system.kinematic[0].name
    text = TURNING.replace("BALL", ball).replace("CART", cart)
    (tmp_path / "turned.toml").write_text(text)
    job = jobs.load(tmp_path / "turned.toml")
    names = [c.name for c in system.coordinates]
    assert [job.pose[names.index(f"{ball}.{entry}")] for entry in "wxyz"] == [0.8, 0.6, 0.0, 0.0]
    (tmp_path / "turned.toml").write_text(text.replace("[0.8, 0.6, 0.0, 0.0]", "[0.8, 0.6]"))
    with pytest.raises(sm.StepmapError, match=r"turned.toml:7: start\.\S+: expected \[w, x, y, z\].*got 2 numbers"):
        jobs.load(tmp_path / "turned.toml")
