"""A mass on a string that may go slack, under a driving robot that also winds it (Schultz & Murphey, III-A)."""

from __future__ import annotations

from stepmap.mechanics import Builder, System
from stepmap.systems.suspended_mass import hang

EXAMPLE = {"xm": 0.6, "ym": 0.5}


def suspended_mass_string(
    mass: float = 0.1, gravity: float = 9.81, damping: float = 0.0, height: float = 1.0
) -> System:
    """The suspended mass with a string for its wire: |mass − robot| ≤ r, and it never pushes."""
    b = Builder("suspended_mass_string")
    ball, robot, r = hang(b, mass, gravity, damping, height)
    b.string(ball, robot, r, name="string")
    return b.build()
