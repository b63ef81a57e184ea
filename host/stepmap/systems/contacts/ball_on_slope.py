"""A ball that bounces down a slope on parabolas, which the step follows without an error (Pekarek, ch. 3)."""

from __future__ import annotations

from stepmap.mechanics import Builder, System
from stepmap.systems.contacts import floor

EXAMPLE = {"x": 0.0, "y": 1.0}


def ball_on_slope(
    mass: float = 1.0,
    gravity: float = 9.81,
    slope: float = 0.2,
    restitution: float = 0.8,
    friction: float | None = None,
) -> System:
    """A point mass at (x, y) above a plane through the origin that falls by ``slope`` [rad] along x.

    ``restitution`` 0 sticks to the plane, 1 loses nothing. ``friction`` None slides, infinity holds.
    """
    b = Builder("ball_on_slope")
    m = b.parameter("mass", mass, unit="kg")
    g = b.parameter("gravity", gravity, unit="m/s²")
    tilt = b.parameter("slope", slope, unit="rad")
    x = b.coordinate("x", unit="m", low=-1.0, high=10.0)
    y = b.coordinate("y", unit="m", low=-5.0, high=5.0, start=1.0)
    ball = b.world.tx(x).ty(y, name="ball")
    b.mass(ball, m)
    b.gravity((0, -g, 0))
    b.contact(ball, floor(b.world.rz(-tilt), "slope"), restitution, friction, name="bounce")
    b.marker(ball, axes="xy")
    return b.build()
