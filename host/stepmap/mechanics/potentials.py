"""Potential energies besides gravity. One class a kind: ``energy(kinematics)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import casadi as ca

from stepmap.mechanics.frames import Frame
from stepmap.mechanics.kinematics import Kinematics
from stepmap.mechanics.quantity import Coordinate


class Potential(Protocol):
    def energy(self, kinematics: Kinematics) -> ca.SX: ...


@dataclass(frozen=True)
class Spring:
    """½ k (|Δ| − length)² between the origins of two frames."""

    a: Frame
    b: Frame
    stiffness: ca.SX
    length: ca.SX

    def energy(self, kinematics: Kinematics) -> ca.SX:
        gap = kinematics.position(self.b) - kinematics.position(self.a)
        square = ca.dot(gap, gap)
        if self.length.is_zero():
            return self.stiffness * square / 2  # smooth also where both ends meet
        return self.stiffness * (ca.sqrt(square) - self.length) ** 2 / 2


@dataclass(frozen=True)
class CoordinateSpring:
    """½ k (q − rest)² on one coordinate."""

    coordinate: Coordinate
    stiffness: ca.SX
    rest: ca.SX

    def energy(self, kinematics: Kinematics) -> ca.SX:
        return self.stiffness * (kinematics.coordinate(self.coordinate) - self.rest) ** 2 / 2
