"""Mechanisms that only tests know: a crane with three motors, a craft with two thrusts, an arm with encoders."""

from __future__ import annotations

import stepmap as sm


def crane(mass: float = 1.0) -> sm.System:
    """A load on a string from a trolley that goes both ways, and a winch."""
    b = sm.Builder("crane")
    x = b.coordinate("x", unit="m", low=-2.0, high=2.0)
    y = b.coordinate("y", unit="m", low=-2.0, high=2.0)
    z = b.coordinate("z", unit="m", start=-1.0, low=-3.0, high=0.0)
    xt = b.coordinate("xt", unit="m", kinematic=True, low=-1.5, high=1.5)
    yt = b.coordinate("yt", unit="m", kinematic=True, low=-1.5, high=1.5)
    winch = b.coordinate("winch", unit="m", kinematic=True, start=1.0, low=0.3, high=2.5)
    load = b.world.tx(x).ty(y).tz(z, name="load")
    trolley = b.world.tx(xt).ty(yt, name="trolley")
    b.mass(load, b.parameter("mass", mass, unit="kg"))
    b.gravity((0, 0, -9.81))
    for coordinate in (x, y, z):
        b.damping(coordinate, 0.05)
    b.distance(trolley, load, winch)
    b.marker(load, axes="xyz")
    for coordinate in (xt, yt, winch):
        b.encoder(coordinate)
    return b.build()


def slung_load(mass: float = 0.5, load: float = 0.1) -> sm.System:
    """A craft in a vertical plane with two thrusts; a load hangs below it on a rod."""
    b = sm.Builder("slung_load")
    x = b.coordinate("x", unit="m", low=-3.0, high=3.0)
    y = b.coordinate("y", unit="m", low=-3.0, high=3.0)
    tilt = b.coordinate("tilt", unit="rad", low=-1.5, high=1.5)
    swing = b.coordinate("swing", unit="rad", low=-2.0, high=2.0)
    left = b.input("left", unit="N", low=0.0, high=6.0)
    right = b.input("right", unit="N", low=0.0, high=6.0)
    at = b.world.tx(x).ty(y, name="hook")
    craft = at.rz(tilt, name="craft")
    bob = at.rz(swing).ty(-0.4, name="load")
    b.mass(craft, b.parameter("mass", mass, unit="kg"), inertia=(0.0, 0.0, 0.004))
    b.mass(bob, b.parameter("load", load, unit="kg"))
    b.gravity((0, -9.81, 0))
    b.damping(swing, 0.002)
    b.wrench(craft.tx(-0.2, name="left_rotor"), force=(0, left, 0))
    b.wrench(craft.tx(0.2, name="right_rotor"), force=(0, right, 0))
    b.marker(craft, axes="xy")
    b.encoder(tilt)
    b.encoder(swing)
    return b.build()


def arm(mass: float = 0.4) -> sm.System:
    """Three links in a vertical plane, a motor and an encoder in every joint."""
    b = sm.Builder("arm")
    m = b.parameter("mass", mass, unit="kg")
    frame = b.world
    for k in range(3):
        q = b.coordinate(f"q{k}", unit="rad", low=-3.2, high=3.2)
        torque = b.input(f"torque{k}", unit="N m", low=-8.0 / (k + 1), high=8.0 / (k + 1))
        middle = frame.rz(q, name=f"joint{k}").tx(0.15, name=f"link{k}")
        b.mass(middle, m, inertia=(0.0, 0.003, 0.003))
        b.damping(q, 0.05)
        b.drive(q, torque)
        b.encoder(q)
        frame = middle.tx(0.15, name=f"end{k}")
    b.gravity((0, -9.81, 0))
    return b.build()
