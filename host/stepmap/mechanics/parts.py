"""What a builder has been given so far, each part checked as it comes: names, frames, and whose they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import casadi as ca

from stepmap.errors import ModelError
from stepmap.mechanics.bodies import Body
from stepmap.mechanics.constraints import Constraint
from stepmap.mechanics.elements.rotor import Rotor
from stepmap.mechanics.forces import Force, Triple
from stepmap.mechanics.frames import Frame, Joint, motion, starting_place, starting_turn
from stepmap.mechanics.potentials import Potential
from stepmap.mechanics.quantity import (
    Ball,
    Coordinate,
    Input,
    Parameter,
    Scalar,
    Source,
    check_limits,
    check_unit,
    number,
    scalar,
    three,
)
from stepmap.mechanics.sensors import Sensor


class Parts:
    """Names and frames of a mechanism, and the checks of all that refers to them."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ModelError("Builder: name must be a non-empty string")
        self.name = name
        self._coordinates: dict[str, Coordinate] = {}
        self._balls: dict[str, Ball] = {}
        self._inputs: dict[str, Input] = {}
        self._parameters: dict[str, Parameter] = {}
        self._symbols: dict[str, ca.SX] = {}
        self._frames: list[Frame] = []
        self._moved: dict[str, str] = {}  # coordinate -> the frame it moves
        self._bodies: list[Body] = []
        self._gravity: tuple[ca.SX, ...] = (ca.SX(0),) * 3
        self._potentials: list[Potential] = []
        self._forces: list[Force] = []
        self._constraints: list[Constraint] = []
        self._sensors: list[Sensor] = []
        self._rotors: list[Rotor] = []
        self.left_out: list[str] = []
        self.world = Frame(0, "world", None, None, self._add_frame)
        self._frames.append(self.world)

    # names ------------------------------------------------------------------------------------------------------

    def coordinate(
        self,
        name: str,
        *,
        unit: str = "",
        kinematic: bool = False,
        low: float | None = None,
        high: float | None = None,
        start: float = 0.0,
    ) -> Coordinate:
        """A generalized coordinate. ``start`` is its value where a pose does not name it."""
        self._fresh(name, {**self._balls, **self._coordinates}, "coordinate")
        check_limits(low, high, f"coordinate {name!r}")
        check_unit(unit, f"coordinate {name!r}")
        made = Coordinate(name, bool(kinematic), unit, low, high, number(start, f"start of coordinate {name!r}"))
        self._coordinates[name] = made
        return made

    def input(self, name: str, *, unit: str = "", low: float | None = None, high: float | None = None) -> Input:
        """A force-like input, to be used by ``drive`` or a wrench."""
        self._fresh(name, self._inputs, "input")
        check_limits(low, high, f"input {name!r}")
        made = Input(name, len(self._inputs), unit, low, high)
        self._inputs[name] = made
        return made

    def parameter(self, name: str, value: float, *, unit: str = "") -> ca.SX:
        """A named number, usable wherever a number is, also in expressions (``-length / 2``)."""
        self._fresh(name, self._parameters, "parameter")
        self._parameters[name] = Parameter(name, len(self._parameters), number(value, f"parameter {name!r}"), unit)
        self._symbols[name] = ca.SX.sym(name)
        return self._symbols[name]

    def frame(self, name: str) -> Frame:
        """The frame of that name."""
        for frame in self._frames:
            if frame.name == name:
                return frame
        raise ModelError(f"no frame is called {name!r}; there are {', '.join(f.name for f in self._frames)}")

    # checks -----------------------------------------------------------------------------------------------------

    def _add_frame(self, parent: Frame, kind: str, by: Any, name: str | None) -> Frame:
        self._own(parent, f"{kind} child")
        if kind == "free":
            return self._add_free(parent, by, name)
        if kind == "ball":
            by = self._add_ball(by)
            name = by.name if name is None else name
        label = f"frame{len(self._frames)}" if name is None else name
        if not isinstance(label, str) or not label:
            raise ModelError(f"{kind} child: name must be a non-empty string, got {label!r}")
        if any(frame.name == label for frame in self._frames):
            raise ModelError(f"a frame called {label!r} exists already; frame names must be unique")
        move = motion(kind, by, f"frame {label!r}")
        if isinstance(move.coordinate, Ball):
            pass  # it was made for this frame
        elif move.coordinate is not None:
            self._own_coordinate(move.coordinate, f"frame {label!r}")
            taken = self._moved.setdefault(move.coordinate.name, label)
            if taken != label:
                raise ModelError(
                    f"coordinate {move.coordinate.name!r} already moves frame {taken!r} and cannot move {label!r} too; "
                    "declare a second coordinate and tie the two with a constraint"
                )
        elif kind != "se3":
            self._check_scalars(f"frame {label!r}", move.value)
        else:
            self._check_scalars(f"frame {label!r}", *move.value)
        frame = Frame(len(self._frames), label, parent, move, self._add_frame)
        self._frames.append(frame)
        return frame

    def _add_ball(self, joint: Joint) -> Ball:
        """The ball of a new joint, and its coordinates."""
        self._fresh(joint.name, {**self._balls, **self._coordinates}, "ball")
        if joint.speed is not None and not number(joint.speed, f"speed of {joint.name!r}") > 0:
            raise ModelError(f"speed of {joint.name!r}: must be positive [rad/s], got {joint.speed}")
        turn = starting_turn(joint.start, f"start of {joint.name!r}")
        entries = tuple(
            self.coordinate(f"{joint.name}.{e}", low=-1.0, high=1.0, start=s) for e, s in zip("wxyz", turn, strict=True)
        )
        made = Ball(joint.name, entries, joint.place, joint.speed)
        self._balls[joint.name] = made
        return made

    def _add_free(self, parent: Frame, joint: Joint, name: str | None) -> Frame:
        """Three frames that slide, and the ball that turns on the last of them."""
        self._fresh(joint.name, {**self._balls, **self._coordinates}, "free body")
        ends = [
            [None] * 3 if end is None else three(end, f"{side} of {joint.name!r}")
            for side, end in (("low", joint.low), ("high", joint.high))
        ]
        start, turn = starting_place(joint.start, f"start of {joint.name!r}")
        x, y, z = place = tuple(
            self.coordinate(f"{joint.name}.t{axis}", unit="m", low=low, high=high, start=at)
            for axis, low, high, at in zip("xyz", *ends, start, strict=True)
        )
        return self._add_frame(
            parent.tx(x).ty(y).tz(z), "ball", dataclasses.replace(joint, place=place, start=turn), name
        )

    def _own_ball(self, frame: Frame, what: str) -> Ball:
        moves = self._own(frame, what).motion
        if moves is None or not isinstance(moves.coordinate, Ball):
            raise ModelError(
                f"{what}: no ball turns frame {frame.name!r}; give a coordinate, or what .ball() or .free() returned"
            )
        return moves.coordinate

    def _fresh(self, name: str, taken: dict[str, Any], kind: str) -> None:
        if not isinstance(name, str) or not name:
            raise ModelError(f"{kind}: name must be a non-empty string, got {name!r}")
        if name in taken:
            raise ModelError(f"{kind} {name!r} is declared twice; give the second one another name")

    def _own(self, frame: Frame, what: str) -> Frame:
        if not isinstance(frame, Frame):
            raise ModelError(f"{what}: expected a frame, got {type(frame).__name__}")
        if frame.index >= len(self._frames) or self._frames[frame.index] is not frame:
            raise ModelError(f"{what}: frame {frame.name!r} belongs to another builder; make it from this one's world")
        return frame

    def _own_coordinate(self, coordinate: Coordinate, what: str) -> None:
        if not isinstance(coordinate, Coordinate):
            raise ModelError(f"{what}: expected a coordinate from b.coordinate(...), got {coordinate!r}")
        if self._coordinates.get(coordinate.name) is not coordinate:
            raise ModelError(f"{what}: coordinate {coordinate.name!r} is unknown here; declare it with this builder")

    def _pair(self, a: Frame, b: Frame, what: str) -> tuple[Frame, Frame]:
        self._own(a, what), self._own(b, what)
        if a is b:
            raise ModelError(f"{what}: both ends are frame {a.name!r}; it needs two different frames")
        return a, b

    def _source(self, source: Source, what: str) -> Input | ca.SX:
        """An input itself, or an expression of inputs, coordinates, their rates and parameters."""
        if isinstance(source, Input):
            if self._inputs.get(source.name) is not source:
                raise ModelError(f"{what}: input {source.name!r} is unknown here; declare it with this builder")
            return source
        if isinstance(source, Coordinate):
            self._own_coordinate(source, what)
            return source.symbol
        made = scalar(source, what)
        for symbol in _unknown(made, [*self._symbols.values(), *(s for s, _ in self._moving())]):
            raise ModelError(
                f"{what}: {symbol} is no input, coordinate or parameter of this builder",
                hint="Declare it with b.input(...), b.coordinate(...) or b.parameter(...).",
            )
        return made

    def _sources(self, values: Sequence[Source], what: str) -> Triple:
        x, y, z = (self._source(e, what) for e in three(values, what))
        return x, y, z

    def _moving(self) -> Iterator[tuple[ca.SX, str]]:
        """Symbols of what changes in time, and what each is."""
        yield from ((i.symbol, "an input") for i in self._inputs.values())
        for coordinate in self._coordinates.values():
            yield coordinate.symbol, "a coordinate"
            yield coordinate.rate, "the rate of a coordinate"

    def _length(self, length: Coordinate | Scalar, what: str, *, positive: bool) -> Coordinate | ca.SX:
        if isinstance(length, Coordinate):
            self._own_coordinate(length, what)
            if not length.kinematic:
                raise ModelError(
                    f"{what}: coordinate {length.name!r} is dynamic and has no mass as a length; "
                    "declare it with kinematic=True"
                )
            return length
        value = self._scalar(length, what)
        if positive and value.is_constant() and float(value) <= 0:
            raise ModelError(f"{what}: length must be positive, got {float(value)}; use point_to_point to join points")
        return value

    def _scalar(self, value: Scalar, what: str) -> ca.SX:
        made = scalar(value, what)
        self._check_scalars(what, made)
        return made

    def _check_scalars(self, what: str, *values: ca.SX) -> None:
        for value in values:
            for symbol in _unknown(value, self._symbols.values()):
                kinds = {moving.element_hash(): kind for moving, kind in self._moving()}
                kind = kinds.get(symbol.element_hash())
                if kind is not None:
                    raise ModelError(f"{what}: {symbol} is {kind}; only numbers and parameters can stand here")
                raise ModelError(f"{what}: {symbol} is not a parameter of this builder; make it with b.parameter(...)")

    def _label(self, name: str | None, kind: str) -> str:
        label = f"{kind}{len(self._constraints)}" if name is None else name
        if any(constraint.name == label for constraint in self._constraints):
            raise ModelError(f"a constraint called {label!r} exists already; constraint names must be unique")
        return label

    def _add_sensor(self, sensor: Sensor) -> None:
        if any(other.name == sensor.name for other in self._sensors):
            raise ModelError(f"a sensor called {sensor.name!r} exists already; pass another name=")
        self._sensors.append(sensor)


def _unknown(value: ca.SX, known: Iterable[ca.SX]) -> Iterator[ca.SX]:
    """Symbols of an expression that are not among those known."""
    hashes = {symbol.element_hash() for symbol in known}
    yield from (symbol for symbol in ca.symvar(value) if symbol.element_hash() not in hashes)
