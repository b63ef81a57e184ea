"""The Builder: a mechanism written in a few lines, checked as it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import casadi as ca
import numpy as np

from stepmap.errors import ModelError
from stepmap.mechanics.bodies import Body, check_body
from stepmap.mechanics.constraints import Constraint, Distance, PointOnPlane, PointToPoint
from stepmap.mechanics.forces import Damper, Damping, Drive, Force, Wrench
from stepmap.mechanics.frames import Frame, motion
from stepmap.mechanics.gaps import String, contact
from stepmap.mechanics.potentials import CoordinateSpring, Potential, Spring
from stepmap.mechanics.quantity import Coordinate, Input, Parameter, Scalar, check_unit, number, scalar
from stepmap.mechanics.sensors import CoordinateSensor, Marker, Sensor
from stepmap.mechanics.system import System

Named = TypeVar("Named", Coordinate, Input, Frame)


class Builder:
    """Collects a mechanism; ``build()`` checks it as a whole and returns an immutable System."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ModelError("Builder: name must be a non-empty string")
        self.name = name
        self._coordinates: dict[str, Coordinate] = {}
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
        self._fresh(name, self._coordinates, "coordinate")
        _check_limits(low, high, f"coordinate {name!r}")
        check_unit(unit, f"coordinate {name!r}")
        made = Coordinate(name, bool(kinematic), unit, low, high, number(start, f"start of coordinate {name!r}"))
        self._coordinates[name] = made
        return made

    def input(self, name: str, *, unit: str = "", low: float | None = None, high: float | None = None) -> Input:
        """A force-like input, to be used by ``drive`` or a wrench."""
        self._fresh(name, self._inputs, "input")
        _check_limits(low, high, f"input {name!r}")
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

    # bodies and forces ------------------------------------------------------------------------------------------

    def mass(self, frame: Frame, mass: Scalar, inertia: Any = (0.0, 0.0, 0.0)) -> None:
        """A rigid body with its centre of mass at the frame: principal moments or a full 3x3 inertia."""
        body = check_body(self._own(frame, "mass"), mass, inertia)
        self._check_scalars(f"mass on frame {frame.name!r}", body.mass, body.inertia)
        self._bodies.append(body)

    def gravity(self, acceleration: Sequence[Scalar]) -> None:
        """Uniform gravity [m/s²] in world axes."""
        self._gravity = tuple(self._scalar(e, "gravity") for e in _three(acceleration, "gravity"))

    def spring(self, a: Frame, b: Frame, *, stiffness: Scalar, length: Scalar = 0.0) -> None:
        """A spring between the origins of two frames."""
        ends = self._pair(a, b, "spring")
        self._potentials.append(
            Spring(*ends, self._scalar(stiffness, "spring stiffness"), self._scalar(length, "spring length"))
        )

    def coordinate_spring(self, coordinate: Coordinate, *, stiffness: Scalar, rest: Scalar = 0.0) -> None:
        """A spring on one coordinate."""
        self._own_coordinate(coordinate, "coordinate_spring")
        self._potentials.append(
            CoordinateSpring(
                coordinate,
                self._scalar(stiffness, "coordinate_spring stiffness"),
                self._scalar(rest, "coordinate_spring rest"),
            )
        )

    def damper(self, a: Frame, b: Frame, coefficient: Scalar) -> None:
        """A damper along the line between the origins of two frames [N s/m]."""
        self._forces.append(Damper(*self._pair(a, b, "damper"), self._scalar(coefficient, "damper coefficient")))

    def damping(self, coordinate: Coordinate, coefficient: Scalar) -> None:
        """Generalized force −c q̇ on one coordinate."""
        self._own_coordinate(coordinate, "damping")
        self._forces.append(Damping(coordinate, self._scalar(coefficient, "damping coefficient")))

    def drive(self, coordinate: Coordinate, source: Input | Scalar) -> None:
        """An input, or a constant, as generalized force on a dynamic coordinate."""
        self._own_coordinate(coordinate, "drive")
        if coordinate.kinematic:
            raise ModelError(
                f"drive: coordinate {coordinate.name!r} is kinematic, a force on it would do nothing; "
                "its next value is already an input"
            )
        self._forces.append(Drive(coordinate, self._source(source, "drive")))

    def wrench(
        self,
        frame: Frame,
        *,
        force: Sequence[Input | Scalar] = (0.0, 0.0, 0.0),
        moment: Sequence[Input | Scalar] = (0.0, 0.0, 0.0),
        body: bool = True,
    ) -> None:
        """Force [N] and moment [N m] at a frame's origin, in its own axes (``body``) or the world's."""
        fx, fy, fz = (self._source(e, "wrench force") for e in _three(force, "wrench force"))
        mx, my, mz = (self._source(e, "wrench moment") for e in _three(moment, "wrench moment"))
        self._forces.append(Wrench(self._own(frame, "wrench"), (fx, fy, fz), (mx, my, mz), bool(body)))

    # constraints and sensors ------------------------------------------------------------------------------------

    def distance(self, a: Frame, b: Frame, length: Coordinate | Scalar, *, name: str | None = None) -> None:
        """|a − b| = length: a wire or a massless rod; ``length`` a kinematic coordinate or a number."""
        self._tie(Distance, a, b, length, name, "distance")

    def string(self, a: Frame, b: Frame, length: Coordinate | Scalar, name: str | None = None) -> None:
        """|a − b| ≤ length: a string that pulls, or goes slack; ``length`` as of ``distance``."""
        self._tie(String, a, b, length, name, "string")

    def contact(
        self,
        point: Frame,
        plane: Frame,
        restitution: float = 0.0,
        friction: float | None = None,
        name: str | None = None,
    ) -> None:
        """The origin of ``point`` stays where z ≥ 0 in the frame ``plane``, and leaves an impact with ``restitution``
        times its speed. It slides with ``friction=None`` and sticks with ``math.inf``."""
        ends = self._pair(point, plane, "contact")
        self._constraints.append(contact(self._label(name, "contact"), *ends, restitution, friction))

    def _tie(
        self, kind: type[Distance], a: Frame, b: Frame, length: Coordinate | Scalar, name: str | None, what: str
    ) -> None:
        ends = self._pair(a, b, what)
        label = self._label(name, what)
        self._constraints.append(kind(label, *ends, self._length(length, f"{what} {label!r}", positive=True)))

    def point_on_plane(
        self,
        plane: Frame,
        point: Frame,
        *,
        normal: Sequence[float],
        offset: Coordinate | Scalar = 0.0,
        name: str | None = None,
    ) -> None:
        """The point's height over a plane through ``plane``'s origin, along ``normal`` in its axes, is ``offset``."""
        direction = np.array([number(e, "point_on_plane normal") for e in _three(normal, "point_on_plane normal")])
        if not np.linalg.norm(direction) > 0:
            raise ModelError("point_on_plane: normal must not be zero")
        x, y, z = (float(e) for e in direction / np.linalg.norm(direction))
        ends = self._pair(plane, point, "point_on_plane")
        label = self._label(name, "plane")
        height = self._length(offset, f"point_on_plane {label!r}", positive=False)
        self._constraints.append(PointOnPlane(label, ends[0], (x, y, z), ends[1], height))

    def point_to_point(self, a: Frame, b: Frame, *, axes: str = "xyz", name: str | None = None) -> None:
        """The origins of two frames coincide in the given world axes (a planar loop needs only its two)."""
        ends = self._pair(a, b, "point_to_point")
        self._constraints.append(PointToPoint(self._label(name, "pin"), *ends, _check_axes(axes, "point_to_point")))

    def marker(self, frame: Frame, *, axes: str = "xyz", name: str | None = None) -> None:
        """A sensor of a frame's world position."""
        owner = self._own(frame, "marker")
        self._add_sensor(Marker(name or owner.name, owner, _check_axes(axes, "marker")))

    def encoder(self, coordinate: Coordinate, *, name: str | None = None) -> None:
        """A sensor of one coordinate."""
        self._own_coordinate(coordinate, "encoder")
        self._add_sensor(CoordinateSensor(name or coordinate.name, coordinate))

    def build(self) -> System:
        """The finished system; raises ModelError where it cannot move."""
        coordinates = sorted(self._coordinates.values(), key=lambda c: c.kinematic)  # stable: dynamic first
        return System(
            name=self.name,
            coordinates=tuple(coordinates),
            inputs=tuple(self._inputs.values()),
            parameters=tuple(self._parameters.values()),
            symbols=tuple(self._symbols.values()),
            frames=tuple(self._frames),
            bodies=tuple(self._bodies),
            gravity=self._gravity,
            potentials=tuple(self._potentials),
            forces=tuple(self._forces),
            constraints=tuple(self._constraints),
            sensors=tuple(self._sensors),
        )

    # checks -----------------------------------------------------------------------------------------------------

    def _add_frame(self, parent: Frame, kind: str, by: Any, name: str | None) -> Frame:
        self._own(parent, f"{kind} child")
        label = f"frame{len(self._frames)}" if name is None else name
        if not isinstance(label, str) or not label:
            raise ModelError(f"{kind} child: name must be a non-empty string, got {label!r}")
        if any(frame.name == label for frame in self._frames):
            raise ModelError(f"a frame called {label!r} exists already; frame names must be unique")
        move = motion(kind, by, f"frame {label!r}")
        if move.coordinate is not None:
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

    def _source(self, source: Input | Scalar, what: str) -> Input | ca.SX:
        if isinstance(source, Input):
            if self._inputs.get(source.name) is not source:
                raise ModelError(f"{what}: input {source.name!r} is unknown here; declare it with this builder")
            return source
        return self._scalar(source, what)

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
        known = {symbol.element_hash() for symbol in self._symbols.values()}
        for value in values:
            for symbol in ca.symvar(value):
                if symbol.element_hash() not in known:
                    raise ModelError(
                        f"{what}: {symbol} is not a parameter of this builder; make it with b.parameter(...)"
                    )

    def _label(self, name: str | None, kind: str) -> str:
        label = f"{kind}{len(self._constraints)}" if name is None else name
        if any(constraint.name == label for constraint in self._constraints):
            raise ModelError(f"a constraint called {label!r} exists already; constraint names must be unique")
        return label

    def _add_sensor(self, sensor: Sensor) -> None:
        if any(other.name == sensor.name for other in self._sensors):
            raise ModelError(f"a sensor called {sensor.name!r} exists already; pass another name=")
        self._sensors.append(sensor)


def _three(values: Sequence[Any], what: str) -> list[Any]:
    if not isinstance(values, Iterable) or isinstance(values, str) or len(made := list(values)) != 3:
        raise ModelError(f"{what}: expected three entries, got {values!r}")
    return made


def _check_limits(low: float | None, high: float | None, what: str) -> None:
    for side, value in (("low", low), ("high", high)):
        if value is not None:
            number(value, f"{side} of {what}")
    if low is not None and high is not None and not low < high:
        raise ModelError(f"{what}: low ({low}) must be below high ({high})")


def _check_axes(axes: str, what: str) -> str:
    if not isinstance(axes, str) or not axes or len(set(axes)) != len(axes) or not set(axes) <= set("xyz"):
        raise ModelError(f"{what}: axes must be letters of 'xyz', each once, got {axes!r}")
    return axes
