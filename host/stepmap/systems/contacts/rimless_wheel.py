"""A wheel without a rim that rolls down a slope on its spokes (McGeer 1990; Coleman, Chatterjee & Ruina 1997)."""

from __future__ import annotations

import math

from stepmap.errors import ModelError
from stepmap.mechanics import Builder, System
from stepmap.systems.contacts import floor

TIPPED = 0.05  # past the vertical over spoke 0, which stands on the origin [rad]
EXAMPLE = {"x": math.sin(TIPPED), "y": math.cos(TIPPED), "theta": 0.08 - math.pi / 8 - TIPPED}


def rimless_wheel(
    spokes: int = 8,
    mass: float = 1.0,
    length: float = 1.0,
    inertia: float = 0.05,
    gravity: float = 9.81,
    slope: float = 0.08,
) -> System:
    """Hub at (x, y), turned by theta; the ground falls by ``slope`` [rad] along x, and spokes do not slip on it.

    The moment of inertia about the hub is ``inertia`` · mass · length². At the start it stands on two spokes, half the
    angle between them on each side. ``stride`` [m], from spoke to spoke, is a parameter for formulas of gaits.
    """
    if not isinstance(spokes, int) or spokes < 4:
        raise ModelError(f"rimless_wheel: spokes must be a whole number of at least 4, got {spokes!r}")
    b = Builder("rimless_wheel")
    m = b.parameter("mass", mass, unit="kg")
    spoke = b.parameter("length", length, unit="m")
    J = b.parameter("inertia", inertia)
    g = b.parameter("gravity", gravity, unit="m/s²")
    tilt = b.parameter("slope", slope, unit="rad")
    half = math.pi / spokes
    b.parameter("stride", 2 * length * math.sin(half), unit="m")
    high = length * math.cos(half)  # over the ground, while it stands on two spokes
    x = b.coordinate("x", unit="m", start=high * math.sin(slope))
    y = b.coordinate("y", unit="m", start=high * math.cos(slope))
    theta = b.coordinate("theta", unit="rad")
    hub = b.world.tx(x).ty(y).rz(theta, name="hub")
    b.mass(hub, m, inertia=(0, 0, J * m * spoke**2))
    b.gravity((0, -g, 0))
    ground = floor(b.world.rz(-tilt), "ground")
    upright = hub.rz(-tilt)  # at theta = 0 the spokes are placed evenly about the normal of the ground
    for i in range(spokes):
        tip = upright.rz(half * (2 * i + 1)).ty(-spoke, name=f"tip{i}")
        b.contact(tip, ground, friction=math.inf, name=f"spoke{i}")
    b.marker(hub, axes="xy")
    b.encoder(theta)
    return b.build()
