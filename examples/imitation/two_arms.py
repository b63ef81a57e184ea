"""The upper half of a marionette: two arms on a body that stands, each hand on a string whose upper end drives.

As large as the usual messages to a board allow: 28 states, 6 commands, 12 measured values (docs/wire.md).
"""

import math

import stepmap as sm

EXAMPLE = {"left_yaw": 0.3}
HIGH, WIDE = 0.8, 0.16  # m: upper ends above the shoulders, shoulders from the middle
UPPER, LOWER = 0.3, 0.25  # m
PITCH, ELBOW, X = -0.4, -0.6, 0.25  # of both arms, where their strings are as long as they have to be


def two_arms(upper_mass: float = 0.3, lower_mass: float = 0.2, damping: float = 0.02) -> sm.System:
    """Shoulders with three angles, elbows with one; the dancer's front is the world's x."""
    b = sm.Builder("two_arms")
    masses = [b.parameter(name, m, unit="kg") for name, m in (("upper_mass", upper_mass), ("lower_mass", lower_mass))]
    c = b.parameter("damping", damping, unit="N m s")
    b.gravity((0, 0, -9.81))
    hands, robots = [], []
    for side, y in (("left", WIDE), ("right", -WIDE)):
        yaw, pitch, roll, bend = (
            b.coordinate(f"{side}_{name}", unit="rad", low=-math.pi, high=math.pi, start=start)
            for name, start in (("yaw", 0.0), ("pitch", PITCH), ("roll", 0.0), ("elbow", ELBOW))
        )
        upper = b.world.ty(y).rz(yaw).ry(pitch).rx(roll, name=f"{side}_upper")
        lower = upper.tz(-UPPER, name=f"{side}_elbow_joint").ry(bend, name=f"{side}_lower")
        hands.append(lower.tz(-LOWER, name=f"{side}_hand"))
        b.mass(upper.tz(-UPPER / 2), masses[0], inertia=(2.3e-3, 2.3e-3, 2e-4))
        b.mass(lower.tz(-0.48 * LOWER), masses[1], inertia=(1e-3, 1e-3, 1e-4))
        for angle in (yaw, pitch, roll, bend):
            b.damping(angle, c)
        across, down = (UPPER * f(PITCH) + LOWER * f(PITCH + ELBOW) for f in (math.sin, math.cos))
        string = math.hypot(X + across, HIGH + down)
        x, drive, length = (
            b.coordinate(f"{side}_{name}", unit="m", kinematic=True, low=low, high=high, start=start)
            for name, low, high, start in (("x", -2, 2, X), ("y", -2, 2, 0.0), ("length", 0.3, 3, string))
        )
        hook = b.world.ty(y).tz(HIGH, name=f"{side}_rail").tx(x).ty(drive, name=f"{side}_hook")
        b.distance(hook, hands[-1], length, name=f"{side}_string")
        robots += [x, drive, length]
    for hand in hands:
        b.marker(hand)
    for moved in robots:
        b.encoder(moved)
    return b.build()
