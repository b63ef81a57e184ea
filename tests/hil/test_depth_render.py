"""Rendered frames against geometry and the published noise."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from stepmap.errors import ModelError, ShapeError
from stepmap_hil.depth import NO_DATA, NONE, Box, Camera, Noise, Renderer, Scene, look
from stepmap_hil.depth.noise import axial
from tests.hil.depth_kit import renderer

OBLIQUE = Camera(pose=look((0.9, 0.8, 1.4), (0.3, 0.5, 0.0)))
BALL, ROBOT = np.array([0.25, 0.35, 0.0]), np.array([0.4, 1.0, 0.0])
BARE = Scene(fixtures=())


def sigma(z: float) -> float:
    return 0.0012 + 0.0019 * (z - 0.4) ** 2  # Nguyen, Izadi & Lovell 2012, 10° to 60°


def steep(z: float, angle: float) -> float:
    return sigma(z) + 0.0001 / z**0.5 * angle**2 / (np.pi / 2 - angle) ** 2  # the same, beyond


def rounded(mean: float, deviation: float) -> tuple[float, float]:
    """Mean and standard deviation of a normal number after rounding."""
    whole = np.arange(np.floor(mean) - 8, np.floor(mean) + 10)
    share = np.diff([NormalDist(mean, deviation).cdf(edge) for edge in (*(whole - 0.5), whole[-1] + 0.5)])
    middle = float(share @ whole)
    return middle, float(np.sqrt(share @ (whole - middle) ** 2))


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


def test_the_law_of_noise_along_the_ray_is_the_published_one() -> None:
    """Worked out by hand from the formula: at 1.5 m 1.2 + 1.9 1.1² = 3.499 mm; at 75° 0.1 / √1.5 5² = 2.041 mm more."""
    assert axial(1.5) == pytest.approx(0.003499)
    assert axial(1.5, np.deg2rad(59.9)) == pytest.approx(0.003499)
    assert axial(1.5, np.deg2rad(75.0)) == pytest.approx(0.003499 + 0.002041, abs=1e-6)
    assert np.isfinite(axial(1.5, np.pi / 2))


@pytest.mark.parametrize("distance", [0.9, 1.5, 2.5, 3.5])
def test_noise_along_the_ray_is_the_published_one(distance: float) -> None:
    """On a wall straight ahead. All its pixels have one depth, and so the rounding of all of them is one number's.

    What is rounded has the published variance less 1/12. Rounded it has it again but for a part that depends on where
    between two counts it lies, 0.8 exp(−2π² 0.41²) = 0.03 of 0.25 at most for the least noise here, 6 % in σ.
    """
    camera = Camera(pose=look((0.0, 0.0, distance), (0.0, 0.0, 0.0)))
    view = Renderer(camera, replace(BARE, wall=0.0), Noise(dropout=0.0, window=1))
    frame = view.render(number=3)[100:380, 100:500].astype(float)
    published = sigma(distance) / camera.step(distance)
    mean, deviation = rounded(camera.count(distance), np.sqrt(published**2 - 1 / 12))
    assert frame.std() == pytest.approx(deviation, rel=0.02)  # 112000 pixels: 0.2 % each way
    assert frame.mean() == pytest.approx(mean, abs=0.01)
    assert frame.std() == pytest.approx(published, rel=0.06)


def errors(view: Renderer, frame: np.ndarray, z: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Of depth against the plane at z in the world, and true depths and angles, of pixels of it that have data."""
    rays = view.camera.image_rays @ view.camera.turn.T
    depth = (z - view.camera.eye[2]) / rays[..., 2]
    angle = np.arccos(-rays[..., 2] / np.linalg.norm(rays, axis=-1))
    error = view.camera.depth(frame) - depth
    good = (np.abs(error) < 0.1) & (depth > 0)
    return error[good], depth[good], angle[good]


@pytest.mark.parametrize("tilt", [15, 30, 45, 55, 64, 70])
@pytest.mark.parametrize("distance", [0.9, 1.5, 2.2])
def test_slanted_planes_have_the_published_noise_too(distance: float, tilt: float) -> None:
    """Rounding included: depths go through many counts here. 3000 pixels or more tell σ to 1/√6000 = 1.3 %."""
    eye = distance * np.array([np.sin(np.deg2rad(tilt)), 0.0, np.cos(np.deg2rad(tilt))])
    view = Renderer(
        Camera(pose=look(eye, (0.0, 0.0, 0.0))), replace(BARE, wall=0.0), Noise(dropout=0.0, grazing=0.0, window=1)
    )
    error, z, angle = errors(view, view.render(number=2), 0.0)
    near = (np.abs(angle - np.deg2rad(tilt)) < np.deg2rad(2.0)) & (np.abs(z - distance) < 0.15 * distance)
    expected = [steep(*pair) if tilt > 60 else sigma(pair[0]) for pair in zip(z[near], angle[near], strict=True)]
    assert near.sum() > 3000
    assert np.sqrt(np.mean((error[near] / expected) ** 2)) == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize("tilt", [0, 20, 35, 50])
def test_what_moves_has_no_more_noise_than_what_stays(tilt: float) -> None:
    """A board before the wall, whose rays lateral noise moves: that is part of the published noise, not added to it.

    At 0° all has one depth and the rounding that goes with it; beyond 55° noise across the ray alone would be more.
    """
    eye = 1.5 * np.array([np.sin(np.deg2rad(tilt)), 0.0, np.cos(np.deg2rad(tilt))])
    view = Renderer(Camera(pose=look(eye, (0.0, 0.0, 0.0))), BARE, Noise(dropout=0.0, grazing=0.0, window=1))
    board = Box((0.0, 0.0, -0.005), (0.6, 0.6, 0.01))
    error, z, angle = errors(view, view.render(occluders=[board], number=4), 0.0)
    near = np.abs(angle - np.deg2rad(tilt)) < np.deg2rad(4.0)
    assert near.sum() > 3000
    ratio = np.sqrt(np.mean((error[near] / [sigma(depth) for depth in z[near]]) ** 2))
    assert ratio == pytest.approx(1.0, rel=0.03 if tilt else 0.06)


def test_less_noise_than_rounding_adds_is_rounding_alone() -> None:
    camera = Camera(pose=look((0.0, 0.0, 1.5), (0.0, 0.0, 0.0)))
    view = Renderer(camera, replace(BARE, wall=0.0), Noise(axial=0.3, lateral=0.0, dropout=0.0))
    assert len(np.unique(view.render()[100:380, 100:500])) == 1


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
    variance = rounded(view.camera.count(1.5), np.sqrt((sigma(1.5) / view.camera.step(1.5)) ** 2 - 1 / 12))[1] ** 2
    # 30 frames of 1400 windows: variances to 1 %, correlations to 0.01 (√2 / √42000 and 1 / √42000, twice as safe).
    assert frames.var() == pytest.approx(variance, rel=0.03)
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
