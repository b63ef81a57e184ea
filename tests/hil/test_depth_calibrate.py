"""The pose of a camera, found again; and data that do not give one, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stepmap.errors import JobError
from stepmap_hil.depth import (
    Background,
    Calibration,
    CalibrationError,
    Camera,
    Renderer,
    Tracker,
    calibrate,
    look,
    sight,
)
from stepmap_hil.depth import calibration_file as rig
from stepmap_hil.depth.calibrate import LEAST, UNSURE, WORKSPACE
from tests.hil.depth_kit import renderer

Matrix = NDArray[np.float64]
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


def leaning(pose: Matrix, roll: float) -> Camera:
    """A camera of that pose, turned about its axis."""
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(roll), -np.sin(roll)], [np.sin(roll), np.cos(roll)]]
    return Camera(pose=pose @ turn)


@given(pose=poses, roll=st.floats(-np.pi, np.pi), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_any_pose_is_found_from_points(pose: Matrix, roll: float, seed: int) -> None:
    """1 mm of noise on six places over 0.7 m: the pose to about 1 mm / √6 / 0.3 m of angle, times 4 for safety."""
    true = leaning(pose, roll)
    seen = true.to_camera(PLACES)
    exact = calibrate(seen, PLACES, Camera(), rolled=True)
    assert exact.camera.pose == pytest.approx(true.pose, abs=1e-9)
    assert exact.rms < 1e-9
    noise = 0.001 * np.random.default_rng(seed).standard_normal(seen.shape)
    noisy = calibrate(seen + noise, PLACES, Camera(), rolled=True)
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
def test_data_that_give_no_pose_are_refused(seen: Matrix, known: Matrix, why: str) -> None:
    with pytest.raises(CalibrationError, match=why):
        calibrate(seen, known, CAMERA)


# Data that fit a wrong pose as well as the right one

RECTANGLE = PLACES[:4]
SQUARE = np.array([[0.0, 0.2, 0.0], [0.6, 0.2, 0.0], [0.6, 0.8, 0.0], [0.0, 0.8, 0.0]])


@pytest.mark.parametrize(
    ("held", "given", "angle"),
    [
        (SQUARE, SQUARE[[1, 2, 3, 0]], 90),
        (SQUARE, SQUARE[[3, 0, 1, 2]], 90),
        (SQUARE, SQUARE[[2, 3, 0, 1]], 180),
        (RECTANGLE, RECTANGLE[[2, 3, 0, 1]], 180),
        (PLACES, PLACES * [-1, -1, 1], 180),
    ],
    ids=["square", "square back", "half a turn", "rectangle", "signs"],
)
def test_places_that_fit_a_rolled_camera_are_refused(held: Matrix, given: Matrix, angle: int) -> None:
    """Each fits without any error, so that nothing but the roll can tell."""
    seen = CAMERA.to_camera(held)
    with pytest.raises(CalibrationError, match=rf"rolled by {angle}°.*another order.*wrong sign"):
        calibrate(seen, given, CAMERA)
    assert calibrate(seen, given, CAMERA, rolled=True).rms < 1e-9


@given(pose=poses, roll=st.floats(-np.pi, np.pi).filter(lambda roll: abs(abs(roll) - np.pi / 4) > 0.01))
def test_only_cameras_that_lean_by_more_than_45_degrees_must_be_allowed(pose: Matrix, roll: float) -> None:
    """Wherever they stand and look: up or down is no roll."""
    true = leaning(pose, roll)
    seen = true.to_camera(PLACES)
    if abs(roll) < np.pi / 4:
        assert calibrate(seen, PLACES, Camera()).camera.pose == pytest.approx(true.pose, abs=1e-9)
    else:
        with pytest.raises(CalibrationError, match="rolled by"):
            calibrate(seen, PLACES, Camera())


def tries(places: Matrix, sigma: float, n: int, workspace: Matrix) -> tuple[list[Calibration], list[str]]:
    """Calibrations from noisy data of places that the standing camera sees, and why others were refused."""
    rng = np.random.default_rng(7)
    found, refused = [], []
    for _ in range(n):
        seen = CAMERA.to_camera(places) + sigma * rng.standard_normal(places.shape)
        try:
            found.append(calibrate(seen, places, CAMERA, workspace=workspace))
        except CalibrationError as error:
            refused.append(str(error))
    return found, refused


def off(found: Calibration, workspace: Matrix) -> Matrix:
    """Distances between where the corners of the workspace are and where the camera found sees them."""
    return np.linalg.norm(found.camera.to_world(CAMERA.to_camera(workspace)) - workspace, axis=1)


CORNERS = np.array(WORKSPACE)


def test_places_too_near_to_each_other_are_refused() -> None:
    """A square of 11 cm and 2.5 mm of noise: fits well every time, with the eye up to 11 cm from where it is."""
    square = np.array([0.3, 0.5, 0.0]) + 0.055 * np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    found, refused = tries(square, 0.0025, 300, CORNERS)
    assert not found
    assert all("farther apart" in why or "do not match" in why for why in refused)
    assert sum("farther apart" in why for why in refused) > 280


@pytest.mark.parametrize("places", [RECTANGLE, PLACES[:5], PLACES], ids=["four", "five", "six"])
def test_places_as_the_documents_tell_are_accepted(places: Matrix) -> None:
    """1 mm a coordinate is what ten frames leave: never refused, and no corner is off by what is allowed for one σ."""
    found, refused = tries(places, 0.001, 300, CORNERS)
    assert not refused
    assert max(off(one, CORNERS).max() for one in found) < UNSURE


@pytest.mark.parametrize(
    "places", [RECTANGLE, PLACES, PLACES + 0.2 * np.eye(6)[:, 1:4]], ids=["four", "six", "spatial"]
)
def test_the_deviation_is_that_of_many_tries(places: Matrix) -> None:
    """Mean squared error of the worst corner against the mean of what was predicted, over 800 tries.

    The workspace is that of the places, so that none is refused. The mean of a square of one normal number, the worst
    case, is known to √(2/800) = 5 %; where six degrees of freedom remain, the least error lifts predictions by 3 %.
    """
    found, refused = tries(places, 0.0022, 800, places)
    assert len(refused) < 8
    predicted = np.mean([one.deviation**2 for one in found])
    assert np.mean([off(one, places) ** 2 for one in found], axis=0).max() == pytest.approx(predicted, rel=0.12)


def test_a_small_workspace_needs_less() -> None:
    """What counts are positions where the mechanism moves: a square of 11 cm does within itself."""
    square = np.array([0.3, 0.5, 0.0]) + 0.055 * np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    found = calibrate(CAMERA.to_camera(square), square, CAMERA, workspace=square)
    # Exact data: the least error. At a corner 1/4 for each of three axes, and half of the turn's three parts.
    assert found.deviation == pytest.approx(LEAST * np.sqrt(3 / 4 + 1 / 4 + 1 / 4 + 1 / 4))


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
    assert found.deviation == true.deviation


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
