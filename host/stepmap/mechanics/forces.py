"""Forces that do not come from a potential, each given by the power it would do on a virtual velocity.

The generalized force is that power's gradient in the virtual velocity v*: F = ∂P(q̄, v̄, u; v*)/∂v*. A force on a
frame, a damper between frames and a torque on a coordinate are then one line each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import casadi as ca

from stepmap.mechanics.frames import Frame
from stepmap.mechanics.kinematics import Kinematics
from stepmap.mechanics.quantity import Ball, Coordinate, Input

Triple: TypeAlias = tuple[Input | ca.SX, Input | ca.SX, Input | ca.SX]


class Force(Protocol):
    def power(self, real: Kinematics, virtual: Kinematics, u: ca.SX) -> ca.SX: ...


@dataclass(frozen=True)
class Damping:
    """−c q̇ on one coordinate."""

    coordinate: Coordinate
    coefficient: ca.SX

    def power(self, real: Kinematics, virtual: Kinematics, u: ca.SX) -> ca.SX:
        return -self.coefficient * real.rate(self.coordinate) * virtual.rate(self.coordinate)


@dataclass(frozen=True)
class BallDamping:
    """−c ω of what a ball turns, against its parent."""

    ball: Ball
    coefficient: ca.SX

    def power(self, real: Kinematics, virtual: Kinematics, u: ca.SX) -> ca.SX:
        return -self.coefficient * ca.dot(real.turning(self.ball), virtual.turning(self.ball))


@dataclass(frozen=True)
class Damper:
    """−c ḋ along the line between the origins of two frames."""

    a: Frame
    b: Frame
    coefficient: ca.SX

    def power(self, real: Kinematics, virtual: Kinematics, u: ca.SX) -> ca.SX:
        gap = real.position(self.b) - real.position(self.a)
        speed = ca.dot(gap, real.velocity(self.b) - real.velocity(self.a))
        virtual_speed = ca.dot(gap, virtual.velocity(self.b) - virtual.velocity(self.a))
        return -self.coefficient * speed * virtual_speed / ca.dot(gap, gap)


@dataclass(frozen=True)
class Drive:
    """An input, a constant or an expression as generalized force on one coordinate."""

    coordinate: Coordinate
    source: Input | ca.SX

    def power(self, real: Kinematics, virtual: Kinematics, u: ca.SX) -> ca.SX:
        return amount(self.source, u) * virtual.rate(self.coordinate)


@dataclass(frozen=True)
class BallDrive:
    """A moment in the axes of what a ball turns; ω is relative to the parent, which has the reaction."""

    ball: Ball
    source: tuple[Input | ca.SX, Input | ca.SX, Input | ca.SX]

    def power(self, real: Kinematics, virtual: Kinematics, u: ca.SX) -> ca.SX:
        return ca.dot(ca.vertcat(*(amount(e, u) for e in self.source)), virtual.turning(self.ball))


@dataclass(frozen=True)
class Wrench:
    """Force and moment at a frame's origin, in the frame's axes (body) or the world's."""

    frame: Frame
    force: Triple
    moment: Triple
    body: bool

    def power(self, real: Kinematics, virtual: Kinematics, u: ca.SX) -> ca.SX:
        twist = virtual.twist[self.frame.index]
        turn = ca.SX.eye(3) if self.body else virtual.pose[self.frame.index].rotation
        force = ca.vertcat(*(amount(e, u) for e in self.force))
        moment = ca.vertcat(*(amount(e, u) for e in self.moment))
        return ca.dot(force, turn @ twist.linear) + ca.dot(moment, turn @ twist.angular)


@dataclass(frozen=True)
class Moment:
    """A moment m in the child's axes with its reaction on the parent: m · (ω_child − R_childᵀ R_parent ω_parent)."""

    child: Frame
    parent: Frame
    moment: Triple

    def power(self, real: Kinematics, virtual: Kinematics, u: ca.SX) -> ca.SX:
        child, parent = (virtual.pose[frame.index].rotation for frame in (self.child, self.parent))
        seen = child.T @ (parent @ virtual.twist[self.parent.index].angular)
        moment = ca.vertcat(*(amount(e, u) for e in self.moment))
        return ca.dot(moment, virtual.twist[self.child.index].angular - seen)


def amount(source: Input | ca.SX, u: ca.SX) -> ca.SX:
    return u[source.index] if isinstance(source, Input) else source
