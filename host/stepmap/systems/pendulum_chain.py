"""A chain of n pendulums: how cost grows with the number of links."""

from __future__ import annotations

from stepmap.errors import ModelError
from stepmap.mechanics import Builder, System

EXAMPLE = {"theta1": 1.5}


def pendulum_chain(
    n: int = 5, mass: float = 1.0, length: float = 1.0, gravity: float = 9.8, damping: float = 0.0
) -> System:
    """n equal point masses on massless rods, each angle relative to the rod before."""
    if not isinstance(n, int) or n < 1:
        raise ModelError(f"pendulum_chain: n must be a whole number of at least 1, got {n!r}")
    b = Builder(f"pendulum_chain_{n}")
    m = b.parameter("mass", mass, unit="kg")
    rod = b.parameter("length", length, unit="m")
    g = b.parameter("gravity", gravity, unit="m/s²")
    c = b.parameter("damping", damping, unit="N m s")
    b.gravity((0, -g, 0))
    link = b.world
    for i in range(1, n + 1):
        theta = b.coordinate(f"theta{i}", unit="rad", low=-7.0, high=7.0)
        link = link.rz(theta).ty(-rod, name=f"mass{i}")
        b.mass(link, m)
        b.damping(theta, c)
        b.encoder(theta)
    return b.build()
