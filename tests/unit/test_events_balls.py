"""Impacts and releases of bodies that turn freely: against flights between impacts, and against the same in a plane."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import stepmap as sm
from stepmap_codegen.lower.step import lower_step
from tests import turning

CORNER, BOUNCE = np.array([0.2, -0.15, -0.1]), 0.6
START, PUSHED = np.array([0.0, 0.0, 0.5]), np.array([0.3, -0.2, 0.4])
TIME = 0.8


def body(b: sm.Builder) -> sm.Frame:
    free = b.world.free("body")
    b.mass(free, turning.MASS, inertia=turning.INERTIA)
    b.gravity((0, 0, -turning.GRAVITY))
    return free


@pytest.fixture(scope="module")
def thrown() -> sm.System:
    """A body whose corner bounces off the ground."""
    b = sm.Builder("thrown")
    b.contact(
        body(b).tx(CORNER[0]).ty(CORNER[1]).tz(CORNER[2], name="corner"), b.world, restitution=BOUNCE, name="ground"
    )
    return b.build()


def flights(time: float) -> tuple[np.ndarray, list[tuple[float, float, float]]]:
    """Pose and rates after some time, and (time, impulse, energy lost) of each impact: Newton and Euler, DOP853."""
    inertia, m = turning.INERTIA, turning.MASS

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        q, w = y[3:7], y[10:]
        turned = np.cross(inertia * w, w) / inertia
        return np.concatenate([y[7:10], turning.turning(q, w), [0, 0, -turning.GRAVITY], turned])

    def height(_: float, y: np.ndarray) -> float:
        return float(y[2] + (turning.rotation(y[3:7]) @ CORNER)[2])

    height.terminal, height.direction = True, -1  # type: ignore[attr-defined]
    y, at, impacts = np.concatenate([START, turning.START, PUSHED, turning.OMEGA]), 0.0, []
    while True:
        found = solve_ivp(rate, (at, time), y, method="DOP853", rtol=1e-13, atol=1e-13, events=height)
        y, at = found.y[:, -1], float(found.t[-1])
        if not found.t_events[0].size:
            return y, impacts
        normal = turning.rotation(y[3:7])[2]  # of the ground, in the body's axes
        arm = np.cross(CORNER, normal)
        speed = y[9] + arm @ y[10:]
        impulse = -(1 + BOUNCE) * speed / (1 / m + arm @ (arm / inertia))
        energy = -impulse * speed * (1 - BOUNCE) / 2  # lost: Λ (v⁻ + v⁺)/2 is the work of the impulse
        y = y + np.concatenate([np.zeros(9), [impulse / m], impulse * arm / inertia])
        impacts.append((at, impulse, energy))


def test_second_order_through_impacts(thrown: sm.System) -> None:
    truth, impacts = flights(TIME)
    assert len(impacts) == 2
    errors = []
    for n in (80, 160, 320):
        step = sm.discretize(thrown, TIME / n)
        pose, velocity = {"body": (*START, *turning.START)}, {"body": (*PUSHED, *turning.OMEGA)}
        run = step.rollout(step.from_velocity(pose, velocity, instant=True), np.zeros((n, 0)))
        assert [event.kind for event in run.events] == ["impact"] * len(impacts)
        told = np.array([(event.time, event.impulse, event.energy) for event in run.events])
        off = min(np.abs(run.x[-1, 3:7] - sign * truth[3:7]).max() for sign in (1, -1))
        errors.append([np.abs(run.x[-1, :3] - truth[:3]).max(), off, *np.abs(told - impacts).max(axis=0)])
    orders = np.log2(np.array(errors[0]) / np.array(errors[2])) / 2
    assert orders.min() > 1.7, orders


def stick(spatial: bool, friction: float | None, restitution: float, hangs: bool) -> sm.System:
    """A stick that falls on a floor that moves; turning about x alone, it is the same in a plane and in space."""
    b = sm.Builder("stick")
    lift, push = b.coordinate("lift", unit="m", kinematic=True), b.input("push", unit="N m")
    if spatial:
        of = b.world.free("body")
        b.drive(of, (push, 0, 0))
    else:
        y, z, a = b.coordinate("y", unit="m"), b.coordinate("z", unit="m"), b.coordinate("a", unit="rad")
        of = b.world.ty(y).tz(z).rx(a)
        b.drive(a, push)
    b.mass(of, 0.7, inertia=(0.02, 0.011, 0.013))
    b.gravity((0, 0, -9.81))
    floor = b.world.tz(lift)
    for name, at in (("left", -0.3), ("right", 0.35)):
        b.contact(of.ty(at), floor, restitution=restitution, friction=friction, name=name)
    if hangs:
        b.string(b.world.tz(1.2), of.ty(0.1).tz(0.05), 1.0, name="line")
    return b.build()


@pytest.mark.parametrize(
    ("friction", "restitution", "hangs"),
    [(None, 0.4, False), (None, 0.0, True), (math.inf, 0.0, False)],
    ids=["bounces", "hangs", "sticks"],
)
def test_in_a_plane_it_is_the_step_of_angles(friction: float | None, restitution: float, hangs: bool) -> None:
    """To rounding: motion, events, A and B; second derivatives, which are differences in space, to 1e-8."""
    flat, space = (sm.discretize(stick(spatial, friction, restitution, hangs), 0.01) for spatial in (False, True))
    turn = (math.cos(0.2), math.sin(0.2), 0, 0)
    x = flat.from_velocity({"y": 0.05, "z": 0.5, "a": 0.4}, {"y": 0.3, "z": 0.2, "a": 1.5}, instant=True)
    y = space.from_velocity({"body": (0, 0.05, 0.5, *turn)}, {"body": (0, 0.3, 0.2, 1.5, 0, 0)}, instant=True)
    t = 0.01 * np.arange(1, 121)
    U = np.stack([0.3 * np.sin(5 * t), 0.05 * np.sin(4 * t)], axis=1)
    a, b = flat.rollout(x, U), space.rollout(y, U)
    angle = np.unwrap(2 * np.arctan2(b.x[:, 4], b.x[:, 3]))
    np.testing.assert_allclose(np.column_stack([b.x[:, 1:3], angle]), a.x[:, :3], atol=1e-12)
    assert len(a.events) >= 2
    assert [(e.step, e.name, e.kind) for e in a.events] == [(e.step, e.name, e.kind) for e in b.events]
    for one, other in zip(a.events, b.events, strict=True):
        np.testing.assert_allclose(one[:1] + one[4:], other[:1] + other[4:], atol=1e-11)
    same = [1, 2, 3, 6, 8, 9, 10, 13]  # y, z, turn about x, lift, and what belongs to them
    z = np.random.default_rng(1).normal(size=8)
    wide = np.zeros(space.ndx)
    wide[same] = z
    for k in sorted({event.step for event in a.events})[:4]:
        p, q = flat.linearize(a.x[k], U[k]), space.linearize(b.x[k], U[k])
        np.testing.assert_allclose(q.A[np.ix_(same, same)], p.A, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(q.B[same], p.B, rtol=1e-10, atol=1e-10)
        c, d = flat.curvature(a.x[k], U[k], z), space.curvature(b.x[k], U[k], wide)
        scale = max(1.0, np.abs(c.xx).max())
        np.testing.assert_allclose(d.xx[np.ix_(same, same)] / scale, c.xx / scale, atol=1e-8)
        np.testing.assert_allclose(d.xu[same] / scale, c.xu / scale, atol=1e-8)


def arm_on_a_string() -> tuple[sm.StepMap, sm.Trajectory]:
    """An upper arm on a ball, a fore arm on another, a hand on a string whose hook moves, and a floor to stand on."""
    b = sm.Builder("puppet")
    hook = b.coordinate("hook", unit="m", kinematic=True)
    shoulder = b.world.ball("shoulder")
    b.mass(shoulder.tz(-0.15), 1.0, inertia=(0.01, 0.012, 0.003))
    elbow = shoulder.tz(-0.3).ball("elbow")
    b.mass(elbow.tz(-0.1), 0.6, inertia=(0.006, 0.005, 0.002))
    hand = elbow.tz(-0.25, name="hand")
    b.gravity((0, 0, -9.81))
    b.damping(elbow, 0.02)
    b.string(b.world.tx(0.25).tz(0.15).tz(hook), hand, 0.55, name="line")
    b.contact(hand, b.world.tz(-0.35), restitution=0.3, name="table")
    step = sm.discretize(b.build(), 0.01)
    start = step.from_velocity({"shoulder": (0.8, 0.1, -0.5, 0.2) / np.sqrt(0.94)}, {"elbow": (1, -2, 1)}, instant=True)
    return step, step.rollout(start, 0.12 * np.sin(0.05 * np.arange(1, 201))[:, None])


@pytest.fixture(scope="module")
def puppet() -> tuple[sm.StepMap, sm.Trajectory]:
    return arm_on_a_string()


def test_gaps_and_forces_are_kept(puppet: tuple[sm.EventStep, sm.Trajectory]) -> None:
    step, run = puppet
    assert {"impact", "release"} == {event.kind for event in run.events}
    assert {"line", "table"} == {event.name for event in run.events}
    assert step.system.gaps(step.layout.pose(run.x)).max() <= 1e-12
    assert run.multipliers is not None
    assert run.multipliers.min() >= -1e-12
    assert min(event.impulse for event in run.events) >= 0
    for start in (0, 4):
        assert np.abs(np.linalg.norm(run.x[:, start : start + 4], axis=1) - 1).max() <= 1e-14
    x = run.x[0]
    for k, u in enumerate(run.u):  # the rollout is the repeated step, bit for bit
        x = step.step(x, u).x
        np.testing.assert_array_equal(x, run.x[k + 1])


def test_derivatives_with_the_order_of_events_frozen(puppet: tuple[sm.EventStep, sm.Trajectory]) -> None:
    step, run = puppet
    z = np.random.default_rng(3).normal(size=step.ndx)
    for k in sorted({event.step for event in run.events if event.kind == "impact"})[:3]:
        errors = sm.check_derivatives(step, run.x[k], run.u[k], z, spacing=1e-4)
        assert errors.A <= 1e-8, (k, errors)
        assert errors.B <= 1e-8, (k, errors)


def test_derivatives_by_dt_and_of_forces(puppet: tuple[sm.EventStep, sm.Trajectory]) -> None:
    step, run = puppet
    k = next(event.step for event in run.events if event.name == "line")
    x, u, layout = run.x[k], run.u[k], step.layout
    frozen, here = step.frozen(x, u), step.length_sensitivity(x, u)

    def moved(change: Callable[[float], tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
        h, total = 1e-5, 0.0
        for n, weight in ((1, 0.75), (2, -0.15), (3, 1 / 60)):
            for sign in (1, -1):
                found = frozen.step(*change(sign * n * h))
                parts = [layout.difference(here.x, found.x), found.multipliers]
                total = total + sign * weight / h * np.concatenate(parts)
        return np.asarray(total)

    by_dt = moved(lambda e: (x, u, step.dt + e))
    np.testing.assert_allclose(by_dt, np.concatenate([here.T, here.multipliers_t]), rtol=1e-6, atol=1e-6)
    d = np.random.default_rng(4).normal(size=layout.ndx)
    along = moved(lambda e: (layout.retract(x, e * d), u, step.dt))
    np.testing.assert_allclose(along, np.concatenate([here.A @ d, here.multipliers_x @ d]), rtol=1e-6, atol=1e-6)


def test_a_target_is_hit_after_a_bounce(thrown: sm.System) -> None:
    """Newton's method through an impact of a turning body: a throw that ends where another one did."""
    step = sm.discretize(thrown, 0.02)
    pose = {"body": (*START, *turning.START)}
    aim = step.rollout(step.from_velocity(pose, {"body": (*PUSHED, *turning.OMEGA)}, instant=True), np.zeros((20, 0)))
    assert aim.events
    x = step.from_velocity(pose, {"body": (*(PUSHED + 0.05), *turning.OMEGA)}, instant=True)
    slopes = []
    for _ in range(8):
        run = step.rollout(x, np.zeros((20, 0)))
        A, _ = step.linearize_along(run)
        through = np.linalg.multi_dot(list(A[::-1]))
        off = step.layout.difference(run.x[-1], aim.x[-1])[:6]
        slopes.append(np.abs(off).max())
        x = x + np.concatenate([np.zeros(7), np.linalg.solve(through[:6, 6:], off)])
    assert len(run.events) == 1
    assert slopes[-1] <= 1e-12, slopes


def test_no_code_is_generated_in_words(thrown: sm.System) -> None:
    with pytest.raises(sm.ModelError, match=r"gaps \(ground\) and balls \(body\): no code"):
        lower_step(sm.discretize(thrown, 0.01), 2)


def test_forces_on_the_left_are_refused(thrown: sm.System) -> None:
    with pytest.raises(sm.ModelError, match="held forces where there are balls"):
        sm.discretize(thrown, 0.01, forces="left")
