"""Reaching a pose and staying there: natural weights, poses that can be held, starts and horizons, and the verdict."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal import Status
from stepmap.optimal.goals.natural import fastest, natural_weights
from stepmap.optimal.goals.reach import Task, reach
from stepmap.optimal.goals.room import room
from stepmap.optimal.goals.standing import holds, standing
from stepmap.optimal.goals.verdict import Verdict, judge
from tests.swingups import CASES, SwingUp

PENDULUM = CASES["pendulum"]


def task_of(case: SwingUp, use: float = 1.0, **changed: object) -> Task:
    limits = sm.InputLimits(-use * case.limit, use * case.limit)
    goal = standing(case.step, case.goal)
    weights = natural_weights(case.step, *goal, limits.on(case.step), case.steps * case.dt)
    return dataclasses.replace(
        Task(case.step, case.step.rest({}), goal, weights, case.steps, limits),
        **changed,  # type: ignore[arg-type]
    )


@functools.cache
def reached(name: str, use: float = 1.0) -> tuple[Task, sm.Solution]:
    task = task_of(CASES[name], use)
    return task, reach(task)


# natural weights --------------------------------------------------------------------------------------------------


def test_natural_weights_of_a_pendulum_are_those_of_the_formula() -> None:
    """Upright, ω² = g/l; 20 N m give 20 rad/s², about twice ω²."""
    step = sm.discretize(sm.systems.get("pendulum"), 0.01)
    rate = np.sqrt(9.8)
    at = standing(step, {"theta": np.pi})
    assert fastest(step.linearize(*at).A, step.dt) == pytest.approx(rate, rel=1e-3)
    Q, R, Qf = natural_weights(step, *at, sm.InputLimits(-20, 20).on(step), 4.0)
    far = 20 / rate**2
    np.testing.assert_allclose(np.diagonal(Q), 0.01 * rate / np.array([far, far * rate]) ** 2, rtol=1e-2)
    np.testing.assert_allclose(R, [[0.01 * rate / 400]], rtol=1e-2)
    np.testing.assert_allclose(Qf, np.diag(100 / np.array([far, far * rate]) ** 2), rtol=1e-2)


def test_what_hangs_has_the_rate_of_its_swing_and_what_rests_that_of_the_task() -> None:
    hanging = sm.discretize(sm.systems.get("pendulum"), 0.01)
    assert fastest(hanging.linearize(hanging.rest({}), [0.0]).A, 0.01) == pytest.approx(np.sqrt(9.8), rel=1e-3)
    assert fastest(np.array([[1.0, 0.1], [0.0, 1.0]]), 0.1) == 0.0


def test_natural_weights_need_limits() -> None:
    step = PENDULUM.step
    with pytest.raises(sm.ModelError, match="torque has no limits"):
        natural_weights(step, step.rest({}), np.zeros(1), sm.InputLimits(low=-1).on(step), 4.0)


# poses that can be held -------------------------------------------------------------------------------------------


def test_a_pose_is_held_by_the_least_forces() -> None:
    step = sm.discretize(sm.systems.get("double_pendulum"), 0.02)
    x, u = standing(step, {"theta1": 1.0, "theta2": 0.5})
    # Moments of the weights: both masses about the first joint, the second about its own.
    own = 9.8 * np.sin(1.5)
    np.testing.assert_allclose(u, [2 * 9.8 * np.sin(1.0) + own, own], rtol=1e-12)
    np.testing.assert_allclose(step.step(x, u).x, x, atol=1e-12)


def test_a_pose_that_nothing_holds_is_refused() -> None:
    with pytest.raises(
        sm.ModelError, match=r"^no inputs hold 'cart_pendulum' at this pose: it stands 0\.642 off in theta"
    ) as caught:
        standing(CASES["cart"].step, {"theta": 2.5})
    assert "theta = 3.14159" in caught.value.hint


def test_all_coordinates_of_the_pose_that_can_be_held_are_told() -> None:
    """A mass under its robot hangs straight down, r below it."""
    step = sm.discretize(sm.systems.get("suspended_mass"), 0.02)
    with pytest.raises(sm.ModelError) as caught:
        standing(step, {"xm": 0.6, "ym": 0.2, "xr": 0.0, "r": 1.0})
    assert "xm = " in caught.value.hint
    assert "ym = " in caught.value.hint


# reaching ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pendulum", "reaction_wheel"])
def test_a_swing_up_from_hanging_ends_at_rest_and_is_held(name: str) -> None:
    task, found = reached(name)
    found.require()
    case, x, u = CASES[name], found.trajectory.x, found.trajectory.u
    assert found.trajectory.steps == case.steps
    assert np.abs(u).max() <= case.limit
    assert 0.2 < (np.abs(u) == case.limit).mean() < 0.9
    np.testing.assert_allclose(x[-2:], [task.goal.x] * 2, atol=2e-8)
    np.testing.assert_array_equal(u[-1], task.goal.u)
    assert found.problem is not None
    assert found.problem.horizon == case.steps
    bounds = task.limits.on(task.step)  # type: ignore[union-attr]
    assert holds(task.step, x[-1], task.goal, task.law, bounds)
    assert not holds(task.step, x[0], task.goal, task.law, bounds)


def test_a_goal_that_takes_more_time_gets_it() -> None:
    found = reach(task_of(dataclasses.replace(PENDULUM, steps=100))).require()
    assert found.trajectory.steps == 150
    np.testing.assert_allclose(found.trajectory.x[-1], [np.pi, 0.0], atol=1e-7)


def test_without_rest_the_end_is_where_the_weights_want_it() -> None:
    task = task_of(PENDULUM, rest=False)
    found = reach(task).require()
    off = np.abs(found.trajectory.x[-1] - task.goal.x).max()
    assert 1e-9 < off < 0.01
    assert found.trajectory.steps == PENDULUM.steps


def test_a_goal_out_of_reach_is_told() -> None:
    found = reach(task_of(dataclasses.replace(PENDULUM, steps=8)))
    assert found.status is Status.UNMET


def test_a_wheel_that_weighs_nothing_may_stand_anywhere() -> None:
    task, _ = reached("reaction_wheel")
    Q, R, Qf = task.weights
    for weight in (Q, Qf):
        assert weight[1, 1] > 0
    light = [np.where(np.outer([0, 1, 0, 0], [0, 1, 0, 0]) > 0, 0.0, M) for M in (Q, Qf)]
    free = dataclasses.replace(task, weights=type(task.weights)(light[0], R, light[1]))
    np.testing.assert_array_equal(np.isnan(free.end), [False, True, False, False])
    np.testing.assert_array_equal(task.end, task.goal.x)


# will it work? ----------------------------------------------------------------------------------------------------


def verdict_of(name: str, use: float) -> tuple[Verdict, sm.Plan]:
    task, found = reached(name, use)
    case = CASES[name]
    motor = sm.InputLimits(-case.limit, case.limit).on(case.step)
    assert task.limits is not None
    return judge(case.step, found.plan, task.limits.on(case.step), motor), found.plan


def finding(verdict: Verdict, name: str) -> tuple[str, bool]:
    return next((f.text, f.ok) for f in verdict.findings if f.name == name)


def test_a_plan_with_three_quarters_of_the_torque_has_room_and_one_with_all_has_none() -> None:
    """As runs with motors 10 % off tell, which tests/bench/swingups.py counts."""
    good, _ = verdict_of("pendulum", 0.75)
    assert good.ok
    assert finding(good, "room") == ("enough for motors that give 10% more or less than told", True)
    assert finding(good, "end")[1]
    assert "the end is an equilibrium" in finding(good, "rest")[0]
    assert "the last gain holds the end: 0." in finding(good, "hold")[0]
    bad, _ = verdict_of("pendulum", 1.0)
    text, ok = finding(bad, "room")
    assert not ok
    assert text.startswith("with motors 10% off the law wants")
    assert "use = 0.75" in dict(bad.rows())["room"]
    assert bad.data()["ok"] is False
    assert [f["name"] for f in bad.data()["findings"]] == ["end", "rest", "hold", "torque", "room"]


def test_room_is_what_the_closed_loop_asks_for() -> None:
    """From the plan's own start, without spread: the linear law against the simulated one while both are close."""
    task, found = reached("pendulum", 0.75)
    step, plan = task.step, found.plan
    motor = sm.InputLimits(-2, 2).on(step)
    x, asked = plan.trajectory.x[0], []
    for k in range(30):
        u = plan.trajectory.u[k] - plan.gains[k] @ (x - plan.trajectory.x[k])
        asked.append(np.abs(u).max())
        x = step.step(x, 0.9 * u).x
    excess = room(step, plan, motor)
    assert excess is not None
    assert max(asked) / 2 - 1 < excess < 0


def test_an_end_that_hangs_is_told() -> None:
    """Copied weights converge at once, hanging."""
    step = PENDULUM.step
    x_ref = np.tile(step.rest({"theta": np.pi}), (41, 1))
    cost = sm.TrackingCost(np.diag([1e-3, 1e-3]), [[0.5]], np.diag([1e-3, 1e-3]), x_ref, np.zeros((40, 1)))
    found = sm.optimize(sm.Problem(step, cost, step.rest({}))).require()
    verdict = judge(step, found.plan)
    text, ok = finding(verdict, "end")
    assert not ok
    assert text.startswith("3.1")
    assert text.endswith("rad from the task (theta)")
    assert "natural" in dict(verdict.rows())["end"]


def test_gains_that_fade_are_told() -> None:
    """A force that nothing sees: upright, no weight on what falls, so there is no steady regulator."""
    step = sm.discretize(sm.systems.get("cart_pendulum"), 0.02)
    x = step.rest({"theta": np.pi})
    Q = np.diag([1.0, 0.0, 0.0, 0.0])
    cost = sm.TrackingCost(0 * Q, [[1.0]], Q, np.tile(x, (21, 1)), np.zeros((20, 1)))
    found = sm.optimize(sm.Problem(step, cost, x))
    plan = found.plan
    assert "no steady regulator" in plan.fading
    text, ok = finding(judge(step, plan), "hold")
    assert not ok
    assert text.startswith("no steady regulator")
    assert "leaves 1.0" in text


def test_a_slack_string_is_told() -> None:
    step = sm.discretize(sm.systems.get("suspended_mass"), 0.02)
    x0 = step.rest({})
    u = np.tile(step.layout.hold(x0), (40, 1))
    u[:, 1] += 0.5 * (np.arange(1, 41) * 0.02) ** 2 * 15  # let down faster than it falls
    run = step.rollout(x0, u)
    plan = sm.Plan(run, np.zeros((40, 2, 8)), run)
    text, ok = finding(judge(step, plan), "tension")
    assert not ok
    assert "slack" in text


def test_a_plan_that_leaves_its_ranges_is_told() -> None:
    """Ranges are what code is generated for: said with the plan, not when code is generated."""
    step = sm.discretize(sm.systems.get("cart_pendulum"), 0.02)
    x = np.tile(step.rest({}), (11, 1))
    within = sm.Trajectory(0.02 * np.arange(11), x, np.zeros((10, 1)))
    assert "range" not in [f.name for f in judge(step, sm.Plan(within, np.zeros((10, 1, 4)), within)).findings]
    x[:, 0] = np.linspace(0, -2.4, 11)
    beyond = sm.Trajectory(0.02 * np.arange(11), x, np.zeros((10, 1)))
    verdict = judge(step, sm.Plan(beyond, np.zeros((10, 1, 4)), beyond))
    assert finding(verdict, "range") == ("x goes to -2.4 m, and its range is -2 to 2", False)
    assert "[limits]" in dict(verdict.rows())["range"]


def test_a_coordinate_that_weighs_nothing_is_no_part_of_the_task() -> None:
    step = sm.discretize(sm.systems.get("cart_pendulum"), 0.02)
    x = np.tile(step.rest({}), (11, 1))
    run = sm.Trajectory(0.02 * np.arange(11), x, np.zeros((10, 1)))
    wanted = sm.Trajectory(run.t, x + np.outer(np.linspace(0, 1, 11), [0.0, 3.0, 0.0, 0.0]), run.u)
    plan = sm.Plan(run, np.zeros((10, 1, 4)), wanted)
    assert finding(judge(step, plan), "end") == ("3 rad from the task (theta)", False)
    assert finding(judge(step, plan, weighed=np.array([True, False])), "end")[1]


def test_a_pin_that_pushes_is_no_slack_string() -> None:
    b = sm.Builder("pinned")
    one, two = (b.coordinate(name, unit="rad") for name in ("one", "two"))
    ends = b.world.rz(one).tx(1.0, name="left"), b.world.tx(1.0).rz(two).ty(0.5, name="right")
    for end in ends:
        b.mass(end, 1.0)
    b.gravity((0, -9.8, 0))
    b.drive(one, b.input("torque", unit="N m"))
    b.point_to_point(*ends, axes="y", name="pin")
    step = sm.discretize(b.build(), 0.01)
    pose = step.system.satisfy_constraints({"two": 0.3}, fixed=["two"])
    run = step.rollout(step.rest(pose), np.zeros((3, 1)))
    assert run.multipliers is not None
    assert run.multipliers.min() < 0 or run.multipliers.max() > 0
    verdict = judge(step, sm.Plan(run, np.zeros((3, 1, 4)), run))
    assert "tension" not in [f.name for f in verdict.findings]
