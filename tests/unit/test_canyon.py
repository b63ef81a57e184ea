"""examples/flight: the helicopter through the canyon, from a straight line through the rock, judged by coal."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

import stepmap as sm
from tests.pages import ROOT

coal = pytest.importorskip("coal", reason="coal judges distances; install the extra dev")

BETWEEN = 10


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def canyon() -> ModuleType:
    return load(ROOT / "examples" / "flight" / "canyon.py")


@pytest.fixture(scope="module")
def rock(canyon: ModuleType) -> sm.Heightmap:
    return canyon.ground()


@pytest.fixture(scope="module")
def flight(canyon: ModuleType, rock: sm.Heightmap) -> sm.DirectSolution:
    return canyon.plan(rock).require()


def nodes_and_between(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and rotations at nodes and at ten places of every step: straight, and turning about one axis."""
    at = np.arange((len(q) - 1) * (BETWEEN + 1) + 1) / (BETWEEN + 1)
    nodes = np.arange(len(q))
    places = np.stack([np.interp(at, nodes, q[:, i]) for i in range(3)], axis=1)
    turns = Slerp(nodes, Rotation.from_quat(q[:, 3:7], scalar_first=True))(at)
    return places, turns.as_matrix()


def test_coal_finds_no_contact(canyon: ModuleType, rock: sm.Heightmap, flight: sm.DirectSolution) -> None:
    """The three balls of the body keep off the very triangles of the rock, on the side where they started."""
    model = coal.BVHModelOBBRSS()
    model.beginModel(0, 0)
    for three in rock.triangles():
        model.addTriangle(*three)
    model.endModel()
    places, turns = nodes_and_between(flight.step.layout.pose(flight.trajectory.x))
    assert len(places) == 64 * (BETWEEN + 1) + 1
    least = np.inf
    for part in canyon.room(rock).shape:
        ball = coal.Sphere(part.radius)
        for place, turn in zip(places, turns, strict=True):
            at = coal.Transform3s(np.eye(3), place + turn @ part.center)
            found = coal.distance(model, coal.Transform3s(), ball, at, coal.DistanceRequest(), coal.DistanceResult())
            least = min(least, found)
    # Steps of 0.8 m are shorter than the balls' diameter: none can have passed through the surface between two.
    assert np.linalg.norm(np.diff(places, axis=0), axis=1).max() < 2 * 0.45
    assert least > 0
    assert least < 0.6  # it does fly near the rock


def test_the_way_is_not_the_straight_one(canyon: ModuleType, rock: sm.Heightmap, flight: sm.DirectSolution) -> None:
    rows = canyon.room(rock).of(flight.task.system)
    ends = (np.array(canyon.pose(x)) for x in (canyon.START, canyon.GOAL))
    assert rows.evaluate(np.linspace(*ends, 65)).min() < -2.0
    assert rows.evaluate(flight.step.layout.pose(flight.trajectory.x)).min() > -1e-8


def test_the_plan_lies_on_its_map_and_holds_off_what_disturbs_it(flight: sm.DirectSolution) -> None:
    step, plan = flight.step, flight.plan
    x, u = plan.trajectory.x, plan.trajectory.u
    after = np.array([step.step(*pair).x for pair in zip(x[:-1], u, strict=True)])
    assert np.abs(step.layout.difference(x[1:], after)).max() < 1e-6
    off = np.zeros(12)
    off[:6] = 0.2, 0.0, 0.0, 0.15, 0.0, 0.0  # m, rad
    closed = step.follow(step.layout.retract(x[0], off), plan.trajectory, plan.gains)
    assert np.abs(step.layout.difference(x[-1], closed.x[-1])[:6]).max() < 0.01
