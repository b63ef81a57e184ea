"""A double pendulum whose tip strikes a wall: plastic, lossy or elastic (the collisions of Pekarek, ch. 3)."""

from __future__ import annotations

from stepmap.mechanics import Builder, System
from stepmap.systems.contacts import wall

EXAMPLE = {"theta1": -0.9, "theta2": -0.4}


def wall_pendulum(
    mass1: float = 1.0,
    mass2: float = 1.0,
    length1: float = 1.0,
    length2: float = 1.0,
    gravity: float = 9.8,
    distance: float = 0.3,
    restitution: float = 0.5,
) -> System:
    """Two point masses on massless rods that hang from the origin; the second stays at x ≤ ``distance``."""
    b = Builder("wall_pendulum")
    masses = (b.parameter("mass1", mass1, unit="kg"), b.parameter("mass2", mass2, unit="kg"))
    rods = (b.parameter("length1", length1, unit="m"), b.parameter("length2", length2, unit="m"))
    g = b.parameter("gravity", gravity, unit="m/s²")
    away = b.parameter("distance", distance, unit="m")
    b.gravity((0, -g, 0))
    joint = b.world
    for i in (1, 2):
        theta = b.coordinate(f"theta{i}", unit="rad", low=-7.0, high=7.0)
        joint = joint.rz(theta, name=f"joint{i}").ty(-rods[i - 1], name=f"mass{i}")
        b.mass(joint, masses[i - 1])
        b.encoder(theta)
    b.contact(joint, wall(b.world.tx(away), "wall"), restitution, name="wall")
    return b.build()
