"""A body that hops straight up on a leg: two phases, stance and flight, joined by a landing and a lift-off."""

from __future__ import annotations

from stepmap.mechanics import Builder, System
from stepmap.systems.contacts import floor

EXAMPLE = {"foot": 0.2, "leg": 0.5}


def hopper(
    body_mass: float = 4.0,
    foot_mass: float = 0.5,
    length: float = 0.5,
    stiffness: float = 400.0,
    gravity: float = 9.81,
) -> System:
    """``foot`` is the height of the foot, ``leg`` the distance from there to the body; ``push`` drives them apart.

    A spring with the rest length ``length`` [m] works beside the motor. The foot does not bounce.
    """
    b = Builder("hopper")
    heavy, light = b.parameter("body_mass", body_mass, unit="kg"), b.parameter("foot_mass", foot_mass, unit="kg")
    rest = b.parameter("length", length, unit="m")
    k, g = b.parameter("stiffness", stiffness, unit="N/m"), b.parameter("gravity", gravity, unit="m/s²")
    height = b.coordinate("foot", unit="m", low=-0.01, high=2.0)
    leg = b.coordinate("leg", unit="m", low=0.2, high=0.8, start=length)
    push = b.input("push", unit="N", low=-200.0, high=200.0)
    b.gravity((0, -g, 0))
    toe = b.world.ty(height, name="toe")
    body = toe.ty(leg, name="body")
    b.mass(toe, light)
    b.mass(body, heavy)
    b.coordinate_spring(leg, stiffness=k, rest=rest)
    b.drive(leg, push)
    b.contact(toe, floor(b.world, "ground"), name="ground")
    b.encoder(height)
    b.encoder(leg)
    return b.build()
