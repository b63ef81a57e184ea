"""Counts, metres, pixels and poses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepmap.errors import ModelError, ShapeError
from stepmap_hil.depth import NO_DATA, Camera, look
from stepmap_hil.depth.camera import checked

COORDINATE = st.floats(-2.0, 2.0)


def test_counts_mean_the_metres_openkinect_measured() -> None:
    """100 / (3.33 − 0.00307 count) cm, good to 2 cm within 2.5 m (Imaging Information, OpenKinect wiki)."""
    camera = Camera()
    for count in range(camera.nearest, 950, 50):
        assert camera.metres[count] == pytest.approx(1 / (3.33 - 0.00307 * count), abs=0.02)


def test_counts_and_metres_are_inverse() -> None:
    camera = Camera()
    believed = np.arange(camera.nearest, camera.farthest + 1)
    assert camera.count(camera.metres[believed]) == pytest.approx(believed, abs=1e-9)
    assert np.isnan(camera.metres[[0, camera.nearest - 1, camera.farthest + 1, 1500, NO_DATA]]).all()


def test_a_step_of_one_count_is_quadratic_in_depth() -> None:
    camera = Camera()
    count = int(camera.count(1.5))
    assert camera.metres[count + 1] - camera.metres[count] == pytest.approx(camera.step(1.5), rel=0.01)


def test_no_count_at_all_is_no_data() -> None:
    frame = np.array([[NO_DATA, 2048, 65535, 0]], dtype=np.uint16)
    assert np.isnan(Camera().depth(frame)).all()


@given(eye=st.tuples(COORDINATE, COORDINATE, st.floats(0.5, 3.0)), point=st.tuples(COORDINATE, COORDINATE, COORDINATE))
def test_world_and_camera_axes_are_inverse(eye: tuple[float, ...], point: tuple[float, ...]) -> None:
    camera = Camera(pose=look(eye, (0.2, 0.4, 0.0)))
    assert camera.to_world(camera.to_camera(point)) == pytest.approx(point, abs=1e-12)


def test_what_is_looked_at_is_in_the_middle_and_up_is_up() -> None:
    camera = Camera(pose=look((1.0, 0.2, 1.5), (0.3, 0.5, 0.0)))
    u, v, z = camera.pixels(camera.to_camera((0.3, 0.5, 0.0)))
    assert (u, v) == pytest.approx((camera.cx, camera.cy))
    assert z == pytest.approx(np.linalg.norm([0.7, 0.3, 1.5]))
    above = camera.pixels(camera.to_camera((0.3, 0.6, 0.0)))
    right = camera.pixels(camera.to_camera((0.4, 0.5, 0.0)))
    assert above[1] < v
    assert right[0] > u


def test_rays_go_through_their_pixels() -> None:
    camera = Camera()
    points = camera.image_rays[::37, ::41] * 1.7
    u, v, z = np.moveaxis(camera.pixels(points), -1, 0)
    assert u == pytest.approx(np.broadcast_to(np.arange(0, 640, 41), u.shape))
    assert v == pytest.approx(np.broadcast_to(np.arange(0, 480, 37)[:, None], v.shape))
    assert z == pytest.approx(1.7)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"pose": np.diag([1.0, 1.0, -1.0, 1.0])}, "mirrors"),
        ({"pose": 2 * np.eye(4)}, "rotation"),
        ({"fx": 0.0}, "fx"),
        ({"near": 2.0, "far": 1.0}, "near, far"),
        ({"cx": np.nan}, "cx"),
    ],
)
def test_a_camera_that_cannot_be_is_refused(arguments: dict[str, object], what: str) -> None:
    with pytest.raises(ModelError, match=what):
        Camera(**arguments)  # type: ignore[arg-type]


def test_shapes_are_checked() -> None:
    with pytest.raises(ShapeError, match="pose"):
        Camera(pose=np.eye(3))
    with pytest.raises(ShapeError, match="480x640 uint16"):
        checked(np.zeros((480, 640)))
    with pytest.raises(ModelError, match="target"):
        look((0.0, 1.0, 0.0), (0.0, 0.0, 0.0))
