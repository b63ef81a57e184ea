"""Rotors: inertia that turns with a joint alone, as that of a motor behind its gear."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from stepmap.mechanics.kinematics import Kinematics
from stepmap.mechanics.quantity import Ball, Coordinate


@dataclass(frozen=True)
class Rotor:
    """½ J q̇², or ½ J |ω|² of what a ball turns against its parent: J is added to the diagonal of the mass matrix."""

    joint: Coordinate | Ball
    inertia: ca.SX

    def kinetic(self, kinematics: Kinematics) -> ca.SX:
        if isinstance(self.joint, Ball):
            turning = kinematics.turning(self.joint)
            return self.inertia * ca.dot(turning, turning) / 2
        return self.inertia * kinematics.rate(self.joint) ** 2 / 2
