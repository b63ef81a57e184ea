"""A satellite that turns itself by three reaction wheels: its attitude is free, its angular momentum is kept."""

from __future__ import annotations

from stepmap.mechanics import Builder, System

EXAMPLE = {"attitude": (0.8, 0.4, -0.4, 0.2)}


def satellite(
    inertia: tuple[float, float, float] = (0.9, 0.8, 0.6),
    wheel: float = 0.004,
    torque: float = 0.05,
    drag: float = 1e-4,
) -> System:
    """A body with principal moments of ``inertia`` [kg m²] and a wheel on each axis, driven by up to ``torque`` [N m].

    Encoders read the wheels, and two points on booms are seen from outside.
    """
    b = Builder("satellite")
    spin, c = b.parameter("wheel", wheel, unit="kg m²"), b.parameter("drag", drag, unit="N m s")
    body = b.world.ball("attitude", name="body", speed=2.0)
    b.mass(body, 20.0, inertia=inertia)
    for axis, moments in zip("xyz", ((spin, 0, 0), (0, spin, 0), (0, 0, spin)), strict=True):
        angle = b.coordinate(f"wheel_{axis}", unit="rad", low=-2000.0, high=2000.0)
        turned = {"x": body.rx, "y": body.ry, "z": body.rz}[axis](angle, name=f"{axis}_wheel")
        b.mass(turned, 0.0, inertia=moments)
        b.damping(angle, c)
        b.drive(angle, b.input(f"torque_{axis}", unit="N m", low=-torque, high=torque))
        b.encoder(angle)
    b.marker(body.tx(1.0, name="boom"))
    b.marker(body.ty(1.0, name="panel"))
    return b.build()
