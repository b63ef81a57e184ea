"""Energies of textbook mechanisms and springs against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stepmap as sm

RNG = np.random.default_rng(2)


def test_cart_pendulum() -> None:
    """T = ½ M ẋ² + ½ m (ẋ² + 2 l ẋ θ̇ cos θ + l² θ̇²),  V = −m g l cos θ (Murphey & Johnson, Fig. 4a)."""
    M, m, l, g = 7.0, 1.3, 0.8, 9.7  # noqa: E741
    system = sm.systems.get("cart_pendulum", cart_mass=M, mass=m, length=l, gravity=g)
    (x, theta), (xd, w) = RNG.uniform(-2, 2, (2, 2))
    kinetic = M * xd**2 / 2 + m * (xd**2 + 2 * l * xd * w * math.cos(theta) + l**2 * w**2) / 2
    assert system.kinetic_energy([x, theta], [xd, w]) == pytest.approx(kinetic, rel=1e-14)
    assert system.potential_energy([x, theta]) == pytest.approx(-m * g * l * math.cos(theta), rel=1e-14)


def test_double_pendulum() -> None:
    system = sm.systems.get("double_pendulum", mass1=1.1, mass2=0.6, length1=0.9, length2=1.4, gravity=9.8)
    (a, b), (da, db) = RNG.uniform(-2, 2, (2, 2))
    v1 = (0.9 * da) ** 2
    v2 = v1 + (1.4 * (da + db)) ** 2 + 2 * 0.9 * 1.4 * da * (da + db) * math.cos(b)
    kinetic = (1.1 * v1 + 0.6 * v2) / 2
    potential = -9.8 * ((1.1 + 0.6) * 0.9 * math.cos(a) + 0.6 * 1.4 * math.cos(a + b))
    assert system.kinetic_energy([a, b], [da, db]) == pytest.approx(kinetic, rel=1e-13)
    assert system.potential_energy([a, b]) == pytest.approx(potential, rel=1e-13)


def test_slender_rods_of_the_planar_arm() -> None:
    """One rod about its end: m l²/3; hanging horizontally it has the weight's full lever l/2."""
    system = sm.systems.get("planar_arm", mass1=0.7, length1=0.3, mass2=0.5, length2=0.2)
    straight = [0.0, 0.0, 0.5, 1.0]
    moment = 0.7 * 0.3**2 / 3 + 0.5 * 0.2**2 / 12 + 0.5 * (0.3 + 0.1) ** 2
    assert system.mass_matrix(straight)[0, 0] == pytest.approx(moment, rel=1e-13)
    up = system.potential_energy([math.pi / 2, 0.0, 0.5, 1.0]) - system.potential_energy(straight)
    assert up == pytest.approx(9.8 * (0.7 * 0.15 + 0.5 * 0.4), rel=1e-13)


def spring_mass(**spring: float) -> sm.System:
    """A mass free in the plane, and a spring to the point (1, 2, 0)."""
    b = sm.Builder("spring")
    ball = b.world.tx(b.coordinate("x")).ty(b.coordinate("y"))
    b.mass(ball, 1.0)
    b.spring(ball, b.world.translate(1.0, 2.0), **spring)
    return b.build()


@pytest.mark.parametrize("length", [0.0, 0.7])
def test_spring_between_frames(length: float) -> None:
    """V = ½ k (|Δ| − length)²."""
    x, y = RNG.uniform(-1, 1, 2)
    stretch = math.hypot(x - 1, y - 2) - length
    energy = spring_mass(stiffness=12.0, length=length).potential_energy([x, y])
    assert energy == pytest.approx(6.0 * stretch**2, rel=1e-14)


def test_spring_pulls_along_itself() -> None:
    """p = −dt/2 dV/dq at rest, so the force is 2 p/dt: k (|Δ| − length) towards the other end."""
    step = sm.discretize(spring_mass(stiffness=12.0, length=0.7), 0.1)
    x, y = 0.2, -0.4
    gap = np.array([1 - x, 2 - y])
    pull = 12.0 * (np.linalg.norm(gap) - 0.7) * gap / np.linalg.norm(gap)
    np.testing.assert_allclose(2 * step.unpack(step.rest([x, y])).p / 0.1, pull, rtol=1e-13)


def test_spring_of_no_length_is_smooth_where_its_ends_meet() -> None:
    step = sm.discretize(spring_mass(stiffness=12.0), 0.1)
    x = step.rest([1.0, 2.0])
    at = step.linearize(x, [])
    np.testing.assert_array_equal(at.x, x)
    assert np.isfinite(at.A).all()


def test_spring_on_a_coordinate() -> None:
    """V = ½ k (θ − rest)²."""
    b = sm.Builder("torsion")
    theta = b.coordinate("theta")
    b.mass(b.world.rz(theta), 0.0, inertia=(0, 0, 2.0))
    b.coordinate_spring(theta, stiffness=5.0, rest=0.3)
    system = b.build()
    assert system.potential_energy([1.1]) == pytest.approx(2.5 * 0.8**2, rel=1e-14)
    acceleration, _ = sm.euler(system, 0.1).acceleration([1.1], [0.0])
    assert acceleration[0] == pytest.approx(-5.0 * 0.8 / 2.0, rel=1e-14)
