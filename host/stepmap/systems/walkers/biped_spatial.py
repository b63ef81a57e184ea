"""The four-link biped of Pekarek's thesis (4.2.3) that walks in space: point feet, knees, and a hip that is a ball.

Both thighs turn freely about the hip, each with an attitude of its own in the world. A mirror image is then a change of
signs, (w, x, y, z) → (w, −x, y, −z), and no pose has a gimbal lock.
"""

from __future__ import annotations

import math

from stepmap.errors import ModelError
from stepmap.mechanics import Builder, System

EXAMPLE = {"z": 1.0}  # both feet above the ground
LATERAL, AXIAL = 31 / 1000, 3 / 500  # moments of inertia of two slender cones base to base, of mass · length²
BEND = 0.1  # rad, of both knees at the start


def biped_spatial(
    shank: float = 0.5,
    leg: float = 1.0,
    stride: float = 0.45,
    width: float = 0.2,
    slope: float = 0.0,
    friction: float = 0.0,
) -> System:
    """The hip is at (x, y, z), z upwards; knees are positive where the shank is behind the thigh.

    At the start both feet stand on the ground, the stance foot behind at (0, width/2, 0), the swing foot ahead at
    (stride, −width/2, 0). Both legs have a ``shank`` and a thigh, ``leg`` [m] together; ``stride`` is a parameter for
    formulas of gaits. x runs along a ground that falls by ``slope`` [rad]; ``friction`` [N m s] brakes hip and knees.
    """
    if not 0 < shank < leg:
        raise ModelError(f"biped_spatial: shank must be between 0 and leg ({leg:g} m), got {shank:g}")
    b = Builder("biped_spatial")
    lower, whole = b.parameter("shank", shank, unit="m"), b.parameter("leg", leg, unit="m")
    masses = b.parameter("shank_mass", 2.0, unit="kg"), b.parameter("thigh_mass", 3.0, unit="kg")
    g, tilt = b.parameter("gravity", 9.81, unit="m/s²"), b.parameter("slope", slope, unit="rad")
    brake = b.parameter("friction", friction, unit="N m s")
    b.parameter("stride", stride, unit="m")
    b.gravity((g * tilt.sin(), 0, -g * tilt.cos()))
    x, y = b.coordinate("x", unit="m"), b.coordinate("y", unit="m")
    hip = b.world.tx(x).ty(y).tz(b.coordinate("z", unit="m", low=0.3 * leg, high=1.2 * leg), name="hip")
    thighs, shins = {}, {}
    for side in ("stance", "swing"):
        angle = b.coordinate(f"{side}_knee", unit="rad", low=0.0, high=2.0)
        thighs[side] = thigh = hip.ball(f"{side}_thigh", speed=10.0)
        b.mass(thigh.tz((lower - whole) / 2), masses[1], inertia=moments(masses[1], whole - lower))
        shins[side] = shin = thigh.tz(lower - whole, name=f"{side}_knee").ry(angle, name=f"{side}_shin")
        b.mass(shin.tz(-lower / 2), masses[0], inertia=moments(masses[0], lower))
        b.contact(shin.tz(-lower, name=side), b.world, friction=math.inf, name=side)
        b.damping(angle, brake)
        b.drive(angle, b.input(f"{side}_knee_y", unit="N m", low=-140.0, high=140.0))
        b.encoder(angle)
        b.direction(thigh, (0, 0, 1), name=f"{side}_up")  # as an inertial unit tells them
        b.direction(thigh, (1, 0, 0), name=f"{side}_north")
    ankle, hips = ([b.input(f"{joint}_{axis}", unit="N m", low=-140.0, high=140.0) for axis in "xyz"]
                   for joint in ("ankle", "hip"))  # fmt: skip
    b.moment(shins["stance"], b.world, ankle)
    b.moment(thighs["swing"], thighs["stance"], hips)
    return b.build().with_start(standing(shank, leg - shank, stride, width))


def moments(mass: object, length: object) -> tuple[object, ...]:
    """Principal moments of a link along z about its centre."""
    across = LATERAL * mass * length**2  # type: ignore[operator]
    return across, across, AXIAL * mass * length**2  # type: ignore[operator]


def standing(shank: float, thigh: float, stride: float, width: float) -> dict[str, object]:
    """The pose at the end of a step: the hip above the middle between both feet."""
    reach = math.sqrt(shank**2 + thigh**2 + 2 * shank * thigh * math.cos(BEND))
    height = math.sqrt(max(reach**2 - (stride**2 + width**2) / 4, 1e-4))
    behind = math.atan2(shank * math.sin(BEND), thigh + shank * math.cos(BEND))
    pose: dict[str, object] = {"x": stride / 2, "z": height, "stance_knee": BEND, "swing_knee": BEND}
    for side, ahead, across in (("stance", -stride / 2, width / 2), ("swing", stride / 2, -width / 2)):
        roll = math.atan2(across, height) / 2
        pitch = -(math.asin(max(-1.0, min(1.0, ahead / reach))) + behind) / 2
        (cr, sr), (cp, sp) = ((math.cos(a), math.sin(a)) for a in (roll, pitch))
        pose[f"{side}_thigh"] = (cr * cp, sr * cp, cr * sp, sr * sp)
    return pose
