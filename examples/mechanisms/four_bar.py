"""A four-bar linkage: a motor turns the crank, a spring pulls at the rocker."""

import stepmap as sm

EXAMPLE = {"crank": 1.0, "coupler": -0.5, "rocker": 1.5}


def four_bar(mass: float = 0.4, stiffness: float = 20.0, damping: float = 0.01) -> sm.System:
    """Bars of 0.15, 0.5 and 0.35 m over a ground of 0.45 m; a mass at the end of coupler and rocker each."""
    b = sm.Builder("four_bar")
    m = b.parameter("mass", mass, unit="kg")
    k = b.parameter("stiffness", stiffness, unit="N/m")
    c = b.parameter("damping", damping, unit="N m s")
    crank = b.coordinate("crank", unit="rad", low=-2.0, high=8.0, start=1.0)
    coupler = b.coordinate("coupler", unit="rad", low=-9.0, high=3.0, start=-0.5)
    rocker = b.coordinate("rocker", unit="rad", low=0.0, high=3.5, start=1.5)
    torque = b.input("torque", unit="N m", low=-3.0, high=3.0)
    knee = b.world.rz(crank).tx(0.15, name="knee")
    pin = knee.rz(coupler).tx(0.5, name="pin")
    ground = b.world.tx(0.45, name="ground")
    end = ground.rz(rocker).tx(0.35, name="end")
    for joint, weight in ((knee, 0.5 * m), (pin, 0.5 * m), (end, 0.5 * m)):
        b.mass(joint, weight, inertia=(0, 0, 1e-3))
    b.point_to_point(pin, end, axes="xy", name="pin")
    b.spring(end, b.world.translate(x=0.8, y=0.2, name="post"), stiffness=k, length=0.2)
    b.gravity((0, -9.81, 0))
    for angle in (crank, rocker):
        b.damping(angle, c)
        b.encoder(angle)
    b.drive(crank, torque)
    return b.build()
