"""A pendulum with a torque at its pivot."""

from __future__ import annotations

from stepmap.mechanics import Builder, System

EXAMPLE = {"theta": 2.0}


def pendulum(mass: float = 1.0, length: float = 1.0, gravity: float = 9.8, damping: float = 0.0) -> System:
    """A point mass on a massless rod, hanging at theta = 0, driven by a torque."""
    b = Builder("pendulum")
    m = b.parameter("mass", mass, unit="kg")
    rod = b.parameter("length", length, unit="m")
    g = b.parameter("gravity", gravity, unit="m/s²")
    c = b.parameter("damping", damping, unit="N m s")
    theta = b.coordinate("theta", unit="rad", low=-7.0, high=7.0)
    torque = b.input("torque", unit="N m", low=-20.0, high=20.0)
    bob = b.world.rz(theta, name="pivot").ty(-rod, name="bob")
    b.mass(bob, m)
    b.gravity((0, -g, 0))
    b.damping(theta, c)
    b.drive(theta, torque)
    b.encoder(theta)
    return b.build()
