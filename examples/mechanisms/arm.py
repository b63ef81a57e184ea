"""An arm of three links in a vertical plane, a motor and an encoder at each joint, and no other sensor."""

import stepmap as sm

EXAMPLE = {"shoulder": 0.5}


def arm(load: float = 0.5, mass: float = 1.0, damping: float = 0.1) -> sm.System:
    """Uniform links of 0.4, 0.3 and 0.2 m, the first weighing ``mass``; all hang at zero angles; a load at the tip."""
    b = sm.Builder("arm")
    m = b.parameter("mass", mass, unit="kg")
    tip = b.parameter("load", load, unit="kg")
    c = b.parameter("damping", damping, unit="N m s")
    joint = b.world
    for name, length, part, limit in (
        ("shoulder", 0.4, 1.0, 30.0),
        ("elbow", 0.3, 0.6, 12.0),
        ("wrist", 0.2, 0.3, 4.0),
    ):
        angle = b.coordinate(name, unit="rad", low=-3.5, high=3.5)
        middle = joint.rz(angle).ty(-length / 2)
        b.mass(middle, part * m, inertia=(0, 0, part * m * length**2 / 12))
        joint = middle.ty(-length / 2, name=f"after_{name}")
        b.drive(angle, b.input(f"{name}_torque", unit="N m", low=-limit, high=limit))
        b.damping(angle, c)
        b.encoder(angle)
    b.mass(joint, tip)
    b.gravity((0, -9.81, 0))
    return b.build()
