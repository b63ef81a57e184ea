"""A ball that rolls on a beam; a motor turns the beam about its middle."""

import stepmap as sm

EXAMPLE = {"r": 0.2}


def ball_beam(mass: float = 0.1, beam: float = 0.03, damping: float = 0.01) -> sm.System:
    """Ball at r along the beam, which has the inertia ``beam`` and is level at tilt = 0.

    Rolling adds 2/5 of a solid ball's mass to its inertia and nothing to its weight: a force takes that part away.
    """
    b = sm.Builder("ball_beam")
    m = b.parameter("mass", mass, unit="kg")
    J = b.parameter("beam", beam, unit="kg m²")
    c = b.parameter("damping", damping, unit="N m s")
    r = b.coordinate("r", unit="m", low=-0.5, high=0.5)
    tilt = b.coordinate("tilt", unit="rad", low=-0.8, high=0.8)
    torque = b.input("torque", unit="N m", low=-2.0, high=2.0)
    plank = b.world.rz(tilt, name="plank")
    b.mass(plank, 1.0, inertia=(0, 0, J))
    ball = plank.tx(r).ty(0.02, name="ball")
    b.mass(ball, 1.4 * m)
    b.gravity((0, -9.81, 0))
    b.wrench(ball, force=(0, 0.4 * 9.81 * m, 0), body=False)
    b.damping(tilt, c)
    b.damping(r, 0.02)
    b.drive(tilt, torque)
    b.encoder(r)
    b.encoder(tilt)
    return b.build()
