"""A wedge that rocks from foot to foot and loses speed at each change (Pekarek, 3.5.1, Fig. 3.4)."""

from __future__ import annotations

import math

from stepmap.mechanics import Builder, System
from stepmap.systems.contacts import floor

TILT, HALF, RISE = 0.35, 0.1, math.sqrt(3) / 20  # the start, turned about the left foot; from there to the centre [m]
EXAMPLE = {
    "x": HALF * math.cos(TILT) - RISE * math.sin(TILT),
    "y": HALF * math.sin(TILT) + RISE * math.cos(TILT),
    "theta": TILT,
}


def rocking_wedge(
    mass: float = 2.0,
    length: float = 0.2,
    gravity: float = 9.81,
    inertia: float = 13 / 48,
    factor: float = 0.5,
    pinned: bool = False,
) -> System:
    """Centre of mass at (x, y), turned by theta; feet ``length`` apart, both on the floor y = 0 at the start.

    The feet do not slip. The moment of inertia is ``inertia`` · mass · length². ``factor`` stands before q̇ᵀ M q̇ in the
    Lagrangian: ½ in mechanics; 1 in the thesis, whose printed figures come out with it. They also need the ground to
    pull at the left foot before the impact: ``pinned`` makes a hinge of it.
    """
    b = Builder("rocking_wedge")
    m = b.parameter("mass", mass, unit="kg")
    foot = b.parameter("length", length, unit="m")
    g = b.parameter("gravity", gravity, unit="m/s²")
    J = b.parameter("inertia", inertia)
    twice = 2 * b.parameter("factor", factor)
    x, y = b.coordinate("x", unit="m", start=length / 2), b.coordinate("y", unit="m", start=math.sqrt(3) / 4 * length)
    theta = b.coordinate("theta", unit="rad")
    body = b.world.tx(x).ty(y).rz(theta, name="wedge")
    b.mass(body, twice * m, inertia=(0, 0, twice * J * m * foot**2))
    b.gravity((0, -g / twice, 0))  # potential energy stays m g y
    ground = floor(b.world, "ground")
    for name, side in (("left", -1), ("right", 1)):
        corner = body.translate(x=side * foot / 2, y=-math.sqrt(3) / 4 * foot, name=name)
        if pinned and name == "left":
            b.point_to_point(b.world, corner, axes="xy", name="hinge")
        else:
            b.contact(corner, ground, friction=math.inf, name=f"{name}_foot")
    b.marker(body, axes="xy")
    b.encoder(theta)
    return b.build()
