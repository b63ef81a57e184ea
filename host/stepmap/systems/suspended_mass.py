"""A mass on a string under a driving robot that also winds the string (Schultz & Murphey, III-A)."""

from __future__ import annotations

from stepmap.mechanics import Builder, System
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.quantity import Coordinate

EXAMPLE = {"xm": 0.6, "ym": 0.2}


def suspended_mass(mass: float = 0.1, gravity: float = 9.81, damping: float = 0.0, height: float = 1.0) -> System:
    """Planar: the mass at (xm, ym), the robot at (xr, height), a string of length r between them.

    xr and r are kinematic: their next values are the inputs. ``damping`` acts on xm and ym alike.
    """
    b = Builder("suspended_mass")
    ball, robot, r = hang(b, mass, gravity, damping, height)
    b.distance(ball, robot, r, name="string")
    return b.build()


def hang(b: Builder, mass: float, gravity: float, damping: float, height: float) -> tuple[Frame, Frame, Coordinate]:
    """Mass and robot with their sensors, not yet tied: their frames, and the length of what ties them."""
    m = b.parameter("mass", mass, unit="kg")
    g = b.parameter("gravity", gravity, unit="m/s²")
    c = b.parameter("damping", damping, unit="N s/m")
    top = b.parameter("height", height, unit="m")
    xm = b.coordinate("xm", unit="m", low=-1.0, high=1.0)
    ym = b.coordinate("ym", unit="m", low=-1.0, high=1.0)
    xr = b.coordinate("xr", unit="m", low=-1.0, high=1.0, kinematic=True)
    r = b.coordinate("r", unit="m", low=0.3, high=1.7, kinematic=True, start=height)
    ball = b.world.tx(xm).ty(ym, name="mass")
    robot = b.world.ty(top, name="rail").tx(xr, name="robot")
    b.mass(ball, m)
    b.gravity((0, -g, 0))
    b.damping(xm, c)
    b.damping(ym, c)
    b.marker(ball, axes="xy")
    b.encoder(xr)
    b.encoder(r)
    return ball, robot, r
