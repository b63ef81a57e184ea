"""Strings and contacts as elements of a mechanism: what they are, and answers to bad input."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import stepmap as sm
from stepmap.mechanics.constraints import Row


def hanging(length: object = 1.0) -> tuple[sm.Builder, object, object]:
    """A point mass in space under a hook that moves along z."""
    b = sm.Builder("hanging")
    x, y, z = (b.coordinate(n, unit="m") for n in "xyz")
    top = b.coordinate("top", unit="m", kinematic=True)
    bob = b.world.tx(x).ty(y).tz(z, name="bob")
    hook = b.world.tz(top, name="hook")
    b.mass(bob, 0.5)
    b.gravity((0, 0, -9.81))
    return b, bob, hook


def on_ground(**options: object) -> sm.System:
    b, bob, _ = hanging()
    b.contact(bob, b.world, name="ground", **options)  # type: ignore[arg-type]
    return b.build()


def test_a_string_is_a_gap_in_metres_and_pulls() -> None:
    b, bob, hook = hanging()
    b.string(hook, bob, 1.5, name="line")  # type: ignore[arg-type]
    system = b.build()
    assert system.constraint_names == system.gap_names == ("line",)
    assert system.constraint_rows == (Row.GAP,)
    pose = {"z": -1.0, "top": 0.25}
    assert system.gaps(system.configuration(pose)) == pytest.approx([1.25 - 1.5])
    system.require_on_constraints(system.configuration(pose))  # slack is fine


def test_a_contact_is_admissible_above_its_plane_and_names_its_normal_row() -> None:
    slides, sticks = on_ground(), on_ground(friction=math.inf)
    assert slides.constraint_names == slides.gap_names == ("ground",)
    assert sticks.constraint_names == ("ground", "ground.x", "ground.y")
    assert sticks.gap_names == ("ground",)
    assert sticks.constraint_rows == (Row.GAP, Row.TANGENT, Row.TANGENT)
    q = sticks.configuration({"x": 0.3, "y": -2.0, "z": 0.7})
    assert sticks.gaps(q) == pytest.approx([-0.7, 0.0, 0.0])
    assert sticks.residuals(q) == pytest.approx([-0.7, 0.3, -2.0])
    sticks.require_on_constraints(q)


def test_a_contact_with_a_plane_that_is_turned_and_moved() -> None:
    b, bob, _ = hanging()
    plane = b.world.tz(0.5).ry(math.pi / 6, name="slope")
    b.contact(bob, plane)  # type: ignore[arg-type]
    system = b.build()
    normal = np.array([math.sin(math.pi / 6), 0.0, math.cos(math.pi / 6)])
    place = np.array([0.4, 1.0, 2.0])
    assert system.gaps([*place, 0.0]) == pytest.approx([-normal @ (place - [0, 0, 0.5])])
    assert system.gap_names == ("contact0",)


def test_a_pose_beyond_a_gap_is_refused_and_can_be_put_right() -> None:
    b, bob, hook = hanging()
    b.string(hook, bob, 1.0, name="line")  # type: ignore[arg-type]
    system = b.build()
    with pytest.raises(sm.ModelError, match=r"beyond gap 'line' by 0.2 m; .*satisfy_constraints.*open gap is fine"):
        system.require_on_constraints(system.configuration({"z": -1.2}))
    system.require_on_constraints(system.configuration({"z": -1.0 - 0.9e-6}))
    q = system.satisfy_constraints({"z": -1.2}, fixed=["top"])
    assert system.gaps(q) == pytest.approx([0.0], abs=1e-12)
    slack = system.configuration({"z": -0.4})
    assert np.array_equal(system.satisfy_constraints(slack), slack)


@pytest.mark.parametrize("length", [0.0, -1.0])
def test_a_length_is_positive(length: float) -> None:
    b, bob, hook = hanging()
    with pytest.raises(sm.ModelError, match="string 'line': length must be positive"):
        b.string(hook, bob, length, name="line")  # type: ignore[arg-type]


def test_a_length_is_kinematic_or_a_number() -> None:
    b, bob, hook = hanging()
    long = b.coordinate("long", unit="m")
    with pytest.raises(sm.ModelError, match="'long' is dynamic"):
        b.string(hook, bob, long)  # type: ignore[arg-type]
    with pytest.raises(sm.ModelError, match="both ends"):
        b.string(bob, bob, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("restitution", [-0.1, 1.1, math.nan, "much"])
def test_restitution_is_between_0_and_1(restitution: object) -> None:
    with pytest.raises(sm.ModelError, match="restitution of contact 'ground'"):
        on_ground(restitution=restitution)


@pytest.mark.parametrize("friction", [-0.1, -math.inf, math.nan, "much"])
def test_friction_is_not_negative(friction: object) -> None:
    with pytest.raises(sm.ModelError, match="friction of contact 'ground'"):
        on_ground(friction=friction)


def test_finite_friction_is_refused_with_what_there_is() -> None:
    with pytest.raises(sm.ModelError, match=r"finite coefficient \(0.6\) is not supported; None slides, math.inf") as e:
        on_ground(friction=0.6)
    assert "outside_cone" in e.value.hint


@pytest.mark.parametrize("kind", ["world", "kinematic", "contact"])
def test_a_gap_that_nothing_moves_is_refused(kind: str) -> None:
    b, _, hook = hanging()
    if kind == "contact":
        b.contact(hook, b.world, name="idle")  # type: ignore[arg-type]
    else:
        there = b.world.tx(1.0, name="there")
        b.string(b.world if kind == "world" else hook, there, 2.0, name="idle")  # type: ignore[arg-type]
    with pytest.raises(sm.ModelError, match="no dynamic coordinate moves gap 'idle'"):
        b.build()


def test_names_are_unique_and_systems_are_pickled() -> None:
    b, bob, hook = hanging()
    b.string(hook, bob, 1.0, name="line")  # type: ignore[arg-type]
    with pytest.raises(sm.ModelError, match="'line' exists already"):
        b.contact(bob, b.world, name="line")  # type: ignore[arg-type]
    system = b.build()
    again = pickle.loads(pickle.dumps(system))
    q = system.configuration({"x": 0.1, "z": -0.7})
    assert again.gap_names == ("line",)
    assert np.array_equal(again.gaps(q), system.gaps(q))
