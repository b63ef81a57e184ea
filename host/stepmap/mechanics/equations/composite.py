"""Second derivatives of the Lagrangian of bodies on a tree, in closed form: a few operations per entry.

A coordinate moves what hangs on it as a screw s = (ω, u), u the velocity at a point that all share. With the twist V of
what a joint is on, the rate s' = [V, s] of its screw, and the inertia I and momentum H of all that hangs on it,

    T_v = s·H,   T_q = s'·H,   and for a joint i on the way to j, or j itself,
    T_vv = s_i·I s_j,   T_qv = s'_i·I s_j,   T_vq = s_i·n_j,   T_qq = s'_i·n_j,   n_j = I s'_j − ad(s_j)* H_j;

-V_qq = ω_i·(Σ m ∂x/∂q_j × g). Joints on no common way do not couple. Differentiating the energy's graph goes along the
whole tree for each column instead: four operations for one of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import casadi as ca

from stepmap.mechanics.bodies import Link
from stepmap.mechanics.frames import Frame, Motion
from stepmap.mechanics.kinematics import Kinematics, relative
from stepmap.mechanics.quantity import Coordinate


@dataclass(frozen=True)
class Screw:
    """A twist, or what it is paired with: a momentum or a wrench, the first part a moment about that point."""

    angular: ca.SX
    linear: ca.SX

    def __add__(self, other: Screw) -> Screw:
        return Screw(self.angular + other.angular, self.linear + other.linear)

    def times(self, factor: ca.SX) -> Screw:
        return Screw(self.angular * factor, self.linear * factor)

    def dot(self, other: Screw) -> ca.SX:
        return ca.dot(self.angular, other.angular) + ca.dot(self.linear, other.linear)

    def bracket(self, other: Screw) -> Screw:
        """The rate of ``other`` where this twist carries it along."""
        linear = ca.cross(self.angular, other.linear) + ca.cross(self.linear, other.angular)
        return Screw(ca.cross(self.angular, other.angular), linear)

    def turned(self, momentum: Screw) -> Screw:
        """What pairs with a twist x as ``momentum`` does with [x, this]."""
        moment = ca.cross(self.angular, momentum.angular) + ca.cross(self.linear, momentum.linear)
        return Screw(moment, ca.cross(self.angular, momentum.linear))


NOTHING = Screw(ca.SX(3, 1), ca.SX(3, 1))


@dataclass(frozen=True)
class Inertia:
    """Mass, its first and its second moments about that point."""

    mass: ca.SX
    first: ca.SX
    second: ca.SX  # 3x3

    def __add__(self, other: Inertia) -> Inertia:
        return Inertia(self.mass + other.mass, self.first + other.first, self.second + other.second)

    def __matmul__(self, twist: Screw) -> Screw:
        moment = self.second @ twist.angular + ca.cross(self.first, twist.linear)
        return Screw(moment, self.mass * twist.linear + ca.cross(twist.angular, self.first))


@dataclass(frozen=True)
class Joint:
    """What one coordinate moves at one frame."""

    place: int  # of the coordinate
    before: Joint | None  # the next one on the way to the world
    screw: Screw
    rate: Screw
    twist: Screw  # of what it moves


def placed(frames: Sequence[Frame]) -> Iterator[tuple[int, int, Motion]]:
    """Frames but the world: their number, that of their parent, and how they move against it."""
    for frame in frames[1:]:
        if frame.parent is not None and frame.motion is not None:
            yield frame.index, frame.parent.index, frame.motion


def origins(frames: Sequence[Frame], kinematics: Kinematics) -> list[ca.SX]:
    """Where frames are, seen from the last one before the first turn: so no small lengths are lost in large ones."""
    found, slides = [ca.SX(3, 1)], [True]
    for _, parent, motion in placed(frames):
        moved_by = motion.coordinate
        slides.append(slides[parent] and (moved_by is None or not motion.turns))
        place = kinematics.coordinate(moved_by) if isinstance(moved_by, Coordinate) else None
        offset = kinematics.pose[parent].rotation @ relative(motion, place)[1]
        found.append(ca.SX(3, 1) if slides[-1] else found[parent] + offset)
    return found


def joints(frames: Sequence[Frame], origin: Sequence[ca.SX], kinematics: Kinematics) -> dict[int, Joint]:
    """Those of frames that coordinates move, parents first."""
    found: dict[int, Joint] = {}
    carrier: dict[int, Joint | None] = {0: None}
    for index, parent, motion in placed(frames):
        before = carrier[index] = carrier[parent]
        moved_by = motion.coordinate
        if isinstance(moved_by, Coordinate):
            axis = kinematics.pose[index].rotation[:, motion.axis]
            screw = Screw(axis, ca.cross(origin[index], axis)) if motion.turns else Screw(ca.SX(3, 1), axis)
            twist = NOTHING if before is None else before.twist
            moved = twist + screw.times(kinematics.rate(moved_by))
            joint = Joint(kinematics.tangent.places[moved_by.name], before, screw, twist.bracket(screw), moved)
            found[index] = carrier[index] = joint
    return found


def inertia(link: Link, origin: ca.SX, rotation: ca.SX) -> Inertia:
    """That of a link, in the world's axes."""
    center = origin + rotation @ link.center
    own = ca.triu2symm(ca.triu(rotation @ link.inertia @ rotation.T))
    first = link.mass * center
    return Inertia(link.mass, first, own + ca.dot(first, center) * ca.SX.eye(3) - first @ center.T)


def carried(
    frames: Sequence[Frame], links: Sequence[Link], kinematics: Kinematics
) -> Iterator[tuple[Joint, Inertia, Screw]]:
    """Joints with inertia and momentum of all that hangs on them, leaves first."""
    origin = origins(frames, kinematics)
    moved = joints(frames, origin, kinematics)
    none = Inertia(ca.SX(1, 1), ca.SX(3, 1), ca.SX(3, 3))
    total = {id(joint): (none, NOTHING) for joint in moved.values()}

    def add(joint: Joint, mass: Inertia, momentum: Screw) -> None:
        have = total[id(joint)]
        total[id(joint)] = have[0] + mass, have[1] + momentum

    for link in links:
        at = link.frame.index
        if at in moved:
            mass = inertia(link, origin[at], kinematics.pose[at].rotation)
            add(moved[at], mass, mass @ moved[at].twist)
    for joint in reversed(moved.values()):
        mass, momentum = total[id(joint)]
        if joint.before is not None:
            add(joint.before, mass, momentum)
        yield joint, mass, momentum


def hessian(frames: Sequence[Frame], links: Sequence[Link], gravity: Sequence[ca.SX], kinematics: Kinematics) -> ca.SX:
    """Upper triangle of the Hessian of T - V of bodies under gravity in (q̄, v̄), for trees without balls."""
    n = kinematics.tangent.nv
    down = ca.vertcat(*gravity)
    out = ca.SX(2 * n, 2 * n)

    def put(i: int, j: int, value: ca.SX) -> None:
        out[min(i, j), max(i, j)] = value

    for joint, mass, momentum in carried(frames, links, kinematics):
        j = joint.place
        pushed, turned = mass @ joint.screw, mass @ joint.rate + joint.screw.turned(momentum)
        weight = ca.cross(pushed.linear, down)
        way: Joint | None = joint
        while way is not None:
            i = way.place
            put(n + i, n + j, way.screw.dot(pushed))
            put(i, j, way.rate.dot(turned) + ca.dot(way.screw.angular, weight))
            put(i, n + j, way.rate.dot(pushed))
            if way is not joint:
                put(j, n + i, way.screw.dot(turned))
            way = way.before
    return out
