"""A wheel without a rim that stands on spoke 0, driven by a motor: the least that walks."""

from __future__ import annotations

import math

import stepmap as sm
from stepmap.systems.contacts import floor

SPOKES = 6


def rolling_wheel() -> sm.System:
    b = sm.Builder("rolling_wheel")
    angle = 2 * math.pi / SPOKES
    b.parameter("stride", 2 * math.sin(angle / 2), unit="m")
    x, y = b.coordinate("x", unit="m"), b.coordinate("y", unit="m")
    theta = b.coordinate("theta", unit="rad", low=-1.5, high=1.5, start=angle / 4)
    foot = b.world.tx(x).ty(y, name="spoke0")
    hub = foot.rz(theta).ty(1.0, name="hub")
    b.mass(hub, 1.0, inertia=(0, 0, 0.05))
    b.gravity((0, -9.81, 0))
    ground = floor(b.world, "ground")
    b.contact(foot, ground, friction=math.inf, name="spoke0")
    for i in range(1, SPOKES):
        b.contact(hub.rz(i * angle).ty(-1.0, name=f"spoke{i}"), ground, friction=math.inf, name=f"spoke{i}")
    b.drive(theta, b.input("motor", unit="N m", low=-20.0, high=20.0))
    b.encoder(theta)
    return b.build()
