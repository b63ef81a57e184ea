"""The helicopter of Kobilarov et al. (III-A): a rigid body below a rotor that tilts, with a rotor at its tail.

The lift u_c acts at the mast's top along (sin α_p cos α_r, −sin α_r, cos α_p cos α_r) in the body's axes, the
force of the tail u_ψ along −y: their forces and moments are the paper's F_V(α) u and F_Ω(α) u. Aerodynamics
are left out, as there. The paper prints no numbers; the defaults are those of a model helicopter.
"""

from __future__ import annotations

from stepmap.mechanics import Builder, System, cos, sin

EXAMPLE = {"body": (0.0, 0.0, 2.0, 0.99, 0.1, 0.0, 0.1)}


def helicopter(
    mass: float = 5.0,
    inertia: tuple[float, float, float] = (0.2, 0.4, 0.45),
    mast: float = 0.3,
    boom: float = 1.0,
    gravity: float = 9.8,
    low: tuple[float, float, float] = (-100.0, -100.0, -100.0),
    high: tuple[float, float, float] = (100.0, 100.0, 100.0),
) -> System:
    """The rotor is ``mast`` above the centre of mass, the tail rotor ``boom`` behind it; ``low`` and ``high`` bound the
    position [m]."""
    b = Builder("helicopter")
    m = b.parameter("mass", mass, unit="kg")
    g = b.parameter("gravity", gravity, unit="m/s²")
    lift = b.input("lift", unit="N", low=0.0, high=2.5 * mass * gravity)
    yaw = b.input("yaw", unit="N", low=-5.0, high=5.0)
    pitch = b.input("pitch", unit="rad", low=-0.5, high=0.5)
    roll = b.input("roll", unit="rad", low=-0.5, high=0.5)
    body = b.world.free("body", low=low, high=high, speed=8.0)
    b.mass(body, m, inertia=inertia)
    rotor, tail = body.tz(mast, name="rotor"), body.tx(-boom, name="tail")
    b.wrench(rotor, force=(lift * sin(pitch) * cos(roll), -lift * sin(roll), lift * cos(pitch) * cos(roll)))
    b.wrench(tail, force=(0.0, -yaw, 0.0))
    b.gravity((0.0, 0.0, -g))
    for frame in (body, rotor, tail):
        b.marker(frame)
    return b.build()
