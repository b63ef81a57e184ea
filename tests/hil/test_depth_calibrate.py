"""The pose of a camera, found again; and data that do not give one, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepmap.errors import JobError
from stepmap_hil.depth import (
    Background,
    CalibrationError,
    Camera,
    Renderer,
    Tracker,
    calibrate,
    look,
    rig,
    sight,
)
from tests.hil.depth_kit import renderer

PLACES = np.array(
    [[-0.1, 0.2, 0.0], [0.6, 0.2, 0.0], [0.6, 0.8, 0.0], [-0.1, 0.8, 0.0], [0.25, 0.5, 0.0], [0.3, 0.25, 0.0]]
)


def apart(a: Camera, b: Camera) -> tuple[float, float]:
    """Distance of the eyes [m] and angle between the axes [rad] of two cameras."""
    cosine = (np.trace(a.turn.T @ b.turn) - 1) / 2
    return float(np.linalg.norm(a.eye - b.eye)), float(np.arccos(np.clip(cosine, -1, 1)))


poses = st.builds(
    lambda eye, target: look(eye, target),
    st.tuples(st.floats(-1.0, 1.5), st.floats(-0.5, 1.5), st.floats(0.8, 3.0)),
    st.tuples(st.floats(-0.2, 0.6), st.floats(0.2, 0.8), st.floats(-0.2, 0.2)),
)


@given(pose=poses, roll=st.floats(-np.pi, np.pi), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_any_pose_is_found_from_points(pose: np.ndarray, roll: float, seed: int) -> None:  # type: ignore[type-arg]
    """1 mm of noise on six places over 0.7 m: the pose to about 1 mm / √6 / 0.3 m of angle, times 4 for safety."""
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(roll), -np.sin(roll)], [np.sin(roll), np.cos(roll)]]
    true = Camera(pose=pose @ turn)
    seen = true.to_camera(PLACES)
    exact = calibrate(seen, PLACES, Camera())
    assert exact.camera.pose == pytest.approx(true.pose, abs=1e-9)
    assert exact.rms < 1e-9
    noisy = calibrate(seen + 0.001 * np.random.default_rng(seed).standard_normal(seen.shape), PLACES, Camera())
    shift, angle = apart(noisy.camera, true)
    assert angle < 4 * 0.001 / np.sqrt(6) / 0.3
    assert shift < 4 * 0.001 + angle * 3.5
    assert noisy.rms < 0.004


@pytest.mark.parametrize("eye", [(0.3, 0.5, 1.5), (0.9, 0.8, 1.3), (-0.2, 0.3, 1.7)])
def test_a_pose_is_found_from_frames(eye: tuple[float, float, float]) -> None:
    """From not knowing where the camera stands to reading the mass: ten frames a place, 2 mm / √10 each.

    Over 0.6 m that is 0.001 rad, at 1.5 m 1.5 mm; four times that for safety.
    """
    true = Renderer(Camera(pose=look(eye, (0.25, 0.5, 0.0))), seed=3)
    unknown = Camera()
    background = Background.learn(true.empty(10), unknown)
    seen = [
        sight([true.render(place, number=10 * k + j) for j in range(10)], background, unknown, true.scene.radius)
        for k, place in enumerate(PLACES)
    ]
    found = calibrate(seen, PLACES, unknown)
    shift, angle = apart(found.camera, true.camera)
    assert found.rms < 0.003
    assert shift < 0.008
    assert angle < 0.004
    reading = Tracker(found.camera, true.scene, background).read(true.render((0.4, 0.35, 0.0), (0.3, 1.0, 0.0)))
    assert reading.z[:2] == pytest.approx([0.4, 0.35], abs=0.008)


CAMERA = Camera()
SEEN = CAMERA.to_camera(PLACES)


@pytest.mark.parametrize(
    ("seen", "known", "why"),
    [
        (SEEN[:3], PLACES[:3], "3 places are too few"),
        (SEEN[:0], PLACES[:0], "0 places are too few"),
        (SEEN[:5], PLACES, "seen once and known once"),
        (SEEN, PLACES * [1, 0, 1], "known places lie within 0 mm of one line"),
        (SEEN * [1, 0.05, 1], PLACES, "seen places lie within 13 mm of one line"),
        (SEEN, PLACES * 1000, "in metres"),
        (SEEN, PLACES[[1, 0, 2, 3, 4, 5]], "same order"),
        (SEEN, PLACES + 0.05 * np.eye(6)[:, 3:4], "number 4 by"),
        (SEEN, PLACES * [-1, 1, 1], "behind the plane"),
        (SEEN, PLACES * [1, -1, 1], "behind the plane"),
    ],
)
def test_data_that_give_no_pose_are_refused(seen: np.ndarray, known: np.ndarray, why: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(CalibrationError, match=why):
        calibrate(seen, known, CAMERA)


def test_a_ball_that_is_not_there_or_moves_is_refused() -> None:
    view = renderer()
    background = Background.learn(view.empty(10), view.camera)
    with pytest.raises(CalibrationError, match="0 of 4 frames"):
        sight([view.render(number=k) for k in range(4)], background, view.camera, 0.03)
    with pytest.raises(CalibrationError, match=r"radius 0\.06"):
        sight([view.render((0.3, 0.4, 0.0), number=k) for k in range(4)], background, view.camera, 0.06)
    moving = [view.render((0.3 + 0.01 * k, 0.4, 0.0), number=k) for k in range(6)]
    with pytest.raises(CalibrationError, match="hold it still"):
        sight(moving, background, view.camera, 0.03)
    with pytest.raises(CalibrationError, match="0 of 0"):
        sight([], background, view.camera, 0.03)


def test_a_calibration_is_read_as_it_was_written(tmp_path: Path) -> None:
    true = calibrate(SEEN, PLACES, Camera(fx=580.0, baseline=0.07))
    rig.write(true, tmp_path / "rig.toml")
    found = rig.read(tmp_path / "rig.toml")
    assert np.array_equal(found.camera.pose, true.camera.pose)
    assert all(getattr(found.camera, name) == getattr(true.camera, name) for name in rig.NUMBERS)
    assert (found.places, found.rms, found.worst) == (true.places, true.rms, true.worst)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no table"),
        ("camera = 3", "no table"),
        ("[camera]", "needs a pose"),
        ("[camera]\npose = [[1, 2], [3, 4]]", "4x4"),
        ("[camera]\npose = 'x'", "pose"),
        ("[camera]\npose = [[1,0,0,0],[0,1,0,0],[0,0,-1,0],[0,0,0,1]]", "mirrors"),
        ("[camera]\npose = [[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]\nfocal = 3", "no focal"),
        ("[camera]\npose = [[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]\nfx = 'far'", "fx"),
        ("[camera", "cannot be read"),
    ],
)
def test_files_that_hold_no_calibration_are_refused(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "rig.toml"
    file.write_text(text)
    with pytest.raises(JobError, match=why) as caught:
        rig.read(file)
    assert "rig.toml" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"none\.toml"):
        rig.read(tmp_path / "none.toml")
