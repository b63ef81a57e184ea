"""Readings against the truth they were rendered from, and frames that say nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stepmap as sm
from stepmap.errors import ModelError, ShapeError
from stepmap_hil.depth import CHANNELS, NO_DATA, Background, Box, Camera, Reading, Renderer, Tracker, look
from stepmap_hil.depth.tracking.segment import clusters
from stepmap_hil.depth.tracking.sphere import fit
from stepmap_hil.sensors.kinect_rendered import as_measurement, shown
from tests.hil.depth_kit import motion, renderer, tracker, truth

FRAMES = 300
STILL = (np.array([0.3, 0.4, 0.0]), np.array([0.3, 1.0, 0.0]))


def person(x: float) -> Box:
    """Between the camera and the plane of motion."""
    return Box((x, 0.4, 0.5), (0.4, 1.7, 0.25))


def is_lost(reading: Reading) -> bool:
    return not reading.valid.any() and np.isnan(reading.z).all() and np.isinf(reading.variance).all()


def test_channels_are_those_of_the_system() -> None:
    assert tuple(name for name, _ in sm.systems.get("suspended_mass").sensor_channels) == CHANNELS


@pytest.fixture(scope="module")
def followed() -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Errors and covariances over a motion."""
    errors, covariances = [], []
    for k in range(FRAMES):
        ball, robot = motion(k)
        reading = tracker().read(renderer().render(ball, robot, number=k))
        assert reading.valid.all(), f"frame {k} lost {reading.lost}"
        errors.append(reading.z - truth(ball, robot))
        covariances.append(reading.covariance)
    return np.array(errors), np.array(covariances)


def test_bias_and_deviation_at_1_5_m(followed: tuple[np.ndarray, np.ndarray]) -> None:  # type: ignore[type-arg]
    """The bench asks for 2 mm and 3 mm. 300 frames know a mean to 0.15 mm: the bias is below 1 mm for sure."""
    errors = followed[0]
    assert (np.abs(errors.mean(axis=0)) < 0.001).all()
    assert (errors.std(axis=0) < 0.003).all()
    assert np.abs(errors).max() < 0.012


def test_covariances_are_honest(followed: tuple[np.ndarray, np.ndarray]) -> None:  # type: ignore[type-arg]
    """Mean of e²/variance per channel: 1 if exact, less if careful."""
    errors, covariances = followed
    variance = np.diagonal(covariances, axis1=1, axis2=2)
    ratio = (errors**2 / variance).mean(axis=0)
    assert (ratio > 0.4).all()
    assert (ratio < 1.2).all()
    assert (np.abs(errors) < 4 * np.sqrt(variance)).mean() > 0.995
    assert (np.linalg.eigvalsh(covariances) > 0).all()


def test_r_is_correlated_with_what_it_is_made_of(followed: tuple[np.ndarray, np.ndarray]) -> None:  # type: ignore[type-arg]
    """As the errors are: most with y, since the ball hangs below the robot. 300 samples tell correlations to 0.06."""
    errors, covariances = followed
    scale = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    predicted = (covariances / (scale[:, :, None] * scale[:, None, :])).mean(axis=0)
    assert predicted[3] == pytest.approx(np.corrcoef(errors.T)[3], abs=0.2)
    assert predicted[1, 3] < -0.7


@pytest.mark.parametrize("eye", [(-0.3, 0.3, 1.6), (0.9, 0.8, 1.4), (0.3, 0.5, 2.2)])
def test_other_places_of_the_camera_will_do(eye: tuple[float, float, float]) -> None:
    view = Renderer(Camera(pose=look(eye, (0.3, 0.6, 0.0))), seed=2)
    other = Tracker.learn(view.empty(10), view.camera)
    errors = []
    for k in range(0, 120, 3):
        ball, robot = motion(k)
        errors.append(other.read(view.render(ball, robot, number=k)).z - truth(ball, robot))
    assert np.isfinite(errors).mean() > 0.9
    assert (np.abs(np.nanmean(errors, axis=0)) < 0.003).all()
    assert (np.nanstd(errors, axis=0) < (0.006 if eye[2] > 2 else 0.003)).all()  # noise grows with the square


def test_a_plain_centroid_would_be_biased() -> None:
    """What the fit is for: the mean of the visible points is two thirds of a radius nearer to the camera."""
    frame = renderer().render(*STILL)
    camera, foreground = renderer().camera, tracker().background.foreground(frame)
    (patch,) = [p for p in clusters(frame, foreground) if p.rows.start > 200]
    window = patch.window(0)
    depth = camera.depth(frame[window])[foreground[window]]
    assert 1.5 - np.nanmean(depth) == pytest.approx(0.02, abs=0.006)
    assert tracker().read(frame).ball[2] == pytest.approx(0.0, abs=0.006)


@given(
    center=st.tuples(st.floats(-0.4, 0.4), st.floats(-0.3, 0.3), st.floats(0.9, 2.5)), seed=st.integers(0, 2**32 - 1)
)
@settings(max_examples=30)
def test_the_fit_finds_balls_from_exact_points(center: tuple[float, float, float], seed: int) -> None:
    """Points on the side toward the camera, without noise: the center to rounding."""
    camera, c, radius = Camera(), np.array(center), 0.03
    normal = np.random.default_rng(seed).standard_normal((4000, 3))
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    points = c + radius * normal
    points = points[np.einsum("ij,ij->i", normal, points) < -0.15 * np.linalg.norm(points, axis=1)]
    found = fit(points, camera, radius)
    assert found is not None
    assert found.center == pytest.approx(c, abs=1e-5)


def test_a_person_walks_through() -> None:
    """Lost while hidden, never wrong, found again."""
    seen = []
    for k, x in enumerate(np.linspace(-0.6, 1.2, 46)):
        reading = tracker().read(renderer().render(*STILL, occluders=[person(float(x))], number=k))
        errors = reading.z - truth(*STILL)
        assert (np.abs(errors) < 4 * np.sqrt(reading.variance))[reading.valid].all()
        seen.append(bool(reading.valid.all()))
    hidden = seen.index(False)
    back = hidden + seen[hidden:].index(True)
    assert hidden > 5
    assert back - hidden > 5
    assert all(seen[back:])
    assert len(seen) - back > 5
    assert is_lost(tracker().read(renderer().render(*STILL, occluders=[person(0.3)])))


def test_each_target_is_lost_alone() -> None:
    ball, robot = STILL
    reading = tracker().read(renderer().render(None, robot))
    assert reading.lost == ("mass.x", "mass.y", "r")
    assert reading.z[2] == pytest.approx(0.3, abs=0.006)
    reading = tracker().read(renderer().render(ball, None))
    assert reading.lost == ("xr", "r")
    assert np.isnan(reading.robot).all()


def test_a_reading_as_a_measurement_says_what_was_measurement() -> None:
    """A bit for each channel that was, and 0 in place of those that were not."""
    ball, robot = STILL
    frame = renderer().render(None, robot)
    seen = as_measurement(tracker().read(frame))
    assert seen.valid == 0b0100
    assert seen.z == pytest.approx([0.0, 0.0, 0.3, 0.0], abs=0.006)
    assert as_measurement(tracker().read(renderer().render(ball, robot))).valid == 0b1111
    assert shown(tracker(), None, 100).shape == (0, 3)
    assert np.array_equal(shown(tracker(), frame, 100), tracker().points(frame, 100))


def test_a_flat_thing_of_the_size_of_the_ball_is_none() -> None:
    """Nor is the robot: only what is round is followed."""
    readings = [
        tracker().read(renderer().render(occluders=[Box((0.3, 0.4, 0.0), (0.053, 0.053, 0.01))], number=k))
        for k in range(40)
    ]
    assert sum(bool(reading.valid[0]) for reading in readings) <= 1


def test_targets_that_leave_the_view_are_lost() -> None:
    robot = np.array([1.9, 1.0, 0.0])
    assert is_lost(tracker().read(renderer().render((1.9, 0.4, 0.0), robot)))


def test_a_ball_far_from_the_plane_of_motion_is_another() -> None:
    assert "mass.x" in tracker().read(renderer().render((0.3, 0.4, 0.6))).lost


def test_the_expected_ball_is_chosen_among_two() -> None:
    one, other = renderer().render((0.1, 0.4, 0.0)), renderer().render((0.5, 0.3, 0.0))
    both = np.minimum(one, other)  # the nearer surface
    for place in ((0.1, 0.4, 0.0), (0.5, 0.3, 0.0)):
        assert tracker().read(both, expected=place).ball == pytest.approx(place, abs=0.01)


@pytest.mark.parametrize("value", [NO_DATA, 0, 1, 600, 1084, 1085, 2046, 2048, 65535])
def test_frames_of_one_value_show_nothing(value: int) -> None:
    assert is_lost(tracker().read(np.full((480, 640), value, dtype=np.uint16)))


def test_an_empty_scene_shows_nothing() -> None:
    assert is_lost(tracker().read(renderer().render(number=99)))


@pytest.mark.parametrize("top", [2048, 65536])
def test_pure_noise_shows_nothing(top: int) -> None:
    noise = np.random.default_rng(3).integers(0, top, size=(480, 640), dtype=np.uint16)
    assert is_lost(tracker().read(noise))


def test_a_tenth_of_wild_pixels_does_no_harm() -> None:
    rng = np.random.default_rng(4)
    for k in range(10):
        frame = renderer().render(*STILL, number=k)
        wild = rng.random(frame.shape) < 0.1
        frame[wild] = rng.integers(0, 2048, size=int(wild.sum()))
        reading = tracker().read(frame)
        assert np.abs((reading.z - truth(*STILL))[reading.valid]).max(initial=0.0) < 0.01


@given(seed=st.integers(0, 2**32 - 1))
def test_torn_frames_never_end_the_program(seed: int) -> None:
    """Rows shifted, blocks blanked and blocks saturated at random: a reading or a loss, never an exception."""
    rng = np.random.default_rng(seed)
    frame = renderer().render(*motion(int(rng.integers(300))), number=int(rng.integers(300)))
    for _ in range(12):
        r, c = rng.integers(0, 440), rng.integers(0, 600)
        block = frame[r : r + rng.integers(1, 200), c : c + rng.integers(1, 200)]
        block[...] = rng.choice([0, 500, 850, 2046, NO_DATA, 65535])
    frame = np.roll(frame, int(rng.integers(640)), axis=1)
    reading = tracker().read(frame)
    assert (np.isfinite(reading.z) == reading.valid).all()
    assert (np.isfinite(reading.variance) == reading.valid).all()


def test_the_same_frame_gives_the_same_reading() -> None:
    frame = renderer().render(*STILL)
    first = tracker().read(frame, 1.5)
    tracker().read(renderer().render(*motion(40)))
    again = tracker().read(frame, 1.5)
    assert np.array_equal(first.z, again.z)
    assert np.array_equal(first.covariance, again.covariance)
    assert first.seconds == 1.5


def test_clusters_part_in_depth_and_ignore_strings() -> None:
    """Two boards that touch in the image, one 20 cm nearer, and a string: two clusters."""
    boards = [Box((0.2, 0.4, 0.0), (0.2, 0.3, 0.01)), Box((0.4, 0.4, 0.2), (0.2, 0.3, 0.01))]
    frame = renderer().render(occluders=boards)
    frame[50:300, 500] = 860
    found = clusters(frame, tracker().background.foreground(frame))
    assert len([patch for patch in found if patch.cells > 20]) == 2


def test_backgrounds_from_too_little_are_refused() -> None:
    camera = renderer().camera
    with pytest.raises(ModelError, match="5 frames"):
        Background.learn(renderer().empty(3), camera)
    with pytest.raises(ModelError, match="covered"):
        Background.learn([np.full((480, 640), NO_DATA, dtype=np.uint16)] * 6, camera)
    with pytest.raises(ShapeError, match="uint16"):
        Background.learn([np.zeros((4, 4), dtype=np.uint16)] * 6, camera)
    with pytest.raises(ShapeError, match="uint16"):
        tracker().read(np.zeros((480, 640), dtype=np.int32))
