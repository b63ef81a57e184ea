"""A pendulum on a ball joint whose base is moved in a plane; it hangs at rest and may turn about its rod."""

from __future__ import annotations

from stepmap.mechanics import Builder, System

EXAMPLE = {"pivot": (0.9, 0.3, 0.3, 0.1), "x": 0.05}


def spherical_pendulum(
    mass: float = 0.5, length: float = 0.6, radius: float = 0.08, gravity: float = 9.81, damping: float = 0.002
) -> System:
    """A sphere on a massless rod; a robot moves the base at (x, y), a camera sees the sphere and a flag on it."""
    b = Builder("spherical_pendulum")
    m = b.parameter("mass", mass, unit="kg")
    rod = b.parameter("length", length, unit="m")
    r = b.parameter("radius", radius, unit="m")
    g = b.parameter("gravity", gravity, unit="m/s²")
    c = b.parameter("damping", damping, unit="N m s")
    x, y = (b.coordinate(name, unit="m", kinematic=True, low=-0.5, high=0.5) for name in ("x", "y"))
    pivot = b.world.tx(x).ty(y, name="base").ball("pivot", speed=12.0)
    bob = pivot.tz(-rod, name="bob")
    b.mass(bob, m, inertia=(0.4 * m * r**2,) * 3)
    b.gravity((0, 0, -g))
    b.damping(pivot, c)
    b.marker(bob)
    b.marker(bob.tx(r, name="flag"))
    return b.build()
