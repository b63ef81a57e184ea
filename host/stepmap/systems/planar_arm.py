"""A marionette's arm in the plane, its tip on a string (Johnson & Murphey, Fig. 2); the string is a wire here."""

from __future__ import annotations

import math

from stepmap.mechanics import Builder, System
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.quantity import Coordinate

EXAMPLE = {"theta1": 0.3, "theta2": 0.9}
Pair = tuple[float, float]


def planar_arm(
    mass1: float = 0.5,
    mass2: float = 0.5,
    length1: float = 0.25,
    length2: float = 0.25,
    gravity: float = 9.8,
    damping: float = 0.01,
    height: float = 1.0,
) -> System:
    """Shoulder at the origin, links along x at zero angles, slender rods; the string ends at (x, height)."""
    b = Builder("planar_arm")
    tip, hook, L = arm(b, (mass1, mass2), (length1, length2), gravity, damping, height)
    b.distance(tip, hook, L, name="string")
    return b.build()


def arm(
    b: Builder, masses: Pair, lengths: Pair, gravity: float, damping: float, height: float
) -> tuple[Frame, Frame, Coordinate]:
    """Arm and hook with their sensors, not yet tied: frames of tip and hook, and the length of what ties them."""
    weights = [b.parameter(f"mass{i}", m, unit="kg") for i, m in enumerate(masses, start=1)]
    rods = [b.parameter(f"length{i}", length, unit="m") for i, length in enumerate(lengths, start=1)]
    g = b.parameter("gravity", gravity, unit="m/s²")
    c = b.parameter("damping", damping, unit="N m s")
    top = b.parameter("height", height, unit="m")
    joint = b.world
    for i, (m, length) in enumerate(zip(weights, rods, strict=True), start=1):
        theta = b.coordinate(f"theta{i}", unit="rad", low=-math.pi, high=math.pi)
        link = joint.rz(theta, name=f"link{i}")
        b.mass(link.tx(length / 2, name=f"center{i}"), m, inertia=(0, 0, m * length**2 / 12))
        joint = link.tx(length, name=("elbow", "tip")[i - 1])
        b.damping(theta, c)
        b.encoder(theta)
    x = b.coordinate("x", unit="m", low=-1.0, high=1.0, kinematic=True, start=sum(lengths))
    L = b.coordinate("L", unit="m", low=0.2, high=1.8, kinematic=True, start=height)
    hook = b.world.ty(top, name="rail").tx(x, name="string")
    b.gravity((0, -g, 0))
    b.marker(joint, axes="xy")
    b.encoder(x)
    b.encoder(L)
    return joint, hook, L
