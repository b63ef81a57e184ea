"""examples/flight: the helicopter through the canyon, from a straight line through the rock, judged by coal."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation, Slerp

import stepmap as sm
from stepmap import jobs
from stepmap.jobs.direct.job import DirectJob
from tests.pages import ROOT

coal = pytest.importorskip("coal", reason="coal judges distances; install the extra dev")

BETWEEN = 10


@pytest.fixture(scope="module")
def job() -> DirectJob:
    loaded = jobs.load(ROOT / "examples" / "flight" / "canyon.toml")
    assert isinstance(loaded, DirectJob)
    return loaded


@pytest.fixture(scope="module")
def flight(job: DirectJob) -> sm.DirectSolution:
    """The time is found, with 64 steps."""
    return job.search().require()


@pytest.fixture(scope="module")
def flown(job: DirectJob, flight: sm.DirectSolution) -> sm.DirectSolution:
    """The same with the steps of a board."""
    return flight.at_period(job.dt).require()


@pytest.fixture(scope="module")
def rock(job: DirectJob) -> sm.Heightmap:
    (clearance,) = job.task.clear
    (ground,) = clearance.world
    assert isinstance(ground, sm.Heightmap)
    return ground


@pytest.fixture(scope="module", params=["found", "for the board"])
def solution(request: pytest.FixtureRequest, flight: sm.DirectSolution, flown: sm.DirectSolution) -> sm.DirectSolution:
    return flight if request.param == "found" else flown


def nodes_and_between(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and rotations at nodes and at ten places of every step: straight, and turning about one axis."""
    at = np.arange((len(q) - 1) * (BETWEEN + 1) + 1) / (BETWEEN + 1)
    nodes = np.arange(len(q))
    places = np.stack([np.interp(at, nodes, q[:, i]) for i in range(3)], axis=1)
    turns = Slerp(nodes, Rotation.from_quat(q[:, 3:7], scalar_first=True))(at)
    return places, turns.as_matrix()


def test_the_ground_is_that_of_its_formula(rock: sm.Heightmap) -> None:
    """At a node on the slope of a wall, by hand."""
    x, y = np.asarray(rock.x)[20], np.asarray(rock.y)[25]
    wall = 9 / (1 + np.exp(-(abs(y - 4 * np.sin(2 * np.pi * x / 22)) - 3.6) / 0.6))
    rough = 0.3 * np.sin(1.3 * x + 0.8 * y) * np.sin(0.6 * x - 1.1 * y)
    assert np.asarray(rock.z)[20, 25] == pytest.approx(wall + rough, rel=1e-12)


def test_coal_finds_no_contact(job: DirectJob, rock: sm.Heightmap, solution: sm.DirectSolution) -> None:
    """The three balls of the body keep off the very triangles of the rock, on the side where they started."""
    model = coal.BVHModelOBBRSS()
    model.beginModel(0, 0)
    for three in rock.triangles():
        model.addTriangle(*three)
    model.endModel()
    places, turns = nodes_and_between(solution.step.layout.pose(solution.trajectory.x))
    assert len(places) == solution.trajectory.steps * (BETWEEN + 1) + 1
    least = np.inf
    (clearance,) = job.task.clear
    for part in clearance.shape:
        ball = coal.Sphere(part.radius)
        for place, turn in zip(places, turns, strict=True):
            at = coal.Transform3s(np.eye(3), place + turn @ part.center)
            found = coal.distance(model, coal.Transform3s(), ball, at, coal.DistanceRequest(), coal.DistanceResult())
            least = min(least, found)
    # Steps of 0.8 m are shorter than the balls' diameter: none can have passed through the surface between two.
    assert np.linalg.norm(np.diff(places, axis=0), axis=1).max() < 2 * 0.45
    assert least > 0.2
    assert least < 0.6  # it does fly near the rock


def test_the_way_is_not_the_straight_one(job: DirectJob, flight: sm.DirectSolution) -> None:
    (clearance,) = job.task.clear
    rows, poses = clearance.of(job.system), flight.step.layout.pose(flight.trajectory.x)
    straight = np.linspace(poses[0], poses[-1], 65)
    assert rows.evaluate(straight).min() < -2.0
    assert rows.evaluate(poses).min() > -1e-8


def test_the_search_is_short(flight: sm.DirectSolution) -> None:
    """Bounds on quaternions, which their norm keeps anyway, made it ten times as long: they have no inside."""
    assert flight.iterations < 150


def test_the_plan_lies_on_its_map_and_holds_off_what_disturbs_it(solution: sm.DirectSolution) -> None:
    step, plan = solution.step, solution.plan
    x, u = plan.trajectory.x, plan.trajectory.u
    after = np.array([step.step(*pair).x for pair in zip(x[:-1], u, strict=True)])
    assert np.abs(step.layout.difference(x[1:], after)).max() < 1e-6
    off = np.zeros(12)
    off[:6] = 0.2, 0.0, 0.0, 0.15, 0.0, 0.0  # m, rad
    closed = step.follow(step.layout.retract(x[0], off), plan.trajectory, plan.gains)
    assert np.abs(step.layout.difference(x[-1], closed.x[-1])[:6]).max() < 0.01


def test_the_board_s_flight_has_its_period_and_hardly_costs_more(
    job: DirectJob, flight: sm.DirectSolution, flown: sm.DirectSolution
) -> None:
    assert flown.step.dt == pytest.approx(job.dt, rel=1e-12)
    assert flown.trajectory.steps == np.ceil(flight.time / job.dt) + 1  # the last one holds the goal
    assert flown.cost == pytest.approx(flight.cost, rel=0.02)
    bounds = job.task.bounds
    assert (flown.trajectory.u >= bounds.u[0] - 1e-9).all()
    assert (flown.trajectory.u <= bounds.u[1] + 1e-9).all()


def test_the_end_is_held_by_its_last_input(flown: sm.DirectSolution) -> None:
    """Without feedback: a level helicopter hovers where its lift is its weight."""
    x, u = flown.trajectory.x[-1], flown.trajectory.u[-1]
    np.testing.assert_allclose(u, [5.0 * 9.8, 0, 0, 0], atol=1e-9)
    after = flown.step.rollout(x, np.tile(u, (10, 1))).x[-1]
    assert np.abs(flown.step.layout.difference(x, after)).max() < 1e-6


def test_a_report_tells_of_room_and_shows_the_flight(job: DirectJob, flown: sm.DirectSolution) -> None:
    (room,) = job.told(flown)["direct"]["room"]
    assert room["what"] == "clearance of body from the heightmap"
    assert 0.39 < room["least"] <= 0.4 + 1e-6  # its margin, and a little less between nodes
    findings = {one.name: one for one in job.judged(flown).findings}
    assert all(one.ok for one in findings.values())
    assert "found within 3 to 12 s" in findings["time"].text
    assert set(job.drawn(flown)) == {"path", "coordinates", "inputs", "clearances"}
    with Image.open(io.BytesIO(job.animated(flown)["motion.gif"])) as film:
        shown = sum(film.seek(i) or film.info["duration"] for i in range(film.n_frames))
    assert shown / 1000 == pytest.approx(flown.trajectory.t[-1] + 0.8, abs=0.3)  # s, the last picture stays for 0.8
