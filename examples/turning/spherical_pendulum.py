"""A pendulum on a ball joint under a cart that drives in a plane: a rod with two markers for a camera."""

from __future__ import annotations

from stepmap.mechanics import Builder, System

EXAMPLE = {"joint": (0.96, 0.2, -0.15, 0.12)}


def spherical_pendulum(
    mass: float = 0.3, length: float = 0.5, gravity: float = 9.81, damping: float = 0.001, spin: float = 0.002
) -> System:
    """A rod of a length [m] with its mass [kg] at the end, and a moment of inertia ``spin`` [kg m²] about every axis.

    The cart at (x, y) is kinematic. Gravity is along −z; the rod hangs along −z where its quaternion is (1, 0, 0, 0).
    Markers are at its end and on a short arm beside its middle, so that a camera sees its turn about itself, too.
    """
    b = Builder("spherical_pendulum")
    m, rod = b.parameter("mass", mass, unit="kg"), b.parameter("length", length, unit="m")
    g, c = b.parameter("gravity", gravity, unit="m/s²"), b.parameter("damping", damping, unit="N m s")
    j = b.parameter("spin", spin, unit="kg m²")
    x = b.coordinate("x", unit="m", low=-0.6, high=0.6, kinematic=True)
    y = b.coordinate("y", unit="m", low=-0.6, high=0.6, kinematic=True)
    joint = b.world.tx(x).ty(y, name="cart").ball("joint", speed=8.0)
    bob = joint.tz(-rod, name="bob")
    arm = joint.translate(x=0.15, z=-rod / 2, name="arm")
    b.mass(bob, m, inertia=(j, j, j))
    b.gravity((0, 0, -g))
    b.damping(joint, c)
    b.marker(bob)
    b.marker(arm)
    b.encoder(x)
    b.encoder(y)
    return b.build()
