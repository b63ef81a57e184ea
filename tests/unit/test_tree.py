"""Mechanisms as plain data: the same as built by hand, and errors that name file and entry."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from tests.mechanisms import generalized_force

PLACE = [[0.0, -1.0, 0.0, 0.1], [1.0, 0.0, 0.0, 0.2], [0.0, 0.0, 1.0, 0.3], [0.0, 0.0, 0.0, 1.0]]
TREE: dict[str, Any] = {
    "frames": [
        {"id": 0, "name": "World", "parent": None, "kind": "world"},
        {"id": 1, "name": "cart", "parent": 0, "kind": "tx", "config": "x", "mass": [2.0, 0.0, 0.0, 0.0]},
        {"id": 2, "name": None, "parent": 1, "kind": "rz", "config": "theta"},
        {"id": 3, "name": "bob", "parent": 2, "kind": "ty", "value": -1.0, "mass": [1.0, 0.1, 0.2, 0.25]},
        {"id": "tool", "parent": 3, "kind": "se3", "value": PLACE},
        {"id": 5, "name": "robot", "parent": 0, "kind": "ty", "value": 2},
    ],
    "dynamic": ["x", "theta"],
    "kinematic": ["r"],
    "inputs": ["push"],
    "constraints": [{"type": "Distance", "name": "string", "frame1": "tool", "frame2": 5, "length_config": "r"}],
    "potentials": [
        {"type": "Gravity", "gravity": [0.0, -9.8, 0.0]},
        {"type": "LinearSpring", "frame1": 5, "frame2": 3, "k": 4.0, "x0": 0.5},
        {"type": "ConfigSpring", "config": "theta", "k": 2.0, "q0": 0.3},
    ],
    "forces": [
        {"type": "Damping", "coeffs": {"x": 0.01, "theta": 0.02}},
        {"type": "ConfigForce", "config": "x", "input": "push"},
        {"type": "LinearDamper", "frame1": 5, "frame2": "tool", "c": 0.7},
    ],
}


def by_hand() -> sm.System:
    b = sm.Builder("by_hand")
    x, theta, r = b.coordinate("x"), b.coordinate("theta"), b.coordinate("r", kinematic=True)
    cart = b.world.tx(x)
    bob = cart.rz(theta).ty(-1.0)
    tool, robot = bob.fixed(PLACE), b.world.ty(2.0)
    b.mass(cart, 2.0)
    b.mass(bob, 1.0, inertia=(0.1, 0.2, 0.25))
    b.gravity((0, -9.8, 0))
    b.spring(robot, bob, stiffness=4.0, length=0.5)
    b.coordinate_spring(theta, stiffness=2.0, rest=0.3)
    b.damping(x, 0.01)
    b.damping(theta, 0.02)
    b.drive(x, b.input("push"))
    b.damper(robot, tool, 0.7)
    b.distance(tool, robot, r)
    return b.build()


def assert_same(one: sm.System, other: sm.System) -> None:
    q, v = np.random.default_rng(0).uniform(-1, 1, (2, 3))
    assert [(c.name, c.kinematic) for c in one.coordinates] == [(c.name, c.kinematic) for c in other.coordinates]
    assert one.kinetic_energy(q, v) == other.kinetic_energy(q, v)
    assert one.potential_energy(q) == other.potential_energy(q)
    np.testing.assert_array_equal(one.gaps(q), other.gaps(q))
    np.testing.assert_array_equal(generalized_force(one, q, v, [1.5]), generalized_force(other, q, v, [1.5]))


def test_data_and_builder_make_the_same_system() -> None:
    system = sm.from_tree(TREE)
    assert_same(system, by_hand())
    assert system.frame_names == ("world", "cart", "frame2", "bob", "frametool", "robot")
    assert system.constraint_names == ("string",)
    assert [(c.name, c.unit) for c in system.coordinates] == [("x", "m"), ("theta", "rad"), ("r", "m")]
    assert [i.name for i in system.inputs] == ["push"]


def test_a_file_is_its_content_and_names_the_system(tmp_path: Path) -> None:
    path = tmp_path / "crane.tree.json"
    path.write_text(json.dumps(TREE))
    for given in (path, str(path)):
        system = sm.from_tree(given)
        assert_same(system, sm.from_tree(TREE))
        assert system.name == "crane"
    assert sm.from_tree(TREE | {"name": "derrick"}).name == "derrick"


@pytest.mark.parametrize("seed", range(3))
def test_frames_may_stand_in_any_order(seed: int) -> None:
    shuffled = copy.deepcopy(TREE)
    random.Random(seed).shuffle(shuffled["frames"])
    assert shuffled["frames"] != TREE["frames"]
    assert_same(sm.from_tree(shuffled), sm.from_tree(TREE))


def test_a_long_chain_may_stand_in_reverse() -> None:
    """Deeper than Python's stack."""
    chain = [{"id": i, "parent": i - 1, "kind": "tx", "value": 0.001} for i in range(2000, 1, -1)]
    ends = [
        {"id": 2001, "parent": 2000, "kind": "tx", "value": 0.0, "mass": [1.0, 0.0, 0.0, 0.0]},
        {"id": 1, "parent": 0, "kind": "tx", "config": "x"},
        {"id": 0, "parent": None, "kind": "world"},
    ]
    system = sm.from_tree({"frames": [ends[0], *chain, *ends[1:]], "dynamic": ["x"]})
    np.testing.assert_allclose(system.positions([0.5])[-1], [0.5 + 1.999, 0.0, 0.0], rtol=1e-12)


def test_gravities_add_up() -> None:
    twice = copy.deepcopy(TREE)
    twice["potentials"][0]["gravity"] = [0.0, -4.8, 0.0]
    twice["potentials"].append({"type": "Gravity", "gravity": [0.0, -5.0, 0.0]})
    q = [0.1, 0.2, 0.3]
    assert sm.from_tree(twice).potential_energy(q) == pytest.approx(sm.from_tree(TREE).potential_energy(q), rel=1e-14)


def test_a_string_may_have_a_constant_length() -> None:
    tree = copy.deepcopy(TREE)
    del tree["constraints"][0]["length_config"]
    tree["constraints"][0]["distance"] = 1.5
    gap = sm.from_tree(tree).gaps([0.1, 0.2, 1.5])
    np.testing.assert_array_equal(gap, sm.from_tree(TREE).gaps([0.1, 0.2, 1.5]))


# errors ---------------------------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], Any]


def put(section: str, index: int, **values: Any) -> Change:
    return lambda tree: tree[section][index].update(values)


def drop(section: str, index: int, key: str) -> Change:
    return lambda tree: tree[section][index].pop(key)


MISTAKES: dict[str, tuple[Change, str]] = {
    "missing parent": (put("frames", 3, parent=9), r"frame 3: parent: there is no frame 9"),
    "no parent": (drop("frames", 3, "parent"), r"frame 3: 'parent' is missing"),
    "cyclic parents": (put("frames", 1, parent=3), r"frames: the parents of 1, 3, 2 form a circle"),
    "its own parent": (put("frames", 2, parent=2), r"the parents of 2 form a circle"),
    "parent of the world": (put("frames", 0, parent=1), r"frame 0: parent"),
    "parent of a wrong type": (put("frames", 1, parent=[0]), r"frame 1: parent: expected the id"),
    "two worlds": (put("frames", 1, kind="world", parent=None), r"exactly one must be of kind 'world', got 2"),
    "no world": (put("frames", 0, kind="tx", parent=5), r"exactly one must be of kind 'world', got 0"),
    "duplicate id": (put("frames", 4, id=3), r"frames\[4\]: id 3 is taken"),
    "no id": (drop("frames", 4, "id"), r"frames\[4\]: 'id' is missing"),
    "id of a wrong type": (put("frames", 4, id=1.5), r"frames\[4\]: id: expected"),
    "duplicate frame name": (put("frames", 5, name="bob"), r"frame 5: a frame called 'bob' exists"),
    "frame name of a wrong type": (put("frames", 5, name=7), r"frames\[5\]: name: expected a string"),
    "unknown kind": (put("frames", 2, kind="rw"), r"frame 2: kind: 'rw' is none of world, tx"),
    "no kind": (drop("frames", 2, "kind"), r"frame 2: 'kind' is missing"),
    "unknown config": (put("frames", 2, config="phi"), r"frame 2: config: there is no coordinate 'phi'; .*x, theta"),
    "config of a wrong type": (put("frames", 2, config=["x"]), r"frame 2: config: expected a string"),
    "config used twice": (put("frames", 2, config="x"), r"frame 2: coordinate 'x' already moves frame 'cart'"),
    "config and value": (put("frames", 2, value=1.0), r"frame 2: needs either 'config' or 'value'"),
    "neither config nor value": (drop("frames", 3, "value"), r"frame 3: needs either 'config' or 'value'"),
    "value of a wrong type": (put("frames", 3, value="-1"), r"frame 3: value: expected a finite number, got '-1'"),
    "value is true": (put("frames", 3, value=True), r"frame 3: value: expected a finite number"),
    "value not finite": (put("frames", 3, value=float("nan")), r"frame 3: value: expected a finite number"),
    "transform of three rows": (put("frames", 4, value=PLACE[:3]), r"frame 'tool': value: expected a 4x4"),
    "transform not rigid": (put("frames", 4, value=(2 * np.eye(4)).tolist()), r"frame 'tool': .*not a rigid"),
    "mass of three numbers": (put("frames", 3, mass=[1.0, 0, 0]), r"frame 3: mass: expected 4 numbers"),
    "mass is one number": (put("frames", 3, mass=1.0), r"frame 3: mass: expected 4 numbers"),
    "negative mass": (put("frames", 3, mass=[-1.0, 0, 0, 0]), r"mass on frame 'bob': must not be negative"),
    "misspelt key": (put("frames", 3, mas=[1.0, 0, 0, 0]), r"frames\[3\]: 'mas' means nothing here"),
    "frame is no object": (lambda t: t["frames"].append(7), r"frames\[6\]: expected an object, got 7"),
    "frames is no list": (lambda t: t.update(frames={}), r"frames: expected a list"),
    "no frames": (lambda t: t.pop("frames"), r"'frames' is missing"),
    "unknown section": (lambda t: t.update(springs=[]), r"'springs' means nothing here; known are frames"),
    "coordinate declared twice": (lambda t: t["kinematic"].append("x"), r"coordinate 'x' is declared twice"),
    "coordinate of a wrong type": (lambda t: t["dynamic"].append(3), r"dynamic: expected names, got 3"),
    "coordinate that moves nothing": (lambda t: t["dynamic"].append("idle"), r"moving 'idle' moves no mass"),
    "input declared twice": (lambda t: t["inputs"].append("push"), r"input 'push' is declared twice"),
    "unknown constraint": (put("constraints", 0, type="Weld"), r"constraints\[0\]: type: there is no type 'Weld'.*Dis"),
    "no type": (drop("constraints", 0, "type"), r"constraints\[0\]: 'type' is missing"),
    "constraint is no object": (lambda t: t["constraints"].append("rod"), r"constraints\[1\]: expected an object"),
    "unknown frame": (put("constraints", 0, frame2=8), r"constraints\[0\]: frame2: there is no frame 8"),
    "both lengths": (put("constraints", 0, distance=1.0), r"constraints\[0\]: needs either 'length_config' or 'dist"),
    "dynamic length": (put("constraints", 0, length_config="x"), r"constraints\[0\]: .*'x' is dynamic"),
    "string from a frame to itself": (put("constraints", 0, frame1=5), r"constraints\[0\]: .*both ends"),
    "gravity of two numbers": (put("potentials", 0, gravity=[0, -9.8]), r"potentials\[0\]: gravity: expected 3"),
    "spring of words": (put("potentials", 1, k="stiff"), r"potentials\[1\]: k: expected a finite number"),
    "spring on an unknown coordinate": (put("potentials", 2, config="z"), r"potentials\[2\]: config: .*'z'"),
    "unknown input": (put("forces", 1, input="pull"), r"forces\[1\]: input: there is no input 'pull'; there are push"),
    "force on a kinematic coordinate": (put("forces", 1, config="r"), r"forces\[1\]: .*'r' is kinematic"),
    "damping of an unknown coordinate": (put("forces", 0, coeffs={"z": 1.0}), r"forces\[0\]: coeffs: .*'z'"),
    "damping of words": (put("forces", 0, coeffs={"x": "low"}), r"forces\[0\]: x: expected a finite number"),
    "damping is a number": (put("forces", 0, coeffs=0.1), r"forces\[0\]: coeffs: expected an object"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_named_with_file_and_entry(mistake: str, tmp_path: Path) -> None:
    change, message = MISTAKES[mistake]
    tree = copy.deepcopy(TREE)
    change(tree)
    path = tmp_path / "crane.json"
    path.write_text(json.dumps(tree))
    with pytest.raises(sm.ModelError, match=message) as caught:
        sm.from_tree(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{\n "frames": [\n  {"id": 0,}\n ]\n}', r"crane\.json, line 3, column \d+: not JSON"),
        (b'{"frames": [', r"crane\.json, line 1, column \d+: not JSON"),
        (b"", r"crane\.json, line 1, column 1: not JSON"),
        (b"[1, 2]", r"crane\.json: expected an object, got \[1, 2\]"),
        (b"\xff\xfe{}", r"crane\.json: not a text file in UTF-8"),
    ],
)
def test_malformed_files_are_named_with_the_line(text: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "crane.json"
    path.write_bytes(text)
    with pytest.raises(sm.ModelError, match=message):
        sm.from_tree(path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(sm.ModelError, match=r"missing\.json: cannot be read .No such file"):
        sm.from_tree(tmp_path / "missing.json")
    with pytest.raises(sm.ModelError, match="cannot be read"):
        sm.from_tree(tmp_path)
