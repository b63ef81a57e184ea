"""Clearances as constraints of direct searches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepmap as sm

coal = pytest.importorskip("coal", reason="coal judges distances; install the extra dev")

RADIUS, MARGIN = 0.05, 0.03
X = np.linspace(-1.5, 1.5, 31)
RIDGE = sm.Heightmap(X, X, 0.3 * np.exp(-8 * X**2)[:, None] - 0.1 + 0 * X)
BALL = sm.Sphere((0.4, 0.02, 0.0), 0.2)
TASK: dict[str, Any] = {
    "steps": 40,
    "time": 2.0,
    "start": {"x": -1.0, "y": 0.0, "z": 0.0},
    "goal": {"x": 1.0, "y": 0.0, "z": 0.0},
    "running": "fx**2 + fy**2 + fz**2",
}


@pytest.fixture(scope="module")
def point() -> sm.System:
    """A mass that three forces push."""
    b = sm.Builder("point")
    frame = b.world
    for name in "xyz":
        place = b.coordinate(name, unit="m", low=-3, high=3)
        push = b.input(f"f{name}", unit="N", low=-5, high=5)
        frame = getattr(frame, f"t{name}")(place, name=f"at_{name}")
        b.drive(place, push)
    b.mass(frame, 1.0)
    return b.build()


def room(*world: Any) -> sm.Clearance:
    return sm.Clearance("at_z", RADIUS, world, margin=MARGIN)


def between(q: np.ndarray, parts: int = 10) -> np.ndarray:
    """Poses at nodes and at so many places between them; steps of a mass are straight lines."""
    s = np.arange(parts + 1)[:, None, None] / (parts + 1)
    return np.concatenate([((1 - s) * q[:-1] + s * q[1:]).reshape(-1, q.shape[1]), q[-1:]])


def test_a_motion_keeps_clear_of_ground_and_ball(point: sm.System) -> None:
    """From a straight line through both. coal is the judge, at nodes and at ten places of every step: it holds at
    nodes and in middles up to the error of the grid, a twelfth of its 0.1 m, and more than half of it between them."""
    found = sm.direct(point, **TASK, clear=[room(RIDGE, BALL)]).require()
    q = found.step.layout.pose(found.trajectory.x)
    rows = room(RIDGE, BALL).of(point)
    straight = np.linspace(q[0], q[-1], 41)
    assert rows.evaluate(straight).min() < -0.2
    assert rows.evaluate(q).min() > -1e-8
    assert rows.evaluate((q[1:] + q[:-1]) / 2).min() > -1e-8
    model = coal.BVHModelOBBRSS()
    model.beginModel(0, 0)
    for three in RIDGE.triangles():
        model.addTriangle(*three)
    model.endModel()
    part = coal.Sphere(RADIUS)
    for pose in between(q):
        place, request = coal.Transform3s(np.eye(3), pose), coal.DistanceRequest()
        ground = coal.distance(model, coal.Transform3s(), part, place, request, coal.DistanceResult())
        sphere = coal.Transform3s(np.eye(3), np.array(BALL.center))
        ball = coal.distance(coal.Sphere(BALL.radius), sphere, part, place, request, coal.DistanceResult())
        assert min(ground, ball) > MARGIN / 2
    assert np.abs(np.diff(q, axis=0)).max() < 0.2
    # It lies on its own map, and touches the margin: without it the straight way is cheaper.
    rolled = found.step.rollout(found.trajectory.x[0], found.trajectory.u)
    assert np.abs(rolled.x - found.trajectory.x).max() < 1e-6
    free = sm.direct(point, **TASK).require()
    assert free.cost < found.cost
    assert rows.evaluate(q).min() < 1e-3


def test_fatrop_finds_the_same_around_a_ball(point: sm.System) -> None:
    """Two solvers of different making; both end within 1e-6 of the least cost."""
    costs = [sm.direct(point, **TASK, clear=[room(BALL)], solver=name).require().cost for name in ("ipopt", "fatrop")]
    assert costs[0] == pytest.approx(costs[1], rel=1e-6)


def test_mistakes_are_found_before_anything_is_solved(point: sm.System) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("goal: clearance of at_z from the sphere lacks 0.26", {"goal": {"x": 0.4, "y": 0.0, "z": 0.0}}),
        ("start: clearance of at_z from the heightmap lacks", {"start": {"x": 0.0, "y": 0.0, "z": 0.0}}),
        ("clear: expected a list of sm.Clearance", {"clear": [BALL]}),
        ("clear: expected a list of sm.Clearance", {"clear": room(BALL)}),
        ("heightmaps and meshes are for 'ipopt' alone", {"solver": "fatrop"}),
        ("frame: none is called 'nose'", {"clear": [sm.Clearance("nose", 0.1, BALL)]}),
    ]
    for text, change in wrong:
        with pytest.raises(sm.ModelError, match=text):
            sm.direct(point, **{**TASK, "clear": [room(RIDGE, BALL)], **change})
