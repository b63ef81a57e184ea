"""A quadrotor in the plane that carries a load on a rod: two thrusts, four degrees of freedom."""

import stepmap as sm

EXAMPLE = {"swing": 0.5}


def quadrotor(mass: float = 0.5, load: float = 0.1, cable: float = 0.5, inertia: float = 4e-3) -> sm.System:
    """Body at (x, y), tilted by pitch; the load hangs straight down at swing = 0."""
    b = sm.Builder("quadrotor")
    m = b.parameter("mass", mass, unit="kg")
    hung = b.parameter("load", load, unit="kg")
    rod = b.parameter("cable", cable, unit="m")
    J = b.parameter("inertia", inertia, unit="kg m²")
    x = b.coordinate("x", unit="m", low=-3.0, high=3.0)
    y = b.coordinate("y", unit="m", low=-3.0, high=3.0)
    pitch = b.coordinate("pitch", unit="rad", low=-1.5, high=1.5)
    swing = b.coordinate("swing", unit="rad", low=-1.5, high=1.5)
    center = b.world.tx(x).ty(y, name="center")
    body = center.rz(pitch, name="body")
    b.mass(body, m, inertia=(0, 0, J))
    weight = center.rz(swing).ty(-rod, name="load")
    b.mass(weight, hung)
    b.gravity((0, -9.81, 0))
    for name, side in (("left", -0.15), ("right", 0.15)):
        thrust = b.input(name, unit="N", low=0.0, high=6.0)
        b.wrench(body.tx(side, name=f"{name}_rotor"), force=(0, thrust, 0))
    b.damping(swing, 2e-3)
    b.marker(center, axes="xy")
    b.encoder(pitch)
    b.marker(weight, axes="xy")
    return b.build()
