"""A marionette's arm in the plane, its tip on a string that may go slack (Johnson & Murphey, II and IV)."""

from __future__ import annotations

from stepmap.mechanics import Builder, System
from stepmap.systems.planar_arm import arm

EXAMPLE = {"theta1": 0.3, "theta2": 0.9}


def planar_arm_string(
    mass1: float = 0.5,
    mass2: float = 0.5,
    length1: float = 0.25,
    length2: float = 0.25,
    gravity: float = 9.8,
    damping: float = 0.01,
    height: float = 1.0,
) -> System:
    """The planar arm with a string for its wire: the tip is at most L from (x, height)."""
    b = Builder("planar_arm_string")
    tip, hook, L = arm(b, (mass1, mass2), (length1, length2), gravity, damping, height)
    b.string(tip, hook, L, name="string")
    return b.build()
