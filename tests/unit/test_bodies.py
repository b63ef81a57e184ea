"""Bodies: kinetic energy and weight against sums over bodies moved by 4x4 matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import stepmap as sm
from tests.trees import motion, rigid

RNG = np.random.default_rng(11)
GRAVITY = np.array([0.3, -2.0, -9.0])
INERTIAS = [a @ np.diag(d) @ a.T for a, d in ((Rotation.random(rng=i).as_matrix(), (0.3, 0.4, 0.5)) for i in range(3))]
MASSES = (1.5, 0.4, 2.2)
PLACES = [rigid(RNG.uniform(-1, 1, 3), RNG.uniform(-0.5, 0.5, 3)) for _ in MASSES]  # in the link
JOINTS = ("tz", "rx", "ry")


def link_pose(q: np.ndarray) -> np.ndarray:
    return np.linalg.multi_dot([motion(kind, amount) for kind, amount in zip(JOINTS, q, strict=True)])


def one_link() -> tuple[sm.Builder, sm.mechanics.frames.Frame]:
    b = sm.Builder("link")
    b.gravity(GRAVITY)
    frame = b.world
    for kind in JOINTS:
        frame = getattr(frame, kind)(b.coordinate(kind))
    return b, frame


@pytest.fixture(scope="module")
def lumped() -> sm.System:
    """Three bodies fixed to one moving link."""
    b, link = one_link()
    for i, (place, mass, inertia) in enumerate(zip(PLACES, MASSES, INERTIAS, strict=True)):
        b.mass(link.fixed(place, name=f"body{i}"), mass, inertia=inertia)
    return b.build()


def test_kinetic_energy_is_the_sum_over_bodies(lumped: sm.System) -> None:
    q, v = RNG.uniform(-1, 1, (2, 3))
    h = 1e-4
    total = 0.0
    for place, mass, inertia in zip(PLACES, MASSES, INERTIAS, strict=True):
        # Sixth-order differences of the body's pose: truncation h⁶, rounding 1e-16/h = 1e-12.
        steps = ((1, 0.75), (2, -0.15), (3, 1 / 60))
        rate = sum(w * (link_pose(q + k * h * v) - link_pose(q - k * h * v)) for k, w in steps) @ place / h
        turn = (link_pose(q) @ place)[:3, :3]
        spin = turn.T @ rate[:3, :3]  # skew, in body axes
        omega = np.array([spin[2, 1], spin[0, 2], spin[1, 0]])
        total += (mass * rate[:3, 3] @ rate[:3, 3] + omega @ inertia @ omega) / 2
    assert lumped.kinetic_energy(q, v) == pytest.approx(total, rel=1e-10)


def test_weight_is_the_sum_over_bodies(lumped: sm.System) -> None:
    q = RNG.uniform(-1, 1, 3)
    weights = (-m * GRAVITY @ (link_pose(q) @ place)[:3, 3] for m, place in zip(MASSES, PLACES, strict=True))
    assert lumped.potential_energy(q) == pytest.approx(sum(weights), rel=1e-13)


def test_several_bodies_on_a_link_are_one_by_parallel_axes(lumped: sm.System) -> None:
    center = sum(m * place[:3, 3] for m, place in zip(MASSES, PLACES, strict=True)) / sum(MASSES)
    inertia = np.zeros((3, 3))
    for place, m, own in zip(PLACES, MASSES, INERTIAS, strict=True):
        turn, arm = place[:3, :3], place[:3, 3] - center
        inertia += turn @ own @ turn.T + m * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    b, link = one_link()
    b.mass(link.translate(*center), sum(MASSES), inertia=inertia)
    single = b.build()
    q, v = RNG.uniform(-1, 1, (2, 7, 3))
    np.testing.assert_allclose(lumped.kinetic_energy(q, v), single.kinetic_energy(q, v), rtol=1e-13)
    np.testing.assert_allclose(lumped.potential_energy(q), single.potential_energy(q), rtol=1e-12)
    np.testing.assert_allclose(lumped.mass_matrix(q), single.mass_matrix(q), rtol=0, atol=1e-13)


def test_principal_moments_are_a_diagonal_inertia() -> None:
    made = []
    for inertia in ((0.1, 0.2, 0.25), np.diag([0.1, 0.2, 0.25])):
        b, link = one_link()
        b.mass(link, 1.0, inertia=inertia)
        made.append(b.build().mass_matrix([0.1, 0.2, 0.3]))
    np.testing.assert_array_equal(*made)


def test_an_inertia_turned_in_floating_point_is_symmetric_enough() -> None:
    turn = Rotation.from_rotvec([0.3, -0.5, 0.7]).as_matrix()
    inertia = turn @ np.diag([1.0, 2.0, 2.5]) @ turn.T
    assert (inertia != inertia.T).any()
    b, link = one_link()
    b.mass(link, 1.0, inertia=inertia)
    # About the turned axis x of the body the moment is 1: spin about it with ry = 0, rx along x.
    spin = b.build().mass_matrix([0.0, 0.0, 0.0])
    assert spin[1, 1] == pytest.approx(inertia[0, 0], rel=1e-14)


def test_a_body_fixed_to_the_world_only_shifts_the_potential() -> None:
    b, link = one_link()
    b.mass(link, 1.0, inertia=(0.1, 0.1, 0.1))
    alone = b.build()
    b.mass(b.world.translate(1.0, 2.0, 3.0), 4.0, inertia=(1, 1, 1))
    both = b.build()
    q, v = RNG.uniform(-1, 1, (2, 3))
    assert both.kinetic_energy(q, v) == alone.kinetic_energy(q, v)
    shift = -4.0 * GRAVITY @ [1.0, 2.0, 3.0]
    assert both.potential_energy(q) - alone.potential_energy(q) == pytest.approx(shift, rel=1e-13)


def test_mass_matrix_is_the_hessian_of_the_kinetic_energy(lumped: sm.System) -> None:
    """T is quadratic in the velocity: ½ vᵀ M v, and M_ij = T(e_i + e_j) − T(e_i) − T(e_j)."""
    q = RNG.uniform(-1, 1, 3)
    one = np.eye(3)
    energy = lumped.kinetic_energy
    M = [[energy(q, a + b) - energy(q, a) - energy(q, b) for b in one] for a in one]
    np.testing.assert_allclose(lumped.mass_matrix(q), M, rtol=0, atol=1e-13)


def test_questions_may_be_asked_of_many_poses_at_once(lumped: sm.System) -> None:
    q, v = RNG.uniform(-1, 1, (2, 4, 5, 3))
    energies = lumped.kinetic_energy(q, v)
    assert energies.shape == (4, 5)
    assert lumped.mass_matrix(q).shape == (4, 5, 3, 3)
    assert lumped.positions(q).shape == (4, 5, len(lumped.frames), 3)
    assert energies[2, 3] == lumped.kinetic_energy(q[2, 3], v[2, 3])
    assert lumped.potential_energy(np.zeros((0, 3))).shape == (0,)
