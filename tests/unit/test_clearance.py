"""Clearances of moving parts: against coal at random poses, against differences, and in an optimum."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
import pytest

import stepmap as sm
from stepmap.steps.check import difference

coal = pytest.importorskip("coal", reason="coal judges distances; install the extra dev")


def arm() -> sm.System:
    """Two links that turn in space."""
    b = sm.Builder("arm")
    turn, lift, bend = (b.coordinate(name, unit="rad") for name in ("turn", "lift", "bend"))
    u = b.input("u", unit="N m")
    elbow = b.world.rz(turn).ry(lift).tx(0.6, name="elbow")
    hand = elbow.ry(bend, name="fore").tx(0.5, name="hand")
    for frame in (elbow, hand):
        b.mass(frame, 1.0, inertia=(0.01, 0.01, 0.01))
    b.drive(turn, u)
    b.gravity((0, 0, -9.8))
    return b.build()


@pytest.fixture(scope="module")
def system() -> sm.System:
    return arm()


def hills() -> sm.Heightmap:
    x = np.linspace(-1.5, 1.5, 16)
    return sm.Heightmap(x, x, -0.6 + 0.2 * np.sin(2 * x)[:, None] * np.cos(2 * x))


def poses(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-np.pi, np.pi, (count, 3))


def turned(axis: int, angle: float) -> np.ndarray:
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[i, i] = R[j, j] = np.cos(angle)
    R[i, j], R[j, i] = -np.sin(angle), np.sin(angle)
    return R


def fore(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Axes and origin of the frame fore, by hand."""
    shoulder = turned(2, q[0]) @ turned(1, q[1])
    return shoulder @ turned(1, q[2]), shoulder @ (0.6, 0, 0)


def capsule(a: np.ndarray, b: np.ndarray, radius: float) -> Any:
    """coal's capsule between two points."""
    z = (b - a) / np.linalg.norm(b - a)
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x /= np.linalg.norm(x)
    place = coal.Transform3s(np.stack([x, np.cross(z, x), z], axis=1), (a + b) / 2)
    return coal.Capsule(radius, float(np.linalg.norm(b - a))), place


def apart(a: Any, b: Any) -> float:
    return float(coal.distance(*a, *b, coal.DistanceRequest(), coal.DistanceResult()))


WORLD = {
    "sphere": (
        sm.Sphere((0.5, 0.3, 0.2), 0.2),
        (coal.Sphere(0.2), coal.Transform3s(np.eye(3), np.array([0.5, 0.3, 0.2]))),
    ),
    "capsule": (
        sm.Capsule((0.4, -0.6, -0.5), (0.7, 0.5, 0.6), 0.1),
        capsule(np.array([0.4, -0.6, -0.5]), np.array([0.7, 0.5, 0.6]), 0.1),
    ),
    "half_space": (
        sm.HalfSpace((0, 0, -0.4), (0, 0, 1)),
        (coal.Halfspace(np.array([0, 0, 1.0]), -0.4), coal.Transform3s()),
    ),
    "box": (
        sm.Box((0.3, 0.4, 0.5), (0.6, 0.1, 0.3)),
        (coal.Box(0.3, 0.4, 0.5), coal.Transform3s(np.eye(3), np.array([0.6, 0.1, 0.3]))),
    ),
}


@pytest.mark.parametrize("name", WORLD)
def test_balls_on_a_frame_agree_with_coal(system: sm.System, name: str) -> None:
    """coal's tolerance is 1e-6, and a box's own 1e-6 of its least side."""
    shape, judge = WORLD[name]
    ball = sm.Sphere((0.2, 0.05, -0.1), 0.07)
    found = sm.Clearance("fore", ball, shape).of(system).evaluate(poses(100))
    for q, [ours] in zip(poses(100), found, strict=True):
        R, origin = fore(q)
        place = coal.Transform3s(np.eye(3), origin + R @ (0.2, 0.05, -0.1))
        assert ours == pytest.approx(apart((coal.Sphere(0.07), place), judge), abs=3e-6)


@pytest.mark.parametrize("name", WORLD)
def test_capsules_between_frames_agree_with_coal(system: sm.System, name: str) -> None:
    """Exact where there is a formula. From a box they are covered by balls, too large by a tenth of the radius at most,
    and never too small."""
    shape, judge = WORLD[name]
    rows = sm.Clearance(("elbow", "hand"), 0.04, shape, margin=0.02).of(system).evaluate(poses(150, 2)) + 0.02
    for q, row in zip(poses(150, 2), rows, strict=True):
        R, origin = fore(q)
        theirs = apart(capsule(origin, origin + R @ (0.5, 0, 0), 0.04), judge)
        if name == "box":
            if theirs > 0:  # within the box, coal tells the way out
                assert theirs - 0.1 * 0.04 - 0.001 <= row.min() <= theirs + 3e-6
        elif theirs > 0 or name != "capsule":  # two axes that cross have no least distance, only coal's way out
            assert row.min() == pytest.approx(theirs, abs=3e-6)


def test_a_capsule_in_a_frame_is_the_one_between_its_ends(system: sm.System) -> None:
    shapes = [shape for shape, _ in WORLD.values()] + [hills()]
    there = sm.Clearance("fore", sm.Capsule((0, 0, 0), (0.5, 0, 0), 0.05), shapes).of(system).evaluate(poses(20))
    between = sm.Clearance(("elbow", "hand"), 0.05, shapes).of(system).evaluate(poses(20))
    assert np.abs(there - between).max() < 1e-12


def test_expressions_equal_arrays_to_second_order(system: sm.System) -> None:
    """Rows of grids are expansions about the present points: value, slope and second derivative are the row's."""
    rows = sm.Clearance("fore", [0.1, sm.Capsule((0, 0, 0), (0.4, 0.1, 0), 0.2)], [hills(), WORLD["box"][0]]).of(system)
    assert rows.data_size == 13 * rows.count // 2
    q, par, data = ca.SX.sym("q", 3), ca.SX(0, 1), ca.SX.sym("data", rows.data_size)
    y = np.random.default_rng(3).normal(size=rows.count)
    r = rows.expression(rows.points(q, par), data)
    f = ca.Function("f", [q, data], [r, ca.jacobian(r, q), ca.hessian(ca.dot(y, r), q)[0]])
    for at in poses(5, 4):
        made = rows.expansions(rows.probes(at[None]))
        value, slope, bend = (np.asarray(e) for e in f(at, made[0]))
        assert np.abs(value.ravel() - rows.evaluate(at)).max() < 1e-13
        h = np.full(3, 1e-4)
        assert np.abs(slope - difference(rows.evaluate, at, h)).max() < 1e-8

        def weighted(p: np.ndarray) -> np.ndarray:
            return y @ np.asarray(f(p, rows.expansions(rows.probes(p[None]))[0])[1])

        assert np.abs(bend - difference(weighted, at, h)).max() < 1e-5 * max(1.0, np.abs(bend).max())
        callback = rows.callback(1)
        assert np.abs(np.asarray(callback(rows.probes(at[None]).T)).ravel() - made[0]).max() == 0


def test_many_poses_at_once(system: sm.System) -> None:
    rows = sm.Clearance("hand", 0.05, [hills(), *(shape for shape, _ in WORLD.values())]).of(system)
    at = poses(24).reshape(2, 3, 4, 3)
    whole = rows.evaluate(at)
    assert whole.shape == (2, 3, 4, 5)
    one_by_one = [rows.evaluate(q) for q in at.reshape(-1, 3)]
    assert np.abs(whole.reshape(-1, 5) - one_by_one).max() < 1e-14
    assert (rows.clear(at) == (whole >= 0).all(axis=-1)).all()


def test_an_optimum_goes_around_what_is_in_its_way() -> None:
    """A point mass from one side of hills and of a ball to the other: without the term straight through them."""
    b = sm.Builder("point")
    frame = b.world
    for name in "xyz":
        place, push = b.coordinate(name, unit="m"), b.input(f"f{name}", unit="N")
        frame = getattr(frame, f"t{name}")(place, name=f"at_{name}")
        b.drive(place, push)
    b.mass(frame, 1.0)
    step = sm.discretize(b.build(), 0.1)
    N, start, goal = 30, step.rest({"x": -1.0}), step.rest({"x": 1.0})
    track = sm.Track(
        np.diag([1e-3] * 6), 1e-3 * np.eye(3), 1e3 * np.eye(6), np.tile(goal, (N + 1, 1)), np.zeros((N, 3))
    )
    x = np.linspace(-1.5, 1.5, 31)
    ridge = sm.Heightmap(x, x, 0.3 * np.exp(-8 * x**2)[:, None] - 0.1 + 0 * x)
    room = sm.Clearance("at_z", 0.05, [ridge, sm.Sphere((0.4, 0.02, 0.0), 0.2)], margin=0.02, weight=100.0)
    without = sm.optimize(sm.Problem(step, sm.Cost(step, track), start)).require()
    found = sm.optimize(sm.Problem(step, sm.Cost(step, track, room), start), max_iterations=200).require()
    rows = room.of(step.system)
    assert rows.evaluate(step.layout.pose(without.trajectory.x)).min() < -0.2
    # A soft limit: the force there, of about 0.02 (see the cost), over the weight is what stays missing.
    assert rows.evaluate(step.layout.pose(found.trajectory.x)).min() > -1e-3
    assert np.abs(found.trajectory.x[-1] - goal).max() < 0.05


def test_mistakes_are_named(system: sm.System) -> None:
    ball = sm.Sphere((0, 0, 0), 1.0)
    wrong: list[tuple[str, Any]] = [
        ("did you mean 'hand'", lambda: sm.Clearance("hnad", 0.1, ball).of(system)),
        ("two different ones", lambda: sm.Clearance(("hand", "hand"), 0.1, ball)),
        ("radius of a capsule between", lambda: sm.Clearance(("elbow", "hand"), ball, ball)),
        ("shape .a radius.: must be 0 or more", lambda: sm.Clearance("hand", -0.1, ball)),
        ("shape .a radius.: expected a number", lambda: sm.Clearance("hand", "big", ball)),
        ("there is nothing in it", lambda: sm.Clearance("hand", [], ball)),
        ("world: expected shapes", lambda: sm.Clearance("hand", 0.1, ["rock"])),
        ("world: there is no shape", lambda: sm.Clearance("hand", 0.1, [])),
        ("margin: must be 0 or more", lambda: sm.Clearance("hand", 0.1, ball, margin=-1)),
        ("frame: expected a frame's name", lambda: sm.Clearance(3, 0.1, ball)),
    ]
    for text, make in wrong:
        with pytest.raises(sm.ModelError, match=text):
            make()
