"""Constraints: what they ask of a pose, and the forces they take to hold it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stepmap as sm

G = 9.81


def plane_mass(name: str, mass: float = 2.0) -> tuple[sm.Builder, sm.mechanics.frames.Frame]:
    """A mass free in the vertical plane x, y."""
    b = sm.Builder(name)
    ball = b.world.tx(b.coordinate("x")).ty(b.coordinate("y"), name="ball")
    b.mass(ball, mass)
    b.gravity((0, -G, 0))
    return b, ball


def turning(center: tuple[float, float], at: tuple[float, float], rate: float) -> np.ndarray:
    """Velocity of a point that turns about a centre."""
    return rate * np.array([-(at[1] - center[1]), at[0] - center[0]])


# what they ask --------------------------------------------------------------------------------------------------


def test_distance_is_measured_between_the_frames() -> None:
    b, ball = plane_mass("rod")
    b.distance(ball, b.world.translate(1.0, 2.0, 2.0), 3.0, name="rod")
    system = b.build()
    assert system.constraint_names == ("rod",)
    np.testing.assert_allclose(system.gaps([1.0, 2.0]), [2.0 - 3.0], rtol=1e-15)
    np.testing.assert_allclose(system.gaps([4.0, 6.0]), [math.sqrt(29) - 3.0], rtol=1e-14)


def test_length_may_be_a_kinematic_coordinate() -> None:
    system = sm.systems.get("suspended_mass")
    np.testing.assert_allclose(system.gaps([0.6, 0.2, 0.0, 0.75]), [0.25], rtol=1e-14)
    np.testing.assert_allclose(system.gap_velocities([0.6, 0.2, 0.0, 1.0], [1.0, 0, 0, 0.25]), [0.6 - 0.25], rtol=1e-14)
    np.testing.assert_allclose(system.gap_velocities([0.6, 0.2, 0.0, 1.0], [0, 1.0, 1.0, 0]), [-0.8 - 0.6], rtol=1e-14)


def test_plane_may_be_tilted_and_move_and_be_left_by_an_offset() -> None:
    """n · (point − plane), n turned with the plane's frame, minus the offset."""
    b, ball = plane_mass("slope")
    lift, tilt, offset = (b.coordinate(name, kinematic=True) for name in ("lift", "tilt", "offset"))
    plane = b.world.ty(lift).rz(tilt, name="plane")
    b.point_on_plane(plane, ball, normal=(0.0, 5.0, 0.0), offset=offset, name="slope")
    system = b.build()
    x, y, h, a, d = 0.7, 0.4, 0.1, 0.3, 0.2
    height = -math.sin(a) * x + math.cos(a) * (y - h) - d
    np.testing.assert_allclose(system.gaps([x, y, h, a, d]), [height], rtol=1e-13)


def test_points_meet_in_the_named_axes() -> None:
    b, ball = plane_mass("pin")
    b.point_to_point(ball, b.world.translate(1.0, -2.0, 0.5), axes="yx", name="pin")
    system = b.build()
    assert system.constraint_names == ("pin.y", "pin.x")
    np.testing.assert_allclose(system.gaps([0.2, 0.3]), [-2.3, 0.8], rtol=1e-14)


# forces ---------------------------------------------------------------------------------------------------------


def test_tension_of_a_hanging_mass_is_its_weight() -> None:
    for factory in (sm.discretize, sm.euler):
        step = factory(sm.systems.get("suspended_mass", mass=0.3, gravity=G), 0.01)
        x = step.rest({})
        u = [0.0, 1.0] if factory is sm.discretize else [0.0, 0.0]
        np.testing.assert_allclose(step.step(x, u).multipliers, [0.3 * G], rtol=1e-12)


def test_tension_of_a_swinging_mass_carries_the_centripetal_force() -> None:
    """m (g cos θ + l θ̇²)."""
    euler = sm.euler(sm.systems.get("suspended_mass", mass=0.3, gravity=G), 0.01)
    velocity = turning((0, 1), (0.6, 0.2), 1.7)
    _, tension = euler.acceleration([0.6, 0.2, 0.0, 1.0], [*velocity, 0, 0])
    np.testing.assert_allclose(tension, [0.3 * (G * 0.8 + 1.7**2)], rtol=1e-13)


def test_winding_a_string_pulls_harder() -> None:
    """m (g − r̈): shortening the string ever faster lifts the mass."""
    euler = sm.euler(sm.systems.get("suspended_mass", mass=0.3, gravity=G), 0.01)
    acceleration, tension = euler.acceleration({}, [0, 0, 0, 0], rho_acceleration=[0.0, -2.0])
    np.testing.assert_allclose(acceleration, [0.0, 2.0], atol=1e-14)
    np.testing.assert_allclose(tension, [0.3 * (G + 2.0)], rtol=1e-13)


def test_a_rod_that_carries_a_mass_from_below_pushes() -> None:
    b, ball = plane_mass("strut", mass=2.0)
    b.distance(ball, b.world, 1.5)
    step = sm.discretize(b.build(), 0.01)
    np.testing.assert_allclose(step.step(step.rest([0.0, 1.5]), []).multipliers, [-2.0 * G], rtol=1e-12)


def test_a_mass_on_the_floor_is_pushed_up_by_its_weight() -> None:
    b, ball = plane_mass("floor", mass=2.0)
    b.point_on_plane(b.world, ball, normal=(0, 3, 0), offset=0.2)
    step = sm.discretize(b.build(), 0.01)
    x = step.rest([0.0, 0.2])
    after = step.step(x, [])
    np.testing.assert_allclose(after.multipliers, [-2.0 * G], rtol=1e-12)
    np.testing.assert_allclose(after.x, x, rtol=0, atol=1e-15)


def test_a_slope_lets_a_mass_slide_with_g_sine() -> None:
    b, ball = plane_mass("slope", mass=2.0)
    b.point_on_plane(b.world.rz(-0.4), ball, normal=(0, 1, 0))
    acceleration, push = sm.euler(b.build(), 0.01).acceleration([0.0, 0.0], [0.0, 0.0])
    along = G * math.sin(0.4) * np.array([math.cos(0.4), -math.sin(0.4)])
    np.testing.assert_allclose(acceleration, along, rtol=1e-13)
    np.testing.assert_allclose(push, [-2.0 * G * math.cos(0.4)], rtol=1e-13)


def test_a_moving_floor_takes_the_mass_along() -> None:
    b, ball = plane_mass("lift", mass=2.0)
    floor = b.coordinate("floor", kinematic=True)
    b.point_on_plane(b.world, ball, normal=(0, 1, 0), offset=floor)
    step = sm.discretize(b.build(), 0.01)
    heights = 0.1 * np.sin(np.linspace(0, 2, 50))[:, None]
    path = step.rollout(step.rest([0.3, 0.0, 0.0]), heights)
    np.testing.assert_allclose(path.x[1:, 1], heights[:, 0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(path.x[:, 0], 0.3, rtol=1e-14)


def test_a_pinned_free_body_is_a_pendulum() -> None:
    """A rod free in the plane, its end pinned: the angular acceleration m g (l/2) sin θ / (m l²/3) of a hinged rod."""
    m, length, theta, rate = 1.2, 0.8, 0.6, 1.3
    b = sm.Builder("pinned")
    rod = b.world.tx(b.coordinate("x")).ty(b.coordinate("y")).rz(b.coordinate("theta"), name="rod")
    b.mass(rod, m, inertia=(0, 0, m * length**2 / 12))
    b.gravity((0, -G, 0))
    b.point_to_point(b.world, rod.ty(length / 2, name="end"), axes="xy")
    center = (length / 2 * math.sin(theta), -length / 2 * math.cos(theta))
    velocity = [*turning((0, 0), center, rate), rate]
    acceleration, hold = sm.euler(b.build(), 0.01).acceleration([*center, theta], velocity)
    assert acceleration[2] == pytest.approx(-1.5 * G * math.sin(theta) / length, rel=1e-13)
    # What the pin does not carry accelerates the centre: m a = −m g ŷ − hold.
    np.testing.assert_allclose(m * acceleration[:2], [-hold[0], -m * G - hold[1]], rtol=1e-12)


def test_a_four_bar_linkage_stays_closed() -> None:
    b = sm.Builder("four_bar")
    b.gravity((0, -G, 0))
    tips = []
    for name, foot in (("a", 0.0), ("b", 1.0)):
        crank = b.world.tx(foot, name=f"foot_{name}").rz(b.coordinate(name), name=f"crank_{name}")
        b.mass(crank.ty(-0.25, name=f"center_{name}"), 1.0, inertia=(0, 0, 0.02))
        tips.append(crank.ty(-0.5, name=f"tip_{name}"))
    b.distance(*tips, 1.0, name="coupler")
    step = sm.discretize(b.build(), 0.01)
    path = step.rollout(step.rest([0.7, 0.7]), np.zeros((300, 0)))
    assert np.abs(step.system.gaps(path.x[:, :2])).max() < 1e-15
    # Equal cranks and a coupler as long as the base: a parallelogram, both angles the same.
    np.testing.assert_allclose(path.x[:, 0], path.x[:, 1], rtol=0, atol=1e-12)
    assert np.ptp(path.x[:, 0]) > 1.0


def test_constraints_that_repeat_each_other_cannot_be_solved() -> None:
    b, ball = plane_mass("twice")
    b.distance(ball, b.world.ty(1.0, name="top"), 1.0, name="string")
    b.distance(ball, b.frame("top"), 1.0, name="again")
    step = sm.discretize(b.build(), 0.01)
    with pytest.raises(sm.ConvergenceError, match="depend on each other"):
        step.step(step.rest([0.6, 0.2]), [])
