"""A Kinect before any system: balls are told apart by where they are expected, channels are the system's own."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap.errors import ModelError
from stepmap_hil.depth import CHANNELS, Camera, Prediction, Renderer, Scene, Tracker
from stepmap_hil.depth.tracking.matching import match
from stepmap_hil.sensors.kinect_rendered import KinectSensor, Watcher, as_measurement, measured
from stepmap_hil.sensors.staging import Staging, stage
from stepmap_hil.sensors.targets import all_seen, axes_of_scene, targets
from tests import machines
from tests.hil.depth_kit import motion, renderer, tracker
from tests.pil.built import job as main_job


def before(system: sm.System, poses: np.ndarray) -> Any:
    """What of a job decides where its camera stands."""
    return SimpleNamespace(system=system, pose=poses[0], reference=SimpleNamespace(poses=poses))


def watcher(job: Any, seed: int = 1) -> tuple[Watcher, Staging, Renderer]:
    seen = targets(job.system)
    staged = stage(job, seen, Camera(), Scene())
    made = Renderer(staged.camera, staged.scene, seed=seed)
    learned = Tracker.learn(made.empty(5), staged.camera, staged.scene, reach=staged.reach)
    return Watcher(job, seen, learned), staged, made


def test_the_suspended_mass_is_seen_as_ever() -> None:
    """Same camera, same scene, and to the bit what the tracker of one ball and a robot reads."""
    seen = targets(main_job().system)
    staged = stage(main_job(), seen, Camera(), Scene())
    assert np.array_equal(staged.camera.pose, Camera().pose)
    assert (staged.scene, staged.balls, staged.box, staged.strings) == (Scene(), 1, True, ((0, 1),))
    assert staged.reach == tracker().reach
    assert tuple(name for name, _ in main_job().system.sensor_channels) == CHANNELS
    watch = Watcher(main_job(), seen, tracker())
    for k in (0, 40, 80):
        frame = staged.render(renderer(), np.array(motion(k)), k)
        assert np.array_equal(frame, renderer().render(*motion(k), number=k))
        mine, theirs = measured(*watch.read(frame, k / 30)), as_measurement(tracker().read(frame))
        assert np.array_equal(mine.z, theirs.z)
        assert mine.valid == theirs.valid == 0b1111


def test_a_quadrotor_and_its_load_are_two_balls() -> None:
    system = machines.quadrotor()
    t = np.linspace(0, 1, 11)
    poses = np.stack([0.3 * t, 0.1 * t, 0.1 * np.sin(3 * t), 1.2 * t], axis=1)
    watch, staged, made = watcher(before(system, poses))
    assert watch.targets.encoders == [4]  # pitch: no camera sees it
    off = []
    for k, pose in enumerate(poses):
        z, valid = watch.read(staged.render(made, watch.targets.places(pose), k), k / 10)
        assert valid.tolist() == [True] * 4 + [False], f"frame {k}"
        off.append(z[:4] - np.asarray(system.readings(pose))[:4])
    assert np.abs(np.mean(off, axis=0)).max() < 0.002
    assert np.abs(off).max() < 0.015


def test_balls_that_pass_each_other_keep_their_names() -> None:
    """At 3 m/s, 9 cm apart: each is then nearer to where the other was in the frame before."""
    b = sm.Builder("pair")
    for name, height in (("one", 0.4), ("other", 0.49)):
        ball = b.world.ty(height).tx(b.coordinate(f"x_{name}", unit="m"), name=name)
        b.mass(ball, 0.1)
        b.marker(ball, axes="xy")
    system = b.build()
    x = 0.1 * (np.arange(6) - 2.5)  # m, from frame to frame
    poses = 0.3 + np.stack([x, -x], axis=1)
    watch, staged, made = watcher(before(system, poses))
    places = watch.targets.places(poses)
    assert match(places[3], places[2], np.full(2, np.inf)) == [1, 0]  # as the crow flies they would be swapped
    for k, pose in enumerate(poses):
        z, valid = watch.read(staged.render(made, places[k], k), k / 30)
        assert valid.all()
        np.testing.assert_allclose(z, np.asarray(system.readings(pose)), atol=0.015)


def test_a_crane_in_space_is_seen_with_its_depth() -> None:
    """z is up in its system, and y away from the camera; bridge, trolley and rope follow from box and ball."""
    system = machines.crane()
    assert axes_of_scene(system).tolist() == [[1, 0, 0], [0, 0, 1], [0, -1, 0]]
    assert all_seen(system).encoders == []
    start = dict.fromkeys(("x", "y", "bridge", "trolley"), 0.0)
    poses = np.array(
        [
            system.configuration({**start, "x": 0.2, "y": y, "z": -0.7, "bridge": 0.2, "trolley": y, "rope": 0.7})
            for y in (-0.2, 0.0, 0.3)
        ]
    )
    watch, staged, made = watcher(before(system, poses))
    for k, pose in enumerate(poses):
        z, valid = watch.read(staged.render(made, watch.targets.places(pose), k), k / 30)
        assert valid.all()
        np.testing.assert_allclose(z, np.asarray(system.readings(pose)), atol=0.02)


def test_what_no_camera_can_see_is_said() -> None:
    with pytest.raises(ModelError, match="a camera sees markers, and 'furuta' has none: it measures phi, theta"):
        targets(machines.furuta())
    with pytest.raises(ModelError, match="no camera can read pitch of 'quadrotor'"):
        all_seen(machines.quadrotor())
    poses = np.array([[-3.0, 0, 0, 0], [3.0, 0, 0, 0]])
    job = before(machines.quadrotor(), poses)
    with pytest.raises(ModelError, match=r"cannot see a motion of 6\.1 by"):
        stage(job, targets(job.system), Camera(), Scene())


def test_pairs_are_those_of_least_squares() -> None:
    """By trying all ways, for random places; what is farther than allowed stays alone."""
    from itertools import permutations

    rng = np.random.default_rng(3)
    for _ in range(20):
        expected, found = rng.uniform(-1, 1, (3, 3)), rng.uniform(-1, 1, (4, 3))
        best = min(permutations(range(4), 3), key=lambda way: float(np.sum((expected - found[list(way)]) ** 2)))
        assert match(found, expected, np.full(3, np.inf)) == list(best)
    assert match(np.zeros((0, 3)), np.zeros((2, 3)), np.ones(2)) == [None, None]
    assert match(np.array([[0.5, 0, 0]]), np.array([[0.0, 0, 0], [0.6, 0, 0]]), np.full(2, 0.2)) == [None, 0]


def test_a_ball_goes_on_as_it_moved_and_is_forgotten_after_a_while() -> None:
    here = np.array([[0.0, 0.0, 0.0]])
    told = Prediction.begin(here).seen(0.0, here).seen(0.1, here + 0.05)
    np.testing.assert_allclose(told.expected(0.2), here + 0.1)
    lost = told.seen(0.2, np.full((1, 3), np.nan))
    np.testing.assert_allclose(lost.expected(0.3), here + 0.15)
    assert lost.within(0.3) > told.within(0.11)
    np.testing.assert_allclose(lost.expected(5.0), here + 0.05)
    assert replace(told).within(9.0) == Prediction.begin(here).within(0.0)


def test_the_open_loop_knows_the_empty_scene_from_the_closed_one() -> None:
    """Frames depend on scene and seed alone; of another seed they are others, and are learned anew."""
    job, found = main_job(), []
    for seed in (1, 1, 2):
        with closing(KinectSensor(job, seed)) as sensor:
            found.append((sensor.renderer, sensor.watcher.tracker))
    assert found[1] == found[0]
    assert found[2][0].seed == 2
    assert not np.array_equal(found[2][1].background.limit, found[0][1].background.limit)
