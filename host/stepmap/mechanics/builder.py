"""The Builder: a mechanism written in a few lines, checked as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from stepmap.errors import ModelError
from stepmap.mechanics.bodies import ROUNDED, check_body
from stepmap.mechanics.constraints import Distance, PointOnPlane, PointToPoint
from stepmap.mechanics.elements.coupling import Coupling
from stepmap.mechanics.elements.rotor import Rotor
from stepmap.mechanics.elements.tendon import ElasticTendon, JointTendon, PulledTendon, Tendon
from stepmap.mechanics.forces import BallDamping, BallDrive, Damper, Damping, Drive, Moment, Wrench
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.gaps import String, contact
from stepmap.mechanics.parts import Parts
from stepmap.mechanics.potentials import CoordinateSpring, Spring
from stepmap.mechanics.quantity import Coordinate, Input, Scalar, Source, check_axes, number, three
from stepmap.mechanics.sensors import CoordinateSensor, Direction, Gyro, Marker
from stepmap.mechanics.system import System


class Builder(Parts):
    """Collects a mechanism; ``build()`` checks it as a whole and returns an immutable System."""

    # bodies and forces ------------------------------------------------------------------------------------------

    def mass(self, frame: Frame, mass: Scalar, inertia: Any = (0.0, 0.0, 0.0), *, rounded: float = ROUNDED) -> None:
        """A rigid body with its centre of mass at the frame: principal moments or a full 3x3 inertia.

        A moment may exceed the sum of the other two by a part ``rounded`` of it, as those from tables do.
        """
        body = check_body(self._own(frame, "mass"), mass, inertia, rounded)
        self._check_scalars(f"mass on frame {frame.name!r}", body.mass, body.inertia)
        self._bodies.append(body)

    def gravity(self, acceleration: Sequence[Scalar]) -> None:
        """Uniform gravity [m/s²] in world axes."""
        self._gravity = tuple(self._scalar(e, "gravity") for e in three(acceleration, "gravity"))

    def spring(self, a: Frame, b: Frame, *, stiffness: Scalar, length: Scalar = 0.0) -> None:
        """A spring between the origins of two frames."""
        ends = self._pair(a, b, "spring")
        self._potentials.append(
            Spring(*ends, self._scalar(stiffness, "spring stiffness"), self._scalar(length, "spring length"))
        )

    def coordinate_spring(
        self, coordinate: Coordinate | Sequence[tuple[Coordinate, float]], *, stiffness: Scalar, rest: Scalar = 0.0
    ) -> None:
        """A spring on one coordinate, or on a sum of some: pairs of coordinate and weight."""
        firm = self._scalar(stiffness, "coordinate_spring stiffness")
        still = self._scalar(rest, "coordinate_spring rest")
        if isinstance(coordinate, Coordinate):
            self._own_coordinate(coordinate, "coordinate_spring")
            self._potentials.append(CoordinateSpring(coordinate, firm, still))
            return
        pairs = tuple((c, number(weight, "weight of coordinate_spring")) for c, weight in coordinate)
        for c, _ in pairs:
            self._own_coordinate(c, "coordinate_spring")
        self._potentials.append(JointTendon(pairs, firm, still))

    def damper(self, a: Frame, b: Frame, coefficient: Scalar) -> None:
        """A damper along the line between the origins of two frames [N s/m]."""
        self._forces.append(Damper(*self._pair(a, b, "damper"), self._scalar(coefficient, "damper coefficient")))

    def damping(self, coordinate: Coordinate | Frame, coefficient: Scalar) -> None:
        """Generalized force −c q̇ on one coordinate, or moment −c ω on what a ball turns, against its parent."""
        amount = self._scalar(coefficient, "damping coefficient")
        if isinstance(coordinate, Frame):
            self._forces.append(BallDamping(self._own_ball(coordinate, "damping"), amount))
            return
        self._own_coordinate(coordinate, "damping")
        self._forces.append(Damping(coordinate, amount))

    def rotor(self, joint: Coordinate | Frame, inertia: Scalar) -> None:
        """Inertia that moves with one coordinate alone, or with what a ball turns: a motor's rotor behind its gear, as
        the joint feels it [kg m², kg]."""
        amount = self._scalar(inertia, "rotor inertia")
        if amount.is_constant() and float(amount) < 0:
            raise ModelError(f"rotor: inertia must not be negative, got {float(amount):g}")
        if isinstance(joint, Frame):
            self._rotors.append(Rotor(self._own_ball(joint, "rotor"), amount))
            return
        self._own_coordinate(joint, "rotor")
        self._rotors.append(Rotor(joint, amount))

    def drive(self, coordinate: Coordinate | Frame, source: Source) -> None:
        """An input, a constant or an expression (``lift * sm.sin(pitch)``) as force on a dynamic coordinate.

        On the frame of a ball, three of them: a moment [N m] in that frame's axes, and its reaction on the parent.
        """
        if isinstance(coordinate, Frame):
            moment = self._sources(source, "drive of a ball")
            self._forces.append(BallDrive(self._own_ball(coordinate, "drive"), moment))
            return
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
        force: Sequence[Source] = (0.0, 0.0, 0.0),
        moment: Sequence[Source] = (0.0, 0.0, 0.0),
        body: bool = True,
    ) -> None:
        """Force [N] and moment [N m] at a frame's origin, in its own axes (``body``) or the world's."""
        forces, moments = self._sources(force, "wrench force"), self._sources(moment, "wrench moment")
        self._forces.append(Wrench(self._own(frame, "wrench"), forces, moments, bool(body)))

    def moment(self, child: Frame, parent: Frame, moment: Sequence[Source]) -> None:
        """A moment [N m] on a frame, in its own axes, with the reaction on another: a motor between two links."""
        ends = self._pair(child, parent, "moment")
        self._forces.append(Moment(*ends, self._sources(moment, "moment")))

    # constraints and sensors ------------------------------------------------------------------------------------

    def distance(self, a: Frame, b: Frame, length: Coordinate | Scalar, *, name: str | None = None) -> None:
        """|a − b| = length: a wire or a massless rod; ``length`` a kinematic coordinate or a number."""
        self._tie(Distance, a, b, length, name, "distance")

    def string(self, a: Frame, b: Frame, length: Coordinate | Scalar, name: str | None = None) -> None:
        """|a − b| ≤ length: a string that pulls, or goes slack; ``length`` as of ``distance``."""
        self._tie(String, a, b, length, name, "string")

    def tendon(
        self,
        path: Sequence[Frame],
        *,
        tension: Source | None = None,
        length: Coordinate | Scalar | None = None,
        stiffness: Scalar | None = None,
        name: str | None = None,
    ) -> None:
        """A cable through the origins of frames, which only pulls.

        With ``tension`` [N] it is pulled by an input, limited from below by 0, or an expression; with ``length``, a
        kinematic coordinate or a number, it is a string with via-points; with ``stiffness`` [N/m] too, it is elastic
        and ``length`` is that at rest.
        """
        frames = tuple(self._own(frame, "tendon") for frame in path)
        if len(frames) < 2 or any(a is b for a, b in pairwise(frames)):
            raise ModelError("tendon: expected two or more frames, each different from the one before")
        if (tension is None) == (length is None):
            raise ModelError("tendon: give either tension, or length (with stiffness where it is elastic)")
        if tension is not None:
            if stiffness is not None:
                raise ModelError("tendon: stiffness goes with length; a given tension does not stretch it")
            if isinstance(tension, Input) and (tension.low is None or tension.low < 0):
                raise ModelError(f"tendon: input {tension.name!r} may push; give it low=0.0 or more, tendons only pull")
            self._forces.append(PulledTendon(frames, self._source(tension, "tendon tension")))
            return
        label = self._label(name, "tendon")
        extent = self._length(length, f"tendon {label!r}", positive=True)
        if stiffness is None:
            self._constraints.append(Tendon(label, frames, extent))
            return
        firm = self._scalar(stiffness, f"stiffness of tendon {label!r}")
        if firm.is_constant() and float(firm) <= 0:
            raise ModelError(f"tendon {label!r}: stiffness must be positive, got {float(firm):g}")
        self._potentials.append(ElasticTendon(frames, firm, extent))

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
        direction = np.array([number(e, "point_on_plane normal") for e in three(normal, "point_on_plane normal")])
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
        self._constraints.append(PointToPoint(self._label(name, "pin"), *ends, check_axes(axes, "point_to_point")))

    def couple(
        self,
        follower: Coordinate,
        leader: Coordinate,
        *,
        ratio: float = 1.0,
        offset: float = 0.0,
        higher: Sequence[float] = (),
        rest: float = 0.0,
        name: str | None = None,
    ) -> None:
        """follower = offset + ratio · d, d = leader − rest: a gear, a belt, a finger that mimics another.

        ``higher`` are coefficients of d², d³ and so on, as of a linkage.
        """
        for coordinate in (follower, leader):
            self._own_coordinate(coordinate, "couple")
        if follower is leader:
            raise ModelError(f"couple: coordinate {follower.name!r} cannot follow itself")
        coefficients = tuple(number(e, "couple") for e in (offset, ratio, *higher))
        label = self._label(name, "coupling")
        self._constraints.append(Coupling(label, follower, leader, coefficients, number(rest, "rest of couple")))

    def marker(self, frame: Frame, *, axes: str = "xyz", name: str | None = None) -> None:
        """A sensor of a frame's world position."""
        owner = self._own(frame, "marker")
        self._add_sensor(Marker(name or owner.name, owner, check_axes(axes, "marker")))

    def encoder(self, coordinate: Coordinate, *, name: str | None = None) -> None:
        """A sensor of one coordinate."""
        self._own_coordinate(coordinate, "encoder")
        self._add_sensor(CoordinateSensor(name or coordinate.name, coordinate))

    def gyro(self, frame: Frame, *, name: str | None = None) -> None:
        """A sensor of a frame's angular velocity [rad/s], in its own axes."""
        owner = self._own(frame, "gyro")
        self._add_sensor(Gyro(name or f"{owner.name}_gyro", owner))

    def direction(self, frame: Frame, vector: Sequence[Scalar], *, name: str | None = None) -> None:
        """A sensor of a vector that is constant in the world (gravity, a magnetic field), in a frame's axes."""
        owner = self._own(frame, "direction")
        x, y, z = (self._scalar(e, "direction vector") for e in three(vector, "direction vector"))
        if all(e.is_zero() for e in (x, y, z)):
            raise ModelError("direction: vector must not be zero")
        self._add_sensor(Direction(name or f"{owner.name}_direction", owner, (x, y, z)))

    def build(self) -> System:
        """The finished system; raises ModelError where it cannot move."""
        coordinates = sorted(self._coordinates.values(), key=lambda c: c.kinematic)  # stable: dynamic first
        return System(
            name=self.name,
            coordinates=tuple(coordinates),
            balls=tuple(self._balls.values()),
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
            rotors=tuple(self._rotors),
            left_out=tuple(self.left_out),
        )
