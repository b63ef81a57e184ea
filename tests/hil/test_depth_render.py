"""Rendered frames against geometry and the published noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stepmap.errors import ModelError, ShapeError
from stepmap_hil.depth import NO_DATA, NONE, Box, Camera, Noise, Renderer, Scene, look
from tests.hil.depth_kit import renderer

OBLIQUE = Camera(pose=look((0.9, 0.8, 1.4), (0.3, 0.5, 0.0)))
BALL, ROBOT = np.array([0.25, 0.35, 0.0]), np.array([0.4, 1.0, 0.0])
BARE = Scene(fixtures=())


def sigma(z: float) -> float:
    return 0.0012 + 0.0019 * (z - 0.4) ** 2  # Nguyen, Izadi & Lovell 2012


def points(view: Renderer, frame: np.ndarray, where: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """World points of chosen pixels."""
    depth = view.camera.depth(frame)
    return view.camera.to_world(view.camera.image_rays[where] * depth[where][:, None])


@pytest.mark.parametrize("camera", [Camera(), OBLIQUE], ids=["frontal", "oblique"])
def test_surfaces_are_where_they_should_be(camera: Camera) -> None:
    """Every pixel of a noiseless frame lies on the ball, the box, the string or the wall, to half a count."""
    view = Renderer(camera, BARE, NONE)
    frame = view.render(BALL, ROBOT)
    where = frame != NO_DATA
    p = points(view, frame, where)
    box = view.scene.robot(ROBOT)
    outside = np.maximum(np.maximum(box.low - p, p - box.high), 0.0)
    inside = np.minimum(p - box.low, box.high - p).min(axis=1)
    way = (BALL - ROBOT) / np.linalg.norm(BALL - ROBOT)
    string = np.linalg.norm(np.cross(p - ROBOT, way), axis=1)
    distances = [
        np.abs(np.linalg.norm(p - BALL, axis=1) - view.scene.radius),
        np.linalg.norm(outside, axis=1) + np.maximum(inside, 0.0),
        np.abs(string - view.scene.string),
        np.abs(p[:, 2] - view.scene.wall),
    ]
    half = view.camera.step(view.camera.depth(frame)[where]) / 2 * 1.3  # 1.3: the ray is longer than its depth
    assert (np.min(distances, axis=0) <= half).all()
    counts = [int((np.argmin(distances, axis=0) == k).sum()) for k in range(4)]
    assert counts[0] == pytest.approx(np.pi * camera.fx * camera.fy * (0.03 / 1.5) ** 2, rel=0.25)
    assert min(counts) > 50


def test_the_disc_of_a_ball_has_the_size_of_a_cone() -> None:
    """A ball of radius R at distance z on the axis covers π f² R² / (z² − R²) pixels."""
    camera = Camera(pose=look((0.0, 0.0, 1.5), (0.0, 0.0, 0.0)))
    frame = Renderer(camera, BARE, NONE).render((0.0, 0.0, 0.0))
    ball = (frame < camera.count(1.6)).sum()
    assert ball == pytest.approx(np.pi * camera.fx * camera.fy * 0.03**2 / (1.5**2 - 0.03**2), rel=0.02)


@pytest.mark.parametrize("baseline", [0.075, -0.075, 0.15])
def test_shadows_are_as_wide_as_the_disparity_and_away_from_the_projector(baseline: float) -> None:
    """Of a thin board at z1 before a wall at z2: fx b (1/z1 − 1/z2) pixels."""
    camera = Camera(pose=look((0.0, 0.0, 1.5), (0.0, 0.0, 0.0)), baseline=baseline)
    board = Box((0.0, 0.0, -0.0005), (0.3, 0.3, 0.001))
    row = Renderer(camera, BARE, NONE).render(occluders=[board])[243]
    shaded = np.flatnonzero(row[:600] == NO_DATA)
    assert len(shaded) == pytest.approx(camera.fx * abs(baseline) * (1 / 1.5 - 1 / 2.5), abs=1.01)
    assert (shaded.mean() < camera.cx) == (baseline > 0)


def test_noise_along_the_ray_is_the_published_one() -> None:
    """On a flat wall, with the variance of rounding, 1/12 count²."""
    for distance in (0.9, 1.5, 2.5, 3.5):
        camera = Camera(pose=look((0.0, 0.0, distance), (0.0, 0.0, 0.0)))
        view = Renderer(camera, replace(BARE, wall=0.0), Noise(dropout=0.0, window=1))
        frame = view.render(number=3)[100:380, 100:500].astype(float)
        expected = np.hypot(sigma(distance) / camera.step(distance), np.sqrt(1 / 12))
        # The wall is flat in counts, so all pixels are samples of one distribution: 112000 of them, 0.2 % each way.
        assert frame.std() == pytest.approx(expected, rel=0.02)
        assert frame.mean() == pytest.approx(camera.count(distance), abs=0.02)


def test_noise_across_the_ray_frays_edges_as_published() -> None:
    """The share of pixels beyond a straight edge falls off like a normal distribution of 0.8 pixels."""
    camera = Camera(pose=look((0.0, 0.0, 1.5), (0.0, 0.0, 0.0)), baseline=0.0)
    view = Renderer(camera, BARE, Noise(dropout=0.0, grazing=0.0, window=1))
    board = Box((-0.25, 0.0, -0.0005), (0.5, 0.8, 0.001))
    limit = camera.count(2.0)
    share = np.mean(
        [(view.render(occluders=[board], number=k)[110:370] < limit).mean(axis=0) for k in range(6)], axis=0
    )
    fall = share[320:360] - share[321:361]  # its weights are the density, a pixel wide
    place = np.arange(320.5, 360.5)
    middle = (fall * place).sum()
    assert middle == pytest.approx(camera.cx, abs=0.05)
    assert np.sqrt((fall * (place - middle) ** 2).sum()) == pytest.approx(np.hypot(0.8, np.sqrt(1 / 12)), rel=0.08)


def test_neighbours_err_together() -> None:
    """In windows of 9 pixels: a pixel and the next differ in one column of nine, those 9 apart have no relation."""
    view = Renderer(Camera(pose=look((0.0, 0.0, 1.5), (0.0, 0.0, 0.0))), replace(BARE, wall=0.0), Noise(dropout=0.0))
    frames = np.array([view.render(number=k)[100:380, 100:500] for k in range(30)]) - view.camera.count(1.5)
    variance = (sigma(1.5) / view.camera.step(1.5)) ** 2
    # 30 frames of 1400 windows: variances to 1 %, correlations to 0.01 (√2 / √42000 and 1 / √42000, twice as safe).
    assert frames.var() == pytest.approx(variance + 1 / 12, rel=0.03)
    for apart, share in ((1, 8 / 9), (4, 5 / 9), (9, 0.0), (20, 0.0)):
        product = (frames[:, :, apart:] * frames[:, :, :-apart]).mean()
        assert product == pytest.approx(share * frames.var(), abs=0.05 * variance)


def test_dropouts_have_the_share_they_are_given() -> None:
    view = Renderer(Camera(), BARE, Noise(dropout=0.01))
    inner = view.render(number=5)[:, :600]
    assert (inner == NO_DATA).mean() == pytest.approx(0.01, rel=0.1)


def test_the_last_columns_never_have_data() -> None:
    assert (renderer().render(BALL, ROBOT)[:, -8:] == NO_DATA).all()


def test_a_frame_depends_on_its_arguments_alone() -> None:
    one, other = Renderer(seed=4), Renderer(seed=4)
    first = one.render(BALL, ROBOT, number=7)
    one.render(number=8)
    assert np.array_equal(first, one.render(BALL, ROBOT, number=7))
    assert np.array_equal(first, other.render(BALL, ROBOT, number=7))
    assert not np.array_equal(first, one.render(BALL, ROBOT, number=8))
    assert not np.array_equal(first, Renderer(seed=5).render(BALL, ROBOT, number=7))


def test_only_the_moving_part_is_cast_again_and_yet_all_of_it() -> None:
    """A frame with everything recast (a box around the camera's view but behind the wall) is the same without noise."""
    view = Renderer(OBLIQUE, Scene(), NONE)
    hidden = Box((0.0, 0.0, -5.0), (40.0, 40.0, 0.1))
    assert np.array_equal(view.render(BALL, ROBOT), view.render(BALL, ROBOT, occluders=[hidden]))


def test_things_behind_or_beyond_the_view_do_not_appear() -> None:
    view = Renderer(Camera(), Scene(), NONE)
    empty = view.render()
    assert np.array_equal(view.render((0.3, 0.5, 3.0), (0.3, 0.5, 4.0)), empty)
    assert np.array_equal(view.render((9.0, 0.5, 0.0)), empty)
    assert np.array_equal(view.render((0.3, 0.5, 3.0)), empty)


def test_a_thing_around_the_camera_does_not_end_the_program() -> None:
    frame = renderer().render(BALL, ROBOT, occluders=[Box((0.3, 0.5, 1.5), (0.5, 0.5, 0.5))])
    assert frame.shape == (480, 640)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ShapeError, match="ball"):
        renderer().render((0.0, np.nan, 0.0))
    with pytest.raises(ModelError, match="box"):
        Box((0.0, 0.0, 0.0), (1.0, 0.0, 1.0))
    with pytest.raises(ModelError, match="radius"):
        Scene(radius=-1.0)
    with pytest.raises(ModelError, match="dropout"):
        Noise(dropout=2.0)
