"""Couplings: a coordinate that follows another one, as by a gear, a belt or a linkage."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from stepmap.mechanics.constraints import Row
from stepmap.mechanics.kinematics import Kinematics
from stepmap.mechanics.quantity import Coordinate


@dataclass(frozen=True)
class Coupling:
    """q = c₀ + c₁ (q' − rest) + c₂ (q' − rest)² + …, q' the leading coordinate."""

    name: str
    follower: Coordinate
    leader: Coordinate
    coefficients: tuple[float, ...]
    rest: float = 0.0

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (Row.EQUALITY,)

    def residual(self, kinematics: Kinematics) -> ca.SX:
        """In the unit of the follower."""
        led = kinematics.coordinate(self.leader) - self.rest
        place = ca.SX(0)
        for coefficient in reversed(self.coefficients):
            place = place * led + coefficient
        return kinematics.coordinate(self.follower) - place

    gap = residual

    def pull(self, kinematics: Kinematics) -> ca.SX:
        return ca.SX(1)
