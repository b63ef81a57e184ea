"""Poses and body twists along the tree, as expressions of q̄ and a velocity.

A twist is passed from parent to child in body coordinates,

    ω = Rᵀ ω_parent + e q̇ (turning),   v = Rᵀ (v_parent + ω_parent × t) + e q̇ (sliding),

which keeps kinetic energy graphs several times smaller than differentiating world poses. What a ball turns has
R = R(quaternion) exp(ĉ) and its own ω in place of e q̇; derivatives in its pose are those in c, at c = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca

from stepmap.mechanics.frames import Frame, Motion
from stepmap.mechanics.poses.quaternion import near_identity, rotation
from stepmap.mechanics.poses.tangent import Tangent
from stepmap.mechanics.quantity import Ball, Coordinate


@dataclass(frozen=True)
class Pose:
    rotation: ca.SX  # 3x3, body to world
    origin: ca.SX  # 3, in the world


@dataclass(frozen=True)
class Twist:
    linear: ca.SX  # velocity of the frame's origin, in the frame's own axes
    angular: ca.SX


class Kinematics:
    """Pose and twist of every frame at (q̄, v̄); ``turns`` are the charts c of all balls, three entries each."""

    def __init__(
        self, frames: Sequence[Frame], tangent: Tangent, q: ca.SX, v: ca.SX, turns: ca.SX | None = None
    ) -> None:
        self.index = {name: i for i, name in enumerate(tangent.names)}
        self.tangent, self.q, self.v, self.turns = tangent, q, v, turns
        self.pose = [Pose(ca.SX.eye(3), ca.SX(3, 1))]
        self.twist = [Twist(ca.SX(3, 1), ca.SX(3, 1))]
        for frame in frames[1:]:
            if frame.parent is not None and frame.motion is not None:
                self._append(frame.parent.index, frame.motion)

    def _append(self, parent: int, motion: Motion) -> None:
        moved_by = motion.coordinate
        if isinstance(moved_by, Ball):
            self._append_ball(parent, moved_by)
            return
        rotation, offset = relative(motion, None if moved_by is None else self.coordinate(moved_by))
        pose, twist = self.pose[parent], self.twist[parent]
        linear = rotation.T @ (twist.linear + ca.cross(twist.angular, offset))
        angular = rotation.T @ twist.angular
        if moved_by is not None:
            rate = ca.SX(3, 1)
            rate[motion.axis] = self.rate(moved_by)
            if motion.turns:
                angular = angular + rate
            else:
                linear = linear + rate
        self.pose.append(Pose(pose.rotation @ rotation, pose.origin + pose.rotation @ offset))
        self.twist.append(Twist(linear, angular))

    def _append_ball(self, parent: int, ball: Ball) -> None:
        at = self.index[ball.entries[0].name]
        turned = rotation(self.q[at : at + 4])
        if self.turns is not None:
            number = [s for s, _ in self.tangent.balls].index(at)
            turned = turned @ near_identity(self.turns[3 * number : 3 * number + 3])
        pose, twist = self.pose[parent], self.twist[parent]
        self.pose.append(Pose(pose.rotation @ turned, pose.origin))
        self.twist.append(Twist(turned.T @ twist.linear, turned.T @ twist.angular + self.turning(ball)))

    def turning(self, ball: Ball) -> ca.SX:
        """ω of what a ball turns, relative to its parent, in its own axes."""
        at = self.tangent.places[ball.name]
        return self.v[at : at + 3]

    def coordinate(self, coordinate: Coordinate) -> ca.SX:
        return self.q[self.index[coordinate.name]]

    def rate(self, coordinate: Coordinate) -> ca.SX:
        return self.v[self.tangent.places[coordinate.name]]

    def position(self, frame: Frame) -> ca.SX:
        return self.pose[frame.index].origin

    def velocity(self, frame: Frame) -> ca.SX:
        """Velocity of the frame's origin in the world."""
        return self.pose[frame.index].rotation @ self.twist[frame.index].linear


def relative(motion: Motion, moved: ca.SX | None) -> tuple[ca.SX, ca.SX]:
    """Rotation and offset of a child in its parent, moved by its coordinate's value; zeros stay structural."""
    if motion.kind == "se3":
        rotation, offset = motion.value
        return rotation, offset
    amount = motion.value if moved is None else moved
    axis = motion.axis
    if not motion.turns:
        offset = ca.SX(3, 1)
        offset[axis] = amount
        return ca.SX.eye(3), ca.sparsify(offset)
    cos, sin = ca.cos(amount), ca.sin(amount)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    rotation = ca.SX(3, 3)
    rotation[axis, axis] = 1
    rotation[i, i] = cos
    rotation[j, j] = cos
    rotation[i, j] = -sin
    rotation[j, i] = sin
    return ca.sparsify(rotation), ca.SX(3, 1)
