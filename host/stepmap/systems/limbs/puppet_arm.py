"""A marionette's arm in space, its hand on a string (Johnson & Murphey, Fig. 4); the string is a wire here."""

from __future__ import annotations

import math

from stepmap.mechanics import Builder, System

EXAMPLE = {"yaw": 0.3}
PITCH, ELBOW, X = -0.4, -0.6, 0.25  # at the start, where the string is as long as it has to be


def puppet_arm(
    upper_mass: float = 0.3,
    lower_mass: float = 0.2,
    upper_length: float = 0.3,
    lower_length: float = 0.25,
    gravity: float = 9.81,
    damping: float = 0.02,
    height: float = 0.8,
) -> System:
    """Shoulder with three angles at the origin, elbow with one; the string's upper end moves at ``height``."""
    b = Builder("puppet_arm")
    masses = [b.parameter(name, m, unit="kg") for name, m in (("upper_mass", upper_mass), ("lower_mass", lower_mass))]
    upper_size, lower_size, top = (
        b.parameter(name, value, unit="m")
        for name, value in (("upper_length", upper_length), ("lower_length", lower_length), ("height", height))
    )
    g, c = b.parameter("gravity", gravity, unit="m/s²"), b.parameter("damping", damping, unit="N m s")
    yaw, pitch, roll, bend = (
        b.coordinate(name, unit="rad", low=-math.pi, high=math.pi, start=start)
        for name, start in (("yaw", 0.0), ("pitch", PITCH), ("roll", 0.0), ("elbow", ELBOW))
    )
    upper = b.world.rz(yaw).ry(pitch).rx(roll, name="upper")
    elbow = upper.tz(-upper_size, name="elbow_joint")
    lower = elbow.ry(bend, name="lower")
    hand = lower.tz(-lower_size, name="hand")
    b.mass(upper.tz(-upper_size / 2, name="upper_center"), masses[0], inertia=(2.3e-3, 2.3e-3, 2e-4))
    b.mass(lower.tz(-0.48 * lower_size, name="lower_center"), masses[1], inertia=(1e-3, 1e-3, 1e-4))
    for angle in (yaw, pitch, roll, bend):
        b.damping(angle, c)
    x, y = (
        b.coordinate(name, unit="m", kinematic=True, low=-0.6, high=0.6, start=start)
        for name, start in (("x", X), ("y", 0.0))
    )
    across, down = (upper_length * f(PITCH) + lower_length * f(PITCH + ELBOW) for f in (math.sin, math.cos))
    string = math.hypot(X + across, height + down)
    length = b.coordinate("L", unit="m", kinematic=True, low=0.3, high=1.8, start=string)
    hook = b.world.tz(top, name="rail").tx(x).ty(y, name="hook")
    b.distance(hook, hand, length, name="string")
    b.gravity((0, 0, -g))
    b.marker(hand)
    b.marker(elbow)
    for moved in (x, y, length):
        b.encoder(moved)
    return b.build()
