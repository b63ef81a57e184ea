"""The builder: what it makes of a mechanism, and what it says about one that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np
import pytest

import stepmap as sm
from stepmap.errors import ModelError

NAN = float("nan")


class Workbench:
    """A builder with one of everything."""

    def __init__(self) -> None:
        self.b = sm.Builder("bench")
        self.x = self.b.coordinate("x")
        self.y = self.b.coordinate("y")
        self.r = self.b.coordinate("r", kinematic=True)
        self.force = self.b.input("force")
        self.size = self.b.parameter("size", 1.0)
        self.cart = self.b.world.tx(self.x, name="cart")
        self.bob = self.cart.ty(self.y, name="bob")
        self.other = sm.Builder("other")
        self.foreign = self.other.coordinate("x")
        self.foreign_frame = self.other.world.tx(self.foreign, name="cart")


MISTAKES: dict[str, tuple[Callable[[Workbench], Any], str]] = {
    "builder without a name": (lambda w: sm.Builder(""), "name"),
    "coordinate declared twice": (lambda w: w.b.coordinate("x"), "coordinate 'x' is declared twice"),
    "coordinate without a name": (lambda w: w.b.coordinate(""), "name"),
    "coordinate moves two frames": (lambda w: w.b.world.rz(w.x, name="wheel"), "'x'.*'cart'.*'wheel'"),
    "coordinate of another builder": (lambda w: w.b.world.tx(w.foreign), "coordinate 'x' is unknown here"),
    "name instead of a coordinate": (lambda w: w.b.damping("x", 1.0), "damping.*'x'"),
    "start is not a number": (lambda w: w.b.coordinate("z", start="up"), "start of coordinate 'z'"),
    "start is not finite": (lambda w: w.b.coordinate("z", start=NAN), "start of coordinate 'z'.*finite"),
    "low above high": (lambda w: w.b.coordinate("z", low=1.0, high=-1.0), "low .* below high"),
    "limit is not finite": (lambda w: w.b.input("f", high=NAN), "high of input 'f'.*finite"),
    "input declared twice": (lambda w: w.b.input("force"), "input 'force' is declared twice"),
    "input of another builder": (lambda w: w.b.drive(w.x, w.other.input("f")), "input 'f' is unknown here"),
    "parameter declared twice": (lambda w: w.b.parameter("size", 2.0), "parameter 'size' is declared twice"),
    "parameter is not a number": (lambda w: w.b.parameter("width", "wide"), "parameter 'width'.*'wide'"),
    "parameter is not finite": (lambda w: w.b.parameter("width", NAN), "parameter 'width'.*finite"),
    "expression of a foreign symbol": (lambda w: w.b.world.tx(2 * ca.SX.sym("s")), "s is not a parameter"),
    "vector where one number goes": (lambda w: w.b.world.tx(ca.SX.sym("s", 2)), "expected one number"),
    "unknown frame": (lambda w: w.b.frame("wheel"), "no frame is called 'wheel'.*cart"),
    "frame of another builder": (lambda w: w.b.mass(w.foreign_frame, 1.0), "'cart' belongs to another builder"),
    "no frame": (lambda w: w.b.mass("cart", 1.0), "mass: expected a frame"),
    "frame name used twice": (lambda w: w.b.world.tx(1.0, name="cart"), "frame called 'cart' exists"),
    "frame name is no string": (lambda w: w.b.world.tx(1.0, name=5), "name"),
    "frame moved by no number": (lambda w: w.b.world.tx("far", name="tip"), "frame 'tip'.*'far'"),
    "frame moved by NaN": (lambda w: w.b.world.tx(NAN, name="tip"), "frame 'tip'.*finite"),
    "transform of a wrong shape": (lambda w: w.b.world.fixed(np.eye(3), name="tip"), "frame 'tip'.*4x4"),
    "transform of words": (lambda w: w.b.world.fixed([["a"]], name="tip"), "frame 'tip'.*4x4"),
    "transform that scales": (lambda w: w.b.world.fixed(np.diag([2.0, 1, 1, 1]), name="tip"), "not a rigid transform"),
    "transform that mirrors": (lambda w: w.b.world.fixed(np.diag([-1.0, 1, 1, 1]), name="tip"), "not a rigid"),
    "mass is a text": (lambda w: w.b.mass(w.bob, "1"), "mass on frame 'bob': expected a number.*the text '1'"),
    "angle in degrees": (lambda w: w.b.coordinate("a", unit="deg"), "'a': its values are in rad.*does not convert"),
    "length in millimetres": (lambda w: w.b.coordinate("a", unit="mm"), "'a': its values are in m"),
    "limit is a text": (lambda w: w.b.coordinate("a", low="-1"), "'a'.*text '-1'"),
    "mass is not finite": (lambda w: w.b.mass(w.bob, NAN), "mass on frame 'bob'.*finite"),
    "inertia is one number": (lambda w: w.b.mass(w.bob, 1.0, inertia=2.0), "inertia.*'bob'.*principal moments"),
    "inertia of two numbers": (lambda w: w.b.mass(w.bob, 1.0, inertia=(1, 2)), "inertia.*'bob'.*3x3"),
    "inertia not symmetric": (lambda w: w.b.mass(w.bob, 1.0, inertia=np.eye(3) + np.eye(3, k=1)), "symmetric"),
    "gravity of two numbers": (lambda w: w.b.gravity((0, -9.8)), "gravity: expected three"),
    "gravity of one number": (lambda w: w.b.gravity(-9.8), "gravity: expected three"),
    "spring from a frame to itself": (lambda w: w.b.spring(w.bob, w.bob, stiffness=1.0), "both ends are frame 'bob'"),
    "spring stiffness NaN": (lambda w: w.b.spring(w.bob, w.cart, stiffness=NAN), "spring stiffness.*finite"),
    "damper of words": (lambda w: w.b.damper(w.bob, w.cart, "soft"), "damper coefficient.*'soft'"),
    "drive of a kinematic coordinate": (lambda w: w.b.drive(w.r, w.force), "'r' is kinematic"),
    "wrench of two entries": (lambda w: w.b.wrench(w.bob, force=(1, 2)), "wrench force: expected three"),
    "dynamic coordinate as length": (lambda w: w.b.distance(w.bob, w.cart, w.x), "'x' is dynamic"),
    "length is negative": (lambda w: w.b.distance(w.bob, w.cart, -1.0), "length must be positive"),
    "length is zero": (lambda w: w.b.distance(w.bob, w.cart, 0.0), "point_to_point"),
    "normal is zero": (lambda w: w.b.point_on_plane(w.cart, w.bob, normal=(0, 0, 0)), "normal"),
    "normal of words": (lambda w: w.b.point_on_plane(w.cart, w.bob, normal="up"), "normal"),
    "axes given twice": (lambda w: w.b.point_to_point(w.cart, w.bob, axes="xx"), "axes"),
    "axes unknown": (lambda w: w.b.marker(w.bob, axes="q"), "marker: axes"),
    "axes is a number": (lambda w: w.b.marker(w.bob, axes=3), "marker: axes"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_named_where_it_is_made(mistake: str) -> None:
    act, message = MISTAKES[mistake]
    bench = Workbench()
    with pytest.raises(ModelError, match=message):
        act(bench)


@pytest.mark.parametrize("kind", ["constraint", "sensor"])
def test_names_are_unique_among_their_kind(kind: str) -> None:
    w = Workbench()
    add = {
        "constraint": lambda: w.b.distance(w.cart, w.b.world, 1.0, name="same"),
        "sensor": lambda: w.b.encoder(w.x, name="same"),
    }[kind]
    add()
    with pytest.raises(ModelError, match=f"{kind} called 'same' exists"):
        add()


def test_negative_mass_is_refused() -> None:
    """A number where it is given, a parameter when the system is built."""
    w = Workbench()
    with pytest.raises(ModelError, match="mass on frame 'bob': must not be negative"):
        w.b.mass(w.bob, -1.0)
    w.b.mass(w.bob, w.b.parameter("m", -1.0))
    with pytest.raises(ModelError, match="mass on frame 'bob': must not be negative"):
        w.b.build()


def test_negative_principal_moment_is_refused() -> None:
    w = Workbench()
    refused = "inertia of mass on frame 'bob': must have no negative principal moment"
    with pytest.raises(ModelError, match=refused):
        w.b.mass(w.bob, 1.0, inertia=(1.0, -0.1, 1.0))
    w.b.mass(w.bob, 1.0, inertia=(1.0, w.b.parameter("j", -0.1), 1.0))
    with pytest.raises(ModelError, match=refused):
        w.b.build()


@pytest.mark.parametrize("inertia", [(1, 1, 50), np.diag([0.0, 1.0, 2.0]), (0.1, 0.1, 0.25)])
def test_an_inertia_that_no_body_has_is_refused(inertia: object) -> None:
    """Jx + Jy − Jz = ∫ 2 z² dm ≥ 0, and so for the other two pairs."""
    w = Workbench()
    with pytest.raises(ModelError, match=r"'bob': no body has the principal moments .* kg m²") as caught:
        w.b.mass(w.bob, 1.0, inertia=inertia)
    assert "exceed the sum of the other two" in caught.value.cause


@pytest.mark.parametrize("inertia", [(0, 0, 2.0), (1 / 3, 0, 1 / 3), (0.2, 0.301, 0.5), (1, 1, 2.0), (0, 0, 0)])
def test_an_inertia_of_a_plate_a_rod_or_a_plane_mechanism_is_taken(inertia: object) -> None:
    w = Workbench()
    w.b.mass(w.bob, 1.0, inertia=inertia)


def test_dynamic_coordinate_that_moves_no_mass_is_refused() -> None:
    w = Workbench()
    w.b.mass(w.cart, 1.0)  # y moves the bob only
    with pytest.raises(ModelError, match="moving 'y' moves no mass"):
        w.b.build()


def test_coordinates_that_only_move_mass_together_are_refused() -> None:
    """Two slides along the same axis without a mass between them: only their sum has inertia."""
    b = sm.Builder("twice")
    b.mass(b.world.tx(b.coordinate("a")).tx(b.coordinate("b")), 1.0)
    with pytest.raises(ModelError, match="mass matrix is singular, moving 'a', 'b'"):
        b.build()


def test_system_without_a_dynamic_coordinate_is_refused() -> None:
    b = sm.Builder("still")
    b.mass(b.world.tx(b.coordinate("r", kinematic=True)), 1.0)
    with pytest.raises(ModelError, match="'still' has no dynamic coordinate"):
        b.build()


def test_every_model_error_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="name"):
        sm.Builder("")


def test_coordinates_are_ordered_dynamic_first_then_as_declared() -> None:
    b = sm.Builder("order")
    frame = b.world
    for name, kinematic in (("a", True), ("b", False), ("c", True), ("d", False)):
        frame = frame.tx(b.coordinate(name, kinematic=kinematic))
        b.mass(frame, 1.0)
        frame = frame.rz(0.5)
    system = b.build()
    assert [c.name for c in system.coordinates] == ["b", "d", "a", "c"]
    assert sm.discretize(system, 0.1).state_names == ("b", "d", "a", "c", "p_b", "p_d", "v_a", "v_c")


def test_a_built_system_does_not_see_later_changes() -> None:
    w = Workbench()
    w.b.mass(w.bob, 2.0)
    system = w.b.build()
    before = system.kinetic_energy([0, 0, 0], [1, 1, 0])
    w.b.mass(w.cart, 5.0)
    w.cart.tz(1.0)
    assert system.kinetic_energy([0, 0, 0], [1, 1, 0]) == before == 2.0
    assert len(system.frames) == 3


def test_a_pose_may_be_named_in_part_and_starts_fill_the_rest() -> None:
    b = sm.Builder("starts")
    b.mass(b.world.tx(b.coordinate("x", start=0.3)).ty(b.coordinate("y", start=-0.2)), 1.0)
    system = b.build()
    np.testing.assert_array_equal(system.configuration({}), [0.3, -0.2])
    np.testing.assert_array_equal(system.configuration({"y": 1.0}), [0.3, 1.0])
    np.testing.assert_array_equal(system.with_start({"x": 2.0}).configuration({}), [2.0, -0.2])


@pytest.mark.parametrize(
    ("pose", "error", "message"),
    [
        ({"z": 1.0}, sm.ModelError, "no coordinate is called 'z'"),
        ({"x": "far"}, sm.ModelError, "pose 'x'.*'far'"),
        ({"x": NAN}, sm.ModelError, "pose 'x'.*finite"),
        ([1.0], sm.ShapeError, "expected 3 numbers"),
        ([[1.0, 2.0, 3.0]], sm.ShapeError, "expected 3 numbers"),
        ([1.0, NAN, 0.0], sm.ShapeError, r"entry \[1\] is not a finite number"),
        ("abc", sm.ShapeError, "expected numbers"),
    ],
)
def test_bad_poses_are_refused(pose: Any, error: type[Exception], message: str) -> None:
    w = Workbench()
    w.b.mass(w.bob, 1.0)
    with pytest.raises(error, match=message):
        w.b.build().configuration(pose)


def test_names_made_from_coordinates_must_not_meet_others() -> None:
    b = sm.Builder("meeting")
    for name in ("r", "p_r"):
        b.mass(b.world.tx(b.coordinate(name)), 1.0)
    with pytest.raises(sm.ModelError, match="two states would be called 'p_r'"):
        b.build()
