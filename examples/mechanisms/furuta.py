"""A rotary pendulum: a motor turns an arm about the vertical, a rod swings freely at its tip (Furuta, 1991)."""

import stepmap as sm

EXAMPLE = {"theta": 2.5}


def furuta(arm: float = 0.1, length: float = 0.2, mass: float = 0.05, inertia: float = 5e-4) -> sm.System:
    """The rod hangs at theta = 0; ``inertia`` is that of arm and motor about the vertical."""
    b = sm.Builder("furuta")
    r = b.parameter("arm", arm, unit="m")
    rod = b.parameter("length", length, unit="m")
    m = b.parameter("mass", mass, unit="kg")
    J = b.parameter("inertia", inertia, unit="kg m²")
    phi = b.coordinate("phi", unit="rad", low=-6.0, high=6.0)
    theta = b.coordinate("theta", unit="rad", low=-7.0, high=7.0)
    torque = b.input("torque", unit="N m", low=-0.06, high=0.06)
    motor = b.world.ry(phi, name="motor")
    b.mass(motor, 0.1, inertia=(0, J, 0))
    turning = m * rod**2 / 12
    b.mass(motor.tx(r, name="tip").rx(theta, name="pivot").ty(-rod / 2, name="rod"), m, inertia=(turning, 0, turning))
    b.gravity((0, -9.81, 0))
    b.damping(phi, 1e-4)
    b.damping(theta, 2e-5)
    b.drive(phi, torque)
    b.encoder(phi)
    b.encoder(theta)
    return b.build()
