"""Rotations against scipy's, inertias at the limits of what a body can have, modes of gaps: without a step."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import stepmap as sm
from stepmap.errors import ModelError
from stepmap.mechanics import bodies, gaps
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.poses import quaternion

TURNS = Rotation.random(20, random_state=np.random.default_rng(3))


def wxyz(turn: Rotation) -> np.ndarray:
    return np.roll(turn.as_quat(), 1)


def numeric(expression: object) -> np.ndarray:
    return np.array(ca.DM(ca.evalf(ca.SX(expression))), dtype=float)


@pytest.mark.parametrize("k", range(5))
def test_matrices_of_quaternions_are_scipy_s(k: int) -> None:
    made = numeric(quaternion.rotation(ca.SX(wxyz(TURNS[k]))))
    assert np.abs(made - TURNS[k].as_matrix()).max() < 1e-14


@pytest.mark.parametrize("k", range(5))
def test_products_and_inverses_are_scipy_s(k: int) -> None:
    a, b = TURNS[k], TURNS[k + 5]
    made = np.array(quaternion.product(wxyz(a), wxyz(b)))
    wanted = wxyz(a * b)
    assert min(np.abs(made - wanted).max(), np.abs(made + wanted).max()) < 1e-14
    assert np.abs(np.array(quaternion.conjugate(wxyz(a))) - wxyz(a) * [1, -1, -1, -1]).max() == 0


@pytest.mark.parametrize("size", [1e-3, 0.5, 3.0])
def test_a_turn_from_one_to_another_leads_there(size: int) -> None:
    for k in range(5):
        a = wxyz(TURNS[k])
        axis = TURNS[k + 5].apply([0.0, 0.0, 1.0])
        b = wxyz(TURNS[k] * Rotation.from_rotvec(size * axis))
        turn = np.array(quaternion.turned(a, b))
        assert np.abs(turn - 4 * np.tan(size / 4) * axis).max() < 1e-12 * (1 + np.abs(turn).max())
        back = np.array(quaternion.retracted(a, turn))
        assert min(np.abs(back - b).max(), np.abs(back + b).max()) < 1e-14


def test_near_identity_is_the_exponential_to_third_order() -> None:
    for size in (0.02, 0.04):
        c = size * np.array([0.6, -0.48, 0.64])
        off = np.abs(numeric(quaternion.near_identity(ca.SX(c))) - Rotation.from_rotvec(c).as_matrix()).max()
        assert off < size**4 / 20  # the next term is k⁴/24


@pytest.mark.parametrize(
    ("moments", "rounded", "text"),
    [
        ((1.0, 1.0, 2.0), 0.0, ""),
        ((1.0, 1.0, 2.1), 0.0, "no body has the principal moments"),
        ((1.0, 1.0, 2.1), 0.1, ""),
        ((1.0, 1.0, 2.1), np.inf, ""),
        ((0.0, 0.0, 5.0), 0.0, ""),
        ((-1e-13, 0.0, 0.5), 0.0, ""),
        ((-1e-11, 0.0, 0.5), 0.0, "no negative principal moment"),
        ((-1e-9, 50.0, 100.0), 0.0, "no negative principal moment"),
        ((-1e-11, 99.0, 100.0), 0.1, ""),
        ((-1.2e-12, 0.0, 0.5), 0.0, "no negative principal moment"),
        ((-0.8e-12, 0.0, 0.5), 0.0, ""),
    ],
)
def test_inertias_that_a_body_can_have(moments: tuple[float, ...], rounded: float, text: str) -> None:
    if text:
        with pytest.raises(ModelError, match=text):
            bodies.require_possible(np.diag(moments), "it", rounded)
    else:
        bodies.require_possible(np.diag(moments), "it", rounded)


def test_a_body_that_cannot_be_is_refused_where_it_is_described() -> None:
    b = sm.Builder("body")
    frame = b.world.rz(b.coordinate("theta", unit="rad"), name="arm")
    with pytest.raises(ModelError, match=r"inertia of mass on frame 'arm'.*no body has the principal moments"):
        b.mass(frame, 1.0, inertia=(1.0, 1.0, 5.0))


@pytest.mark.parametrize(("off", "is_rounding"), [(0.9e-12, True), (1.2e-12, False)])
def test_a_matrix_may_be_off_by_rounding_of_its_largest_number(off: float, is_rounding: bool) -> None:
    matrix = np.diag([1.0, 1.0, 1.0])
    matrix[0, 1] = off
    if is_rounding:
        assert numeric(bodies.inertia_matrix(matrix.tolist(), "it"))[1, 0] == pytest.approx(off)
    else:
        with pytest.raises(ModelError, match="symmetric"):
            bodies.inertia_matrix(matrix.tolist(), "it")


def test_quaternions_of_several_balls_are_made_units_each_by_itself() -> None:
    b = sm.Builder("balls")
    first = b.world.ball("first").tx(1.0)
    second = first.ball("second")
    for frame in (first, second):
        b.mass(frame, 1.0, inertia=(1.0, 1.0, 1.0))
    tangent = b.build().tangent
    q = np.array([2.0, 0.0, 0.0, 2.0, 0.0, 3.0, 4.0, 0.0])
    assert tangent.normalize(q) == pytest.approx([0.5**0.5, 0, 0, 0.5**0.5, 0, 0.6, 0.8, 0])


def test_a_matrix_must_be_symmetric_in_every_pair() -> None:
    for i, j in ((0, 1), (0, 2), (1, 2)):
        matrix = np.eye(3)
        matrix[i, j] = 0.1
        with pytest.raises(ModelError, match="symmetric"):
            bodies.inertia_matrix(matrix.tolist(), "it")


def test_what_moves_no_mass_is_named() -> None:
    good, weak = np.diag([1.0, 2.0, 3.0]), np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert bodies.massless(np.array([good]), []) == []
    assert bodies.massless(np.array([weak]), []) == [0, 1]
    assert bodies.massless(np.array([weak, good]), []) == []
    assert bodies.massless(np.array([np.diag([1.0, 0.0, 1.0])]), []) == [1]
    held, free = np.array([[[1.0, -1.0, 0.0]]]), np.array([[[0.0, 0.0, 1.0]]])
    assert bodies.massless(np.array([weak]), [held]) == []
    assert bodies.massless(np.array([weak]), [held, free]) == [0, 1]
    unit = held / np.linalg.norm(held)
    assert bodies.massless(np.array([weak]), [1.2e-9 * unit]) == []
    assert bodies.massless(np.array([weak]), [0.8e-9 * unit]) == [0, 1]  # a row that is rounding holds nothing


def test_modes_are_each_gap_with_its_tangents_and_what_never_opens() -> None:
    rows = [Row.EQUALITY, Row.GAP, Row.GAP, Row.TANGENT, Row.TANGENT, Row.EQUALITY]
    assert gaps.modes_of(rows) == [[0, 5, 1], [0, 5, 2, 3, 4]]
    assert gaps.violations(np.array([-0.1, -0.2, 0.3, 0.4, 0.5, 0.6]), rows).tolist() == [-0.1, 0.0, 0.3, 0.0, 0.0, 0.6]
