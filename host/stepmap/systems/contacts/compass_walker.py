"""Two legs that walk down a slope without a motor (Goswami, Thuilot & Espiau 1998)."""

from __future__ import annotations

import math

from stepmap.mechanics import Builder, System
from stepmap.systems.contacts import floor

STANCE, SWING = -0.1, 0.35  # it falls forward onto the leg that is ahead [rad]
EXAMPLE = {"x": -math.sin(STANCE), "y": math.cos(STANCE), "left": STANCE, "right": SWING}


def compass_walker(
    hip_mass: float = 10.0,
    leg_mass: float = 5.0,
    below: float = 0.5,
    above: float = 0.5,
    gravity: float = 9.8,
    slope: float = math.radians(3.0),
    stride: float = 0.53,
) -> System:
    """Hip at (x, y); ``left`` and ``right`` are angles of the legs from the vertical, positive where a foot is ahead.

    A leg's mass is ``below`` [m] above its foot and ``above`` below the hip. The ground falls by ``slope`` [rad] along
    x, and feet do not slip. Legs are equally long, so the swinging foot passes through the ground: leave its contact
    out of the map while it swings, ``sm.discretize(system, dt, contacts=("left_foot",))``. ``stride`` [m], along the
    slope, is a parameter for formulas of gaits.
    """
    b = Builder("compass_walker")
    hip, leg = b.parameter("hip_mass", hip_mass, unit="kg"), b.parameter("leg_mass", leg_mass, unit="kg")
    lower, upper = b.parameter("below", below, unit="m"), b.parameter("above", above, unit="m")
    g = b.parameter("gravity", gravity, unit="m/s²")
    tilt = b.parameter("slope", slope, unit="rad")
    b.parameter("stride", stride, unit="m")
    x, y = b.coordinate("x", unit="m"), b.coordinate("y", unit="m", start=below + above)
    top = b.world.tx(x).ty(y, name="hip")
    b.mass(top, hip)
    b.gravity((0, -g, 0))
    ground = floor(b.world.rz(-tilt), "ground")
    for side in ("left", "right"):
        angle = b.coordinate(side, unit="rad", low=-1.5, high=1.5)
        thigh = top.rz(angle, name=f"{side}_leg")
        b.mass(thigh.ty(-upper), leg)
        b.contact(thigh.ty(-(upper + lower), name=f"{side}_toe"), ground, friction=math.inf, name=f"{side}_foot")
        b.encoder(angle)
    return b.build()
