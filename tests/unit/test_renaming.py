"""Renaming of coordinates at a landing: against formulas of the legs written out, and what cannot be a renaming."""

from __future__ import annotations

import math
from collections.abc import Mapping

import casadi as ca
import numpy as np
import pytest

import stepmap as sm
from stepmap.errors import ModelError
from stepmap.optimal.gaits.names import expressed, spread, symbols
from stepmap.optimal.gaits.renaming import ALIKE, Renaming

STRIDE = 0.56
LEGS = {
    "x": "swing.x - stride",
    "y": "swing.y",
    "theta1": "theta1 + theta2 + theta3 + theta4",
    "theta2": "-theta4",
    "theta3": "-theta3",
    "theta4": "-theta2",
}
Q = np.array([0.1, -0.2, 0.3, -0.4, 0.5, -0.6])  # x, y, angles of the links, each from the one before


def biped() -> sm.System:
    return sm.systems.get("biped_planar", stride=STRIDE)


def toe(q: np.ndarray) -> np.ndarray:
    """Of the swinging leg: two links up and two down, shank and thigh of the catalog."""
    system = biped()
    values = dict(zip((p.name for p in system.parameters), system.parameter_values, strict=True))
    lengths = (values["shank"], values["leg"] - values["shank"])
    at, angle = q[:2].copy(), 0.0
    for theta, length in zip(q[2:], (*lengths, *(-e for e in lengths[::-1])), strict=True):
        angle += theta
        at += length * np.array([-np.sin(angle), np.cos(angle)])
    return at


def renamed(q: np.ndarray) -> np.ndarray:
    x, y = toe(q)
    return np.array([x - STRIDE, y, q[2:].sum(), -q[5], -q[4], -q[3]])


def test_poses_are_those_of_the_legs_written_out() -> None:
    made = Renaming(biped(), LEGS)
    assert made.pose(Q) == pytest.approx(renamed(Q), abs=1e-12)
    by = 1e-6
    slopes = np.array([(renamed(Q + d) - renamed(Q - d)) / (2 * by) for d in by * np.eye(6)]).T
    assert made.matrix(Q) == pytest.approx(slopes, abs=1e-9)
    assert made.pose(made.pose(Q))[3:] == pytest.approx(Q[3:])  # twice is the same leg again


def test_each_foot_takes_the_place_of_the_other() -> None:
    assert Renaming(biped(), LEGS).partners == {"stance": "swing", "swing": "stance"}


def test_a_hopper_s_foot_takes_its_own_place() -> None:
    system = sm.systems.get("hopper")
    made = Renaming(system)
    assert made.partners == {"ground": "ground"}
    assert made.matrix(made.poses[0]) == pytest.approx(np.eye(len(system.coordinates)))


def test_formulas_are_compared_at_poses_about_the_start() -> None:
    made = Renaming(biped(), LEGS)
    off = made.poses - made.system.configuration({})
    assert off.shape == (3, 6)
    assert 0.1 < np.abs(off).max() <= 0.2
    assert off.min() < 0 < off.max()


def pair(second: float = 1.0, ground: float = 0.0) -> sm.System:
    """Two masses that rise each by itself, over floors of their own; the second one's is higher."""
    b = sm.Builder("pair")
    low, high = b.coordinate("one", unit="m", start=0.5), b.coordinate("two", unit="m", start=0.5)
    floors = b.world, b.world.tz(ground, name="table")
    for name, z, floor, mass in zip(("left", "right"), (low, high), floors, (1.0, second), strict=True):
        end = b.world.tz(z, name=name)
        b.mass(end, mass)
        b.contact(end, floor, name=name)
    b.gravity((0, 0, -9.81))
    return b.build()


SWAP = {"one": "two", "two": "one"}


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_masses_may_differ_by_rounding_alone(factor: float) -> None:
    system = pair(second=1 + factor * ALIKE)
    if factor < 1:
        assert Renaming(system, SWAP).partners == {"left": "right", "right": "left"}
    else:
        with pytest.raises(ModelError, match="masses differ by 2e-05 %"):
            Renaming(system, SWAP)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_heights_of_contacts_may_differ_by_rounding_alone(factor: float) -> None:
    system = pair(ground=factor * ALIKE)
    if factor < 1:
        assert Renaming(system, SWAP).partners == {"left": "right", "right": "left"}
    else:
        with pytest.raises(ModelError, match="'left' takes the place of no contact"):
            Renaming(system, SWAP)


def test_one_that_keeps_its_names_keeps_its_contacts() -> None:
    assert Renaming(pair(second=3.0)).partners == {"left": "left", "right": "right"}


def test_tangents_of_a_contact_may_change_their_sign() -> None:
    """A point that sticks to the floor, in a mirror."""
    b = sm.Builder("mirrored")
    x, y, z = (b.coordinate(name, unit="m", start=0.4) for name in "xyz")
    bob = b.world.tx(x).ty(y).tz(z, name="bob")
    b.mass(bob, 1.0)
    b.contact(bob, b.world, friction=math.inf, name="foot")
    system = b.build()
    assert Renaming(system, {"y": "-y"}).partners == {"foot": "foot"}
    with pytest.raises(ModelError, match="takes the place of no contact"):
        Renaming(system, {"x": "y", "y": "x"})


@pytest.mark.parametrize(
    ("formulas", "text"),
    [
        ({"one": "one/0"}, "no finite value"),
        ({"one": "two"}, "same names"),
        ({"one": "1e-10*one"}, "same names"),
        ({"one": "2*two", "two": "one/2"}, "masses differ by 3e\\+02 %"),
    ],
)
def test_what_cannot_come_back_is_refused(formulas: Mapping[str, str], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        Renaming(pair(), formulas)


def test_what_is_moved_from_outside_cannot_walk() -> None:
    with pytest.raises(ModelError, match="'xr' is a kinematic coordinate"):
        Renaming(sm.systems.get("suspended_mass"))


def spinning() -> sm.System:
    b = sm.Builder("spinning")
    b.mass(b.world.ball("head"), 1.0, inertia=(1.0, 1.0, 1.0))
    return b.build()


def test_a_ball_has_four_formulas_that_make_a_unit_quaternion() -> None:
    mirrored = ["head.w", "-head.x", "head.y", "-head.z"]
    names = [c.name for c in spinning().coordinates]
    assert spread(spinning(), {"head": mirrored}) == dict(zip(names, mirrored, strict=True))
    made = Renaming(spinning(), {"head": mirrored})
    assert made.pose(np.array([0.1, 0.7, -0.5, 0.5])) == pytest.approx([0.1, -0.7, -0.5, -0.5])
    assert made.matrix(np.array([0.5, 0.5, 0.5, 0.5])) == pytest.approx(np.diag([-1.0, 1.0, -1.0]))
    with pytest.raises(ModelError, match=r"a quaternion of the norm 1.1"):
        Renaming(spinning(), {"head": [f"1.1*{e}" for e in mirrored]})
    for wrong in ("head.w", mirrored[:3], 1.0):
        with pytest.raises(ModelError, match=r"periodic head: expected 4 formulas, those of head.w, head.x"):
            spread(spinning(), {"head": wrong})


def test_formulas_come_as_a_mapping_of_known_names() -> None:
    with pytest.raises(ModelError, match="expected a mapping"):
        spread(pair(), [("one", "two")])
    with pytest.raises(ModelError, match="no coordinate is called 'onne'") as caught:
        spread(pair(), {"onne": "two"})
    assert "one" in str(caught.value.hint)
    assert spread(pair(), {"one": "two"}) == {"one": "two"}


def test_formulas_know_coordinates_parameters_and_frames() -> None:
    system = biped()
    e = system.expressions
    value = ca.Function("value", [e.q, e.parameters], [expressed(system, "swing.x + stride*theta2", "it")])
    assert float(value(Q, system.parameter_values)) == pytest.approx(toe(Q)[0] + STRIDE * Q[3])
    assert {"theta1", "stride", "swing.x", "swing.y", "swing.z"} <= set(symbols(system))


def test_formulas_are_texts_numbers_or_functions() -> None:
    system = pair()
    assert float(expressed(system, 2, "it")) == 2.0
    by_function = expressed(system, lambda known: known["one"] - 3 * known["two"], "it")
    assert ca.is_equal(ca.simplify(by_function - expressed(system, "one - 3*two", "it")), ca.SX(0), 5)
    with pytest.raises(ModelError, match=r"periodic one: no name 'three'; there are .*one, two"):
        expressed(system, lambda known: known["three"], "periodic one")
    with pytest.raises(ModelError, match="it: expected a formula, a number or a function"):
        expressed(system, None, "it")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"it: .*thre"):
        expressed(system, "thre + 1", "it")
