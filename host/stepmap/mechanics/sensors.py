"""What a sensor sees of q̄ and v̄: one class per kind, ``reading(kinematics)`` with a label and a unit per channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import casadi as ca

from stepmap.mechanics.frames import Frame
from stepmap.mechanics.kinematics import Kinematics
from stepmap.mechanics.quantity import Coordinate


class Sensor(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def channels(self) -> tuple[tuple[str, str], ...]: ...
    def reading(self, kinematics: Kinematics) -> ca.SX: ...


@dataclass(frozen=True)
class Marker:
    """World position of a frame's origin, in the named axes [m]."""

    name: str
    frame: Frame
    axes: str

    @property
    def channels(self) -> tuple[tuple[str, str], ...]:
        return tuple((f"{self.name}.{axis}", "m") for axis in self.axes)

    def reading(self, kinematics: Kinematics) -> ca.SX:
        position = kinematics.position(self.frame)
        return ca.vertcat(*(position["xyz".index(axis)] for axis in self.axes))


@dataclass(frozen=True)
class CoordinateSensor:
    """One coordinate itself, as an encoder reads it."""

    name: str
    coordinate: Coordinate

    @property
    def channels(self) -> tuple[tuple[str, str], ...]:
        return ((self.name, self.coordinate.unit),)

    def reading(self, kinematics: Kinematics) -> ca.SX:
        return kinematics.coordinate(self.coordinate)


@dataclass(frozen=True)
class Gyro:
    """Angular velocity of a frame against the world, in the frame's axes [rad/s]."""

    name: str
    frame: Frame

    @property
    def channels(self) -> tuple[tuple[str, str], ...]:
        return tuple((f"{self.name}.{axis}", "rad/s") for axis in "xyz")

    def reading(self, kinematics: Kinematics) -> ca.SX:
        return kinematics.twist[self.frame.index].angular


@dataclass(frozen=True)
class Direction:
    """A vector that is constant in the world, such as gravity or a magnetic field, seen in a frame's axes."""

    name: str
    frame: Frame
    vector: tuple[ca.SX, ca.SX, ca.SX]

    @property
    def channels(self) -> tuple[tuple[str, str], ...]:
        return tuple((f"{self.name}.{axis}", "") for axis in "xyz")

    def reading(self, kinematics: Kinematics) -> ca.SX:
        return kinematics.pose[self.frame.index].rotation.T @ ca.vertcat(*self.vector)
