"""Mechanisms that are not in the catalog, as users write them: a crane, a quadrotor with a load, Furuta's pendulum, a
four-bar. Each has other units, bodies and sensors than the suspended mass."""

from __future__ import annotations

import stepmap as sm


def crane() -> sm.System:
    """Three kinematic axes: trolley, bridge and winch; a load that swings in space."""
    b = sm.Builder("crane")
    x = b.coordinate("x", unit="m", low=-1.5, high=1.5)
    y = b.coordinate("y", unit="m", low=-1.5, high=1.5)
    z = b.coordinate("z", unit="m", low=-2.0, high=0.0, start=-0.8)
    bridge = b.coordinate("bridge", unit="m", kinematic=True, low=-1.0, high=1.0)
    trolley = b.coordinate("trolley", unit="m", kinematic=True, low=-1.0, high=1.0)
    rope = b.coordinate("rope", unit="m", kinematic=True, low=0.3, high=1.5, start=0.8)
    load = b.world.tx(x).ty(y).tz(z, name="load")
    hook = b.world.tx(bridge, name="beam").ty(trolley, name="hook")
    b.mass(load, 0.5)
    b.gravity((0, 0, -9.81))
    b.distance(hook, load, rope, name="cable")
    b.marker(load, axes="xyz")
    b.encoder(bridge)
    b.encoder(trolley)
    b.encoder(rope)
    return b.build()


def quadrotor(mass: float = 0.8, load: float = 0.2) -> sm.System:
    """In a plane: two rotors lift a body, from which a load hangs by a rod."""
    b = sm.Builder("quadrotor")
    x = b.coordinate("x", unit="m", low=-2.0, high=2.0)
    y = b.coordinate("y", unit="m", low=-2.0, high=2.0)
    pitch = b.coordinate("pitch", unit="rad", low=-1.0, high=1.0)
    swing = b.coordinate("swing", unit="rad", low=-1.5, high=1.5)
    left, right = (b.input(name, unit="N", low=0.0, high=12.0) for name in ("left", "right"))
    body = b.world.tx(x).ty(y, name="body")
    frame = body.rz(pitch, name="frame")
    b.mass(frame, b.parameter("mass", mass, unit="kg"), inertia=(0.01, 0.01, 0.01))
    for side, thrust in ((-0.25, left), (0.25, right)):
        b.wrench(frame.tx(side, name="left rotor" if side < 0 else "right rotor"), force=(0, thrust, 0))
    hanging = body.rz(swing, name="rod").ty(-0.6, name="load")
    b.mass(hanging, b.parameter("load", load, unit="kg"))
    b.gravity((0, -9.81, 0))
    b.marker(frame, axes="xy")
    b.marker(hanging, axes="xy")
    b.encoder(pitch)
    return b.build()


def furuta(arm: float = 0.2, rod: float = 0.3) -> sm.System:
    """A pendulum at the end of an arm that turns about the vertical; two encoders."""
    b = sm.Builder("furuta")
    phi = b.coordinate("phi", unit="rad", low=-3.0, high=3.0)
    theta = b.coordinate("theta", unit="rad", low=-4.0, high=4.0)
    torque = b.input("torque", unit="N m", low=-0.4, high=0.4)
    elbow = b.world.rz(phi, name="arm").tx(arm, name="elbow")
    bob = elbow.rx(theta, name="hinge").tz(-rod, name="bob")
    b.mass(elbow, 0.1, inertia=(5e-4, 5e-4, 1e-3))
    b.mass(bob, 0.05)
    b.gravity((0, 0, -9.81))
    b.drive(phi, torque)
    b.encoder(phi)
    b.encoder(theta)
    return b.build()


def four_bar() -> sm.System:
    """A closed chain that a torque on its crank drives against a spring; one encoder on each side."""
    b = sm.Builder("four_bar")
    crank, coupler, rocker = (b.coordinate(name, unit="rad", low=-4.0, high=4.0) for name in ("a", "b", "c"))
    torque = b.input("torque", unit="N m", low=-4.0, high=4.0)
    first = b.world.rz(crank, name="crank").tx(0.3, name="pin1")
    second = first.rz(coupler).tx(1.0, name="pin2")
    ground = b.world.tx(0.9, name="ground")
    third = ground.rz(rocker, name="rocker").tx(0.6, name="pin3")
    for end in (first, second, third):
        b.mass(end, 0.2, inertia=(0, 0, 0.001))
    b.gravity((0, -9.81, 0))
    b.point_to_point(second, third, axes="xy", name="loop")
    b.spring(second, b.world.translate(x=0.2, y=1.2, name="wall"), stiffness=5.0, length=0.4)
    b.drive(crank, torque)
    b.encoder(crank)
    b.encoder(rocker)
    return b.build()
