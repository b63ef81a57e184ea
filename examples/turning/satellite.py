"""A satellite that thrusters turn: three torques in its own axes, a gyro, and two directions that it sees."""

from __future__ import annotations

from stepmap.mechanics import Builder, System

EXAMPLE = {"hub": (0.9, 0.3, -0.1, 0.3)}
SUN, FIELD = (1.0, 0.0, 0.0), (0.0, 0.6, 0.8)  # unit vectors in the world


def satellite(jx: float = 0.5, jy: float = 0.4, jz: float = 0.3, torque: float = 0.1) -> System:
    """A rigid body about its centre of mass with principal moments jx, jy, jz [kg m²].

    Inputs are torques tx, ty, tz [N m] of at most ``torque``. Its gyro measures ω in its axes; a sun sensor and a
    magnetometer measure unit vectors to the sun and along the field, in its axes too.
    """
    b = Builder("satellite")
    moments = [b.parameter(name, value, unit="kg m²") for name, value in (("jx", jx), ("jy", jy), ("jz", jz))]
    hub = b.world.ball("hub", speed=2.0)
    b.mass(hub, 10.0, inertia=tuple(moments))
    torques = [b.input(name, unit="N m", low=-torque, high=torque) for name in ("tx", "ty", "tz")]
    b.wrench(hub, moment=torques)
    b.gyro(hub, name="gyro")
    b.direction(hub, SUN, name="sun")
    b.direction(hub, FIELD, name="field")
    return b.build()
