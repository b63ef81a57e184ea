"""A mechanism as plain data: a mapping, or the same in a JSON file.

    frames       {id, parent, kind, name?, mass?} with kind
                   world           the root, parent null
                   tx … rz         and ``config``, a coordinate's name, or ``value``, a fixed amount
                   se3             and ``value``, a 4x4 transform
                 mass is [m, Ixx, Iyy, Izz] at the frame
    dynamic      names of coordinates
    kinematic    names of coordinates
    inputs       names of inputs
    constraints  {type: Distance, frame1, frame2, length_config | distance}
    potentials   {type: Gravity, gravity}  {type: LinearSpring, frame1, frame2, k, x0}
                 {type: ConfigSpring, config, k, q0?}
    forces       {type: Damping, coeffs: {coordinate: c}}  {type: ConfigForce, config, input}
                 {type: LinearDamper, frame1, frame2, c}

Frames may stand in any order; constraints, springs and dampers name them by id. Sections but ``frames`` may be left
out. Any object may carry a ``name`` and a ``comment``; null is the same as leaving a key out; a key that means nothing
is an error, so that a misspelt one is not lost.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from stepmap.errors import ModelError
from stepmap.mechanics.builder import Builder
from stepmap.mechanics.frames import AXES, Frame
from stepmap.mechanics.quantity import Coordinate, Input
from stepmap.mechanics.system import System

Id: TypeAlias = int | str
Entry: TypeAlias = Mapping[str, Any]
Key = TypeVar("Key")
Value = TypeVar("Value")

ANYWHERE = {"type", "name", "comment"}
SECTIONS = ("frames", "dynamic", "kinematic", "inputs", "constraints", "potentials", "forces")


def from_tree(data: Mapping[str, Any] | str | os.PathLike[str]) -> System:
    """The system that plain data describe, or a JSON file of them; a ModelError names the file and the entry."""
    if isinstance(data, Mapping):
        return _assemble(data, "tree", "tree")
    path = Path(data)
    return _assemble(_read(path), str(path), path.name.removesuffix(".json").removesuffix(".tree"))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror})") from error
    except json.JSONDecodeError as error:
        raise ModelError(f"{path}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from error
    except RecursionError:
        raise ModelError(f"{path}: is nested too deeply to be read") from None
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: not a text file in UTF-8") from error


def _assemble(data: Any, where: str, name: str) -> System:
    with _within(where):
        data = _checked(data, SECTIONS)
        tree = _Tree(Builder(data.get("name", name)))
        frames = _identified(_section(data, "frames"))
        units = _units(frames.values())
        for kinematic, section in ((False, "dynamic"), (True, "kinematic")):
            for label in _names(data, section):
                made = tree.builder.coordinate(label, kinematic=kinematic, unit=units.get(label, "m" * kinematic))
                tree.coordinates[label] = made
        tree.inputs.update({label: tree.builder.input(label) for label in _names(data, "inputs")})
        for key in _parents_first(frames):
            with _within(f"frame {key!r}"):
                tree.frames[key] = _add_frame(tree, frames[key])
        for section, kinds in KINDS.items():
            for i, entry in enumerate(_section(data, section)):
                with _within(f"{section}[{i}]"):
                    _add(tree, entry, kinds)
        return tree.builder.build()


@dataclass(frozen=True)
class _Tree:
    """The mechanism so far, by the names the data use."""

    builder: Builder
    coordinates: dict[str, Coordinate] = field(default_factory=dict)
    inputs: dict[str, Input] = field(default_factory=dict)
    frames: dict[Id, Frame] = field(default_factory=dict)
    gravity: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    def frame(self, entry: Entry, key: str) -> Frame:
        return _known(self.frames, _id(entry, key), key, "frame")

    def coordinate(self, entry: Entry, key: str) -> Coordinate:
        return _known(self.coordinates, _text(entry, key), key, "coordinate")

    def ends(self, entry: Entry) -> tuple[Frame, Frame]:
        return self.frame(entry, "frame1"), self.frame(entry, "frame2")


# frames ---------------------------------------------------------------------------------------------------------


def _identified(entries: list[Any]) -> dict[Id, Entry]:
    frames: dict[Id, Entry] = {}
    for i, entry in enumerate(entries):
        with _within(f"frames[{i}]"):
            entry = _checked(entry, ("id", "parent", "kind", "config", "value", "mass"))
            key = _id(entry, "id")
            if key in frames:
                raise ModelError(f"id {key!r} is taken already; every frame needs its own")
            frames[key] = entry
    roots = sum(entry.get("kind") == "world" for entry in frames.values())
    if roots != 1:
        raise ModelError(f"frames: exactly one must be of kind 'world', got {roots}")
    return frames


def _parents_first(frames: Mapping[Id, Entry]) -> list[Id]:
    """The ids with each parent before its children, otherwise in the order given."""
    placed: dict[Id, None] = {}
    for key in frames:
        branch: dict[Id, None] = {}
        here: Id | None = key
        while here is not None and here not in placed:
            if here in branch:
                circle = list(branch)[list(branch).index(here) :]
                raise ModelError(f"frames: the parents of {', '.join(map(repr, circle))} form a circle")
            branch[here] = None
            here = _parent(frames, here)
        placed.update(dict.fromkeys(reversed(branch)))
    return list(placed)


def _parent(frames: Mapping[Id, Entry], key: Id) -> Id | None:
    entry = frames[key]
    with _within(f"frame {key!r}"):
        if entry.get("kind") == "world":
            if "parent" in entry:
                raise ModelError("parent: the frame of kind 'world' is the root and has none")
            return None
        parent = _id(entry, "parent")
        _known(frames, parent, "parent", "frame")
        return parent


def _add_frame(tree: _Tree, entry: Entry) -> Frame:
    kind = _text(entry, "kind")
    name = entry.get("name", f"frame{entry['id']}")
    if kind == "world":
        made = tree.builder.world
    elif kind in AXES:
        _one_of(entry, "config", "value")
        by = tree.coordinate(entry, "config") if "config" in entry else _number(entry, "value")
        made = getattr(tree.frame(entry, "parent"), kind)(by, name=name)
    elif kind == "se3":
        made = tree.frame(entry, "parent").fixed(_matrix(entry, "value"), name=name)
    else:
        raise ModelError(f"kind: {kind!r} is none of world, {', '.join(AXES)}, se3")
    if "mass" in entry:
        mass, *inertia = _numbers(entry, "mass", 4)
        tree.builder.mass(made, mass, inertia=inertia)
    return made


def _units(frames: Iterable[Entry]) -> dict[str, str]:
    """Units of the coordinates that move frames; the others are lengths of strings."""
    turning = {f"r{axis}" for axis in "xyz"}
    return {str(e["config"]): "rad" if e.get("kind") in turning else "m" for e in frames if "config" in e}


# constraints, potentials, forces --------------------------------------------------------------------------------


class _Kind(NamedTuple):
    keys: tuple[str, ...]
    add: Callable[[_Tree, Entry], None]


def _add(tree: _Tree, entry: Any, kinds: Mapping[str, _Kind]) -> None:
    if not isinstance(entry, Mapping):
        raise ModelError(f"expected an object, got {entry!r}")
    kind = _known(kinds, _text(entry, "type"), "type", "type")
    kind.add(tree, _checked(entry, kind.keys))


def _distance(tree: _Tree, entry: Entry) -> None:
    _one_of(entry, "length_config", "distance")
    moved = "length_config" in entry
    length = tree.coordinate(entry, "length_config") if moved else _number(entry, "distance")
    tree.builder.distance(*tree.ends(entry), length, name=entry.get("name"))


def _gravity(tree: _Tree, entry: Entry) -> None:
    """Several are one: their accelerations add."""
    for i, acceleration in enumerate(_numbers(entry, "gravity", 3)):
        tree.gravity[i] += acceleration
    tree.builder.gravity(tree.gravity)


def _linear_spring(tree: _Tree, entry: Entry) -> None:
    tree.builder.spring(*tree.ends(entry), stiffness=_number(entry, "k"), length=_number(entry, "x0"))


def _config_spring(tree: _Tree, entry: Entry) -> None:
    rest = _number(entry, "q0") if "q0" in entry else 0.0
    tree.builder.coordinate_spring(tree.coordinate(entry, "config"), stiffness=_number(entry, "k"), rest=rest)


def _damping(tree: _Tree, entry: Entry) -> None:
    coefficients = _get(entry, "coeffs")
    if not isinstance(coefficients, Mapping):
        raise ModelError(f"coeffs: expected an object of coordinates and numbers, got {coefficients!r}")
    for name in coefficients:
        coordinate = _known(tree.coordinates, name, "coeffs", "coordinate")
        tree.builder.damping(coordinate, _number(coefficients, name))


def _config_force(tree: _Tree, entry: Entry) -> None:
    source = _known(tree.inputs, _text(entry, "input"), "input", "input")
    tree.builder.drive(tree.coordinate(entry, "config"), source)


def _linear_damper(tree: _Tree, entry: Entry) -> None:
    tree.builder.damper(*tree.ends(entry), _number(entry, "c"))


KINDS: Mapping[str, Mapping[str, _Kind]] = {
    "constraints": {"Distance": _Kind(("frame1", "frame2", "length_config", "distance"), _distance)},
    "potentials": {
        "Gravity": _Kind(("gravity",), _gravity),
        "LinearSpring": _Kind(("frame1", "frame2", "k", "x0"), _linear_spring),
        "ConfigSpring": _Kind(("config", "k", "q0"), _config_spring),
    },
    "forces": {
        "Damping": _Kind(("coeffs",), _damping),
        "ConfigForce": _Kind(("config", "input"), _config_force),
        "LinearDamper": _Kind(("frame1", "frame2", "c"), _linear_damper),
    },
}


# checks ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _within(what: str) -> Iterator[None]:
    """Says in a ModelError where in the data it arose."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{what}: {error}") from error


def _checked(entry: Any, keys: tuple[str, ...]) -> Entry:
    """The object without its nulls, once it is one and all its keys are known."""
    if not isinstance(entry, Mapping):
        raise ModelError(f"expected an object, got {entry!r:.60}")
    for key in entry:
        if key not in keys and key not in ANYWHERE:
            raise ModelError(f"{key!r} means nothing here; known are {', '.join(keys)}")
    kept = {key: value for key, value in entry.items() if value is not None}
    if "name" in kept:
        _text(kept, "name")
    return kept


def _section(data: Entry, key: str) -> list[Any]:
    entries = _get(data, key) if key == "frames" else data.get(key, [])
    if not isinstance(entries, (list, tuple)):
        raise ModelError(f"{key}: expected a list, got {entries!r:.60}")
    return list(entries)


def _names(data: Entry, key: str) -> list[str]:
    names = _section(data, key)
    for name in names:
        if not isinstance(name, str):
            raise ModelError(f"{key}: expected names, got {name!r}")
    return names


def _known(there: Mapping[Key, Value], name: Key, key: str, kind: str) -> Value:
    if name not in there:
        raise ModelError(f"{key}: there is no {kind} {name!r}; there are {', '.join(map(str, there)) or 'none'}")
    return there[name]


def _one_of(entry: Entry, *keys: str) -> None:
    if sum(key in entry for key in keys) != 1:
        raise ModelError(f"needs either {' or '.join(map(repr, keys))}")


def _get(entry: Entry, key: str) -> Any:
    if key not in entry:
        raise ModelError(f"{key!r} is missing")
    return entry[key]


def _id(entry: Entry, key: str) -> Id:
    value = _get(entry, key)
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ModelError(f"{key}: expected the id of a frame, a whole number or a string, got {value!r}")
    return value


def _text(entry: Entry, key: str) -> str:
    value = _get(entry, key)
    if not isinstance(value, str) or not value:
        raise ModelError(f"{key}: expected a string, got {value!r}")
    return value


def _number(entry: Entry, key: str) -> float:
    return _as_number(_get(entry, key), key)


def _numbers(entry: Entry, key: str, size: int) -> list[float]:
    values = _get(entry, key)
    if not isinstance(values, (list, tuple)) or len(values) != size:
        raise ModelError(f"{key}: expected {size} numbers, got {values!r}")
    return [_as_number(value, key) for value in values]


def _matrix(entry: Entry, key: str) -> list[list[float]]:
    rows = _get(entry, key)
    if not isinstance(rows, (list, tuple)) or len(rows) != 4:
        raise ModelError(f"{key}: expected a 4x4 matrix, got {rows!r}")
    return [_numbers({key: row}, key, 4) for row in rows]


def _as_number(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ModelError(f"{key}: expected a finite number, got {value!r}")
    return float(value)
