"""A crane on three axes: bridge, trolley and winch are servos, the load swings on its cable in space."""

import stepmap as sm

EXAMPLE = {"x": 0.3}


def crane(mass: float = 20.0, damping: float = 1.0) -> sm.System:
    """Load at (x, y, z); z is up, and the rails are at z = 0."""
    b = sm.Builder("crane")
    m = b.parameter("mass", mass, unit="kg")
    c = b.parameter("damping", damping, unit="N s/m")
    x = b.coordinate("x", unit="m", low=-1.0, high=4.0)
    y = b.coordinate("y", unit="m", low=-1.0, high=3.0)
    z = b.coordinate("z", unit="m", low=-3.0, high=-0.5, start=-2.0)
    bridge = b.coordinate("bridge", unit="m", low=-1.0, high=4.0, kinematic=True)
    trolley = b.coordinate("trolley", unit="m", low=-1.0, high=3.0, kinematic=True)
    cable = b.coordinate("cable", unit="m", low=0.5, high=3.0, start=2.0, kinematic=True)
    hook = b.world.tx(bridge).ty(trolley, name="hook")
    load = b.world.tx(x).ty(y).tz(z, name="load")
    b.mass(load, m)
    b.gravity((0, 0, -9.81))
    for drag in (x, y):
        b.damping(drag, c)
    b.distance(hook, load, cable, name="rope")
    b.marker(load, axes="xyz")
    for servo in (bridge, trolley, cable):
        b.encoder(servo)
    return b.build()
