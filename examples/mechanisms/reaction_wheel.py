"""A pendulum that swings up by turning a wheel at its end (Spong, Corke & Lozano, 2001)."""

import stepmap as sm

EXAMPLE = {"theta": 2.5}


def reaction_wheel(mass: float = 0.5, length: float = 0.3, wheel_inertia: float = 2e-3) -> sm.System:
    """Rod and wheel weigh ``mass`` at the hub; the motor turns the wheel against the rod, which hangs at theta = 0."""
    b = sm.Builder("reaction_wheel")
    m = b.parameter("mass", mass, unit="kg")
    rod = b.parameter("length", length, unit="m")
    J = b.parameter("wheel_inertia", wheel_inertia, unit="kg m²")
    theta = b.coordinate("theta", unit="rad", low=-7.0, high=7.0)
    wheel = b.coordinate("wheel", unit="rad", low=-400.0, high=400.0)
    torque = b.input("torque", unit="N m", low=-0.6, high=0.6)
    hub = b.world.rz(theta, name="pivot").ty(-rod, name="hub")
    b.mass(hub, m, inertia=(0, 0, 1e-3))
    rim = hub.rz(wheel, name="rim")
    b.mass(rim, 0.0, inertia=(0, 0, J))
    b.gravity((0, -9.81, 0))
    b.damping(theta, 1e-3)
    b.damping(wheel, 1e-4)
    b.drive(wheel, torque)
    b.encoder(theta)
    b.encoder(wheel)
    return b.build()
