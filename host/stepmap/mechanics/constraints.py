"""Holonomic constraints h(q̄) = 0; gaps.py has those that may open.

``residual`` is what the step solves, in the smoothest form there is. ``gap`` is the same condition in metres.
``pull`` turns the multiplier of ``residual`` into the force [N] that acts along the gap, positive when it pulls.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import casadi as ca

from stepmap.mechanics.frames import Frame
from stepmap.mechanics.kinematics import Kinematics
from stepmap.mechanics.quantity import Coordinate


class Row(IntEnum):
    """What an entry of h has to be; numbers as the C runtime counts them."""

    EQUALITY = 0  # h = 0 at every node
    GAP = 1  # h ≤ 0
    TANGENT = 2  # keeps its value while the gap before it is closed


class Constraint(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def rows(self) -> tuple[Row, ...]: ...
    def residual(self, kinematics: Kinematics) -> ca.SX: ...
    def gap(self, kinematics: Kinematics) -> ca.SX: ...
    def pull(self, kinematics: Kinematics) -> ca.SX: ...


@dataclass(frozen=True)
class Distance:
    """|Δ| = length, solved as |Δ|² − length² = 0: no square root, the same root for length > 0."""

    name: str
    a: Frame
    b: Frame
    length: Coordinate | ca.SX

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (Row.EQUALITY,)

    def residual(self, kinematics: Kinematics) -> ca.SX:
        return self._square(kinematics) - along(self.length, kinematics) ** 2

    def gap(self, kinematics: Kinematics) -> ca.SX:
        return ca.sqrt(self._square(kinematics)) - along(self.length, kinematics)

    def pull(self, kinematics: Kinematics) -> ca.SX:
        return 2 * along(self.length, kinematics)

    def _square(self, kinematics: Kinematics) -> ca.SX:
        gap = kinematics.position(self.b) - kinematics.position(self.a)
        return ca.dot(gap, gap)


@dataclass(frozen=True)
class PointOnPlane:
    """n · (point − plane origin) = offset, the normal n fixed in the plane's frame."""

    name: str
    plane: Frame
    normal: tuple[float, float, float]
    point: Frame
    offset: Coordinate | ca.SX

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (Row.EQUALITY,)

    def residual(self, kinematics: Kinematics) -> ca.SX:
        normal = kinematics.pose[self.plane.index].rotation @ ca.sparsify(ca.SX(list(self.normal)))
        height = ca.dot(normal, kinematics.position(self.point) - kinematics.position(self.plane))
        return height - along(self.offset, kinematics)

    gap = residual

    def pull(self, kinematics: Kinematics) -> ca.SX:
        return ca.SX(1)


@dataclass(frozen=True)
class PointToPoint:
    """The origins of two frames coincide in the named world axes."""

    name: str
    a: Frame
    b: Frame
    axes: str

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(f"{self.name}.{axis}" for axis in self.axes)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (Row.EQUALITY,) * len(self.axes)

    def residual(self, kinematics: Kinematics) -> ca.SX:
        gap = kinematics.position(self.b) - kinematics.position(self.a)
        return ca.vertcat(*(gap["xyz".index(axis)] for axis in self.axes))

    gap = residual

    def pull(self, kinematics: Kinematics) -> ca.SX:
        return ca.SX.ones(len(self.axes))


def along(length: Coordinate | ca.SX, kinematics: Kinematics) -> ca.SX:
    return kinematics.coordinate(length) if isinstance(length, Coordinate) else length
