"""Two rods, the motor at the shoulder, the elbow free (Spong & Block, 1995)."""

import stepmap as sm

EXAMPLE = {"shoulder": 0.5, "elbow": 0.5}


def pendubot(mass1: float = 1.0, mass2: float = 1.0, length: float = 1.0, damping: float = 0.05) -> sm.System:
    """Uniform rods of the same length; both hang at zero angles."""
    b = sm.Builder("pendubot")
    masses = (b.parameter("mass1", mass1, unit="kg"), b.parameter("mass2", mass2, unit="kg"))
    size = b.parameter("length", length, unit="m")
    c = b.parameter("damping", damping, unit="N m s")
    shoulder = b.coordinate("shoulder", unit="rad", low=-8.0, high=8.0)
    elbow = b.coordinate("elbow", unit="rad", low=-8.0, high=8.0)
    torque = b.input("torque", unit="N m", low=-20.0, high=20.0)
    joint = b.world
    for angle, m, end in ((shoulder, masses[0], "arm"), (elbow, masses[1], "hand")):
        middle = joint.rz(angle).ty(-size / 2)
        b.mass(middle, m, inertia=(0, 0, m * size**2 / 12))
        joint = middle.ty(-size / 2, name=end)
        b.damping(angle, c)
        b.encoder(angle)
    b.gravity((0, -9.81, 0))
    b.drive(shoulder, torque)
    return b.build()
