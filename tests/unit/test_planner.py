"""Planned motions: they reach their goals, replay bit for bit, and an outside judge sees them clear of obstacles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space

import stepmap as sm
from tests.scenes import Scene, planar, spatial

RAIL = ("x", "y", "L")


@pytest.fixture(scope="module", params=[planar, spatial], ids=["planar", "spatial"])
def scene(request: pytest.FixtureRequest) -> Scene:
    made: Scene = request.param()
    return made


@pytest.mark.parametrize("seed", range(3))
def test_a_motion_reaches_its_goal_clear_of_obstacles(scene: Scene, seed: int) -> None:
    found = scene.plan(seed).require()
    step, names = scene.step, [c.name for c in scene.step.system.coordinates]
    wanted = np.array(list(scene.goal.values()))
    for motion in (found.trajectory, found.plan.trajectory):
        end = motion.x[-1, [names.index(name) for name in scene.goal]]
        assert np.abs(end - wanted).max() <= 0.1
        assert scene.room(motion.x) >= 0  # coal
        assert motion.multipliers is not None
        assert motion.multipliers.min() > 0
        assert np.array_equal(step.rollout(motion.x[0], motion.u).x, motion.x)
        rho = motion.x[:, step.layout["rho"]]
        for i, c in enumerate(step.system.kinematic):
            assert c.low <= rho[:, i].min()
            assert rho[:, i].max() <= c.high
        assert np.abs(motion.x[:, step.layout["v"]]).max() <= scene.rate * (1 + 1e-9)
    assert found.plan.gains.shape == (found.plan.trajectory.steps, step.nu, step.ndx)


def test_the_same_seed_gives_the_same_motion() -> None:
    scene = spatial()
    one, again, other = scene.plan(3), scene.plan(3), scene.plan(4)
    assert np.array_equal(one.trajectory.u, again.trajectory.u)
    assert not np.array_equal(one.trajectory.u, other.trajectory.u)


def test_a_smoothed_motion_changes_its_speed_less(scene: Scene) -> None:
    found = scene.plan(0)
    rough, smooth = (
        np.sum(np.diff(motion.x[:, scene.step.layout["v"]], axis=0) ** 2)
        for motion in (found.trajectory, found.plan.trajectory)
    )
    assert smooth < 0.5 * rough


def test_what_came_nearest_is_kept_where_the_goal_is_out_of_reach() -> None:
    scene = planar()
    found = scene.plan(0, extensions=600, tolerance=1e-6)
    assert not found.status.ok
    assert "allow more" in str(found.status)
    assert ("smoothed, this motion is within" in found.advice) == bool(found.task.reached(found.plan.trajectory.x[-1]))
    assert found.distance == pytest.approx(found.tree.distance)
    assert found.distance < np.linalg.norm(scene.start[:2] - list(scene.goal.values()))
    with pytest.raises(sm.ConvergenceError, match="nearest"):
        found.require()


def test_ctrl_c_keeps_the_nearest() -> None:
    def stop(nodes: int, distance: float, extensions: int) -> None:
        if extensions > 300:
            raise KeyboardInterrupt

    found = planar().plan(0, tolerance=1e-6, progress=stop)
    assert "interrupted" in str(found.status)
    assert found.trajectory.steps > 0


def test_a_plan_ends_where_it_can_stand() -> None:
    """The string holds the arm at the goal: potential energy has no slope along the constraint, and feedback keeps it.

    Ending at rest takes more steps than the tree's motion has.
    """
    found = spatial().plan(1).require()
    step, path = found.task.step, found.plan.trajectory
    assert (found.rest, found.moving) == (True, "")
    assert path.steps > found.trajectory.steps
    end = step.layout.pose(path.x[-1])
    free = null_space(step.system.residuals_slope(end)[:, : step.nd])
    assert free.shape[1] == 3
    for way in free.T:  # constraints change by the square of so small a way
        ahead, behind = (
            step.system.satisfy_constraints(np.concatenate([end[: step.nd] + s * 1e-4 * way, end[step.nd :]]), RAIL)
            for s in (1, -1)
        )
        slope = (step.system.potential_energy(ahead) - step.system.potential_energy(behind)) / 2e-4
        assert abs(slope) < 1e-4  # N m, of about 1 by gravity alone
    held = sm.Trajectory(step.dt * np.arange(101), np.tile(path.x[-1], (101, 1)), np.tile(path.u[-1], (100, 1)))
    stays = step.follow(path.x[-1], held, np.tile(found.plan.gains[-1], (100, 1, 1)))
    assert np.abs(stays.x - path.x[-1]).max() < 1e-5


@pytest.mark.parametrize("seed", [2, 6])
def test_the_node_that_moves_least_at_the_goal_can_stop_there(seed: int) -> None:
    """The first node at the goal swings so fast that no regulator stops it within the string's reach."""
    found = planar().plan(seed).require()
    ends = found.nodes[found.task.reached(found.nodes)]
    assert len(ends) > 10
    p = found.task.step.layout["p"]
    assert np.linalg.norm(found.trajectory.x[-1, p]) < 0.5 * np.median(np.linalg.norm(ends[:, p], axis=1))
    assert found.rest


def test_a_plan_whose_goal_cannot_stand_ends_in_motion_and_says_so() -> None:
    """Nothing holds a pendulum on a cart to one side."""
    step = sm.discretize(sm.systems.get("cart_pendulum"), 0.02)
    found = sm.plan(step, step.equilibrium({})[0], {"x": 1.0, "theta": 0.5}, seed=1).require()
    assert not found.rest
    assert "no equilibrium within the tolerance" in found.moving
    assert np.abs(found.plan.trajectory.x[-1, :2] - [1.0, 0.5]).max() <= 0.1


@pytest.mark.parametrize(
    ("name", "dt", "goal", "options"),
    [
        ("cart_pendulum", 0.02, {"x": 1.0, "theta": 0.0}, {}),
        ("double_pendulum", 0.01, {"theta1": 1.0, "theta2": 0.5}, {}),
        ("suspended_mass", 1 / 30, {"xm": 0.5, "ym": 0.3}, {"rate": 0.8, "tolerance": 0.05}),
        ("suspended_mass_string", 1 / 30, {"xm": 0.5, "ym": 0.3}, {"rate": 0.8, "tolerance": 0.05}),
    ],
)
def test_other_systems_are_planned(name: str, dt: float, goal: dict[str, float], options: dict[str, float]) -> None:
    """By forces alone, by robots, and with a string that may go slack; unsmoothed and smoothed."""
    step = sm.discretize(sm.systems.get(name), dt)
    start, _ = step.equilibrium({})
    found = sm.plan(step, start, goal, seed=1, **options).require()
    names = [c.name for c in step.system.coordinates]
    for motion in (found.trajectory, found.plan.trajectory):
        end = motion.x[-1, [names.index(key) for key in goal]]
        assert np.abs(end - list(goal.values())).max() <= options.get("tolerance", 0.1)
        assert np.array_equal(step.rollout(start, motion.u).x, motion.x)
        for i, force in enumerate(step.system.inputs):
            assert force.low <= motion.u[:, i].min() <= motion.u[:, i].max() <= force.high


def test_forces_are_drawn_from_their_ranges() -> None:
    b = sm.Builder("cart")
    x = b.coordinate("x", unit="m")
    b.mass(b.world.tx(x, name="cart"), 1.0)
    b.drive(x, b.input("push", unit="N"))
    step = sm.discretize(b.build(), 0.02)
    with pytest.raises(sm.ModelError, match="box: force push has no range to draw from"):
        sm.plan(step, {}, {"x": 0.5})
    found = sm.plan(step, {}, {"x": 0.5}, box={"push": (-2.0, 3.0)}, tolerance=0.02).require()
    for motion in (found.trajectory, found.plan.trajectory):
        assert -2.0 <= motion.u.min() <= motion.u.max() <= 3.0
    assert len(np.unique(found.trajectory.u)) > 1
    assert abs(found.plan.trajectory.x[-1, 0] - 0.5) <= 0.02


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"goal": {"theta9": 1.0}}, "goal: no coordinate is called 'theta9'"),
        ({"goal": {"theta1": 9.0}}, "goal: theta1 = 9 is outside its range"),
        ({"goal": {}}, "goal: expected values by coordinate"),
        ({"box": {"x": (1.0, 0.5)}}, "box: x has low 1 not below high 0.5"),
        ({"box": {"theta1": (0.0, 0.5)}}, "box: no kinematic coordinate or force is called 'theta1'"),
        ({"box": {"x": (-1.0, 0.0)}}, "start: x is .* outside its box"),
        ({"rate": 0.0}, "rate of x: must be positive"),
        ({"tolerance": 0.0}, "tolerance: must be positive"),
        ({"links": []}, "links: name pairs of frames"),
        ({"obstacles": [sm.Sphere((0.1, -0.2, 0.0), 0.3)]}, "start: link .* within an obstacle"),
    ],
)
def test_mistakes_are_told_first(change: dict, message: str) -> None:
    scene = planar()
    given = {"goal": scene.goal, "links": scene.links, "radius": 0.02, "rate": 1.0}
    given |= {"obstacles": [sm.Sphere((0.42, 0.0, 0.0), 0.05)]} | change
    with pytest.raises(sm.ModelError, match=message):
        sm.plan(scene.step, scene.start, **given)
