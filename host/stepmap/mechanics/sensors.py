"""What a sensor sees of q̄: one class a kind, ``reading(kinematics)`` with one label and unit a channel."""

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
