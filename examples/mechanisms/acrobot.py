"""Two rods like a gymnast on a bar: the motor is at the hip, the hands turn freely (Spong, 1995)."""

import stepmap as sm

EXAMPLE = {"bar": 0.5, "hip": 0.5}


def acrobot(mass1: float = 1.0, mass2: float = 1.0, length: float = 1.0, damping: float = 0.05) -> sm.System:
    """Uniform rods of the same length; both hang at zero angles."""
    b = sm.Builder("acrobot")
    masses = (b.parameter("mass1", mass1, unit="kg"), b.parameter("mass2", mass2, unit="kg"))
    size = b.parameter("length", length, unit="m")
    c = b.parameter("damping", damping, unit="N m s")
    bar = b.coordinate("bar", unit="rad", low=-8.0, high=8.0)
    hip = b.coordinate("hip", unit="rad", low=-8.0, high=8.0)
    torque = b.input("torque", unit="N m", low=-14.0, high=14.0)
    joint = b.world
    for angle, m, end in ((bar, masses[0], "waist"), (hip, masses[1], "feet")):
        middle = joint.rz(angle).ty(-size / 2)
        b.mass(middle, m, inertia=(0, 0, m * size**2 / 12))
        joint = middle.ty(-size / 2, name=end)
        b.damping(angle, c)
        b.encoder(angle)
    b.gravity((0, -9.81, 0))
    b.drive(hip, torque)
    return b.build()
