"""The four-link biped of Pekarek's thesis (4.2.2): point feet, knees, hip, and a moment at the foot that stands."""

from __future__ import annotations

import math
from typing import Literal

from stepmap.errors import ModelError
from stepmap.mechanics import Builder, System
from stepmap.systems.contacts import floor
from stepmap.systems.walkers import Legs

KNEES = {"forward": (0.0, 2.0), "backward": (-2.0, 0.0), "free": (-2.0, 2.0)}
EXAMPLE = {"theta1": -0.36, "theta2": 0.2, "theta3": 0.6, "theta4": -0.5}  # about to set down the swing foot


def biped_planar(
    shank: float = 0.5,
    leg: float = 1.0,
    stride: float = 0.56,
    slope: float = 0.0,
    friction: float = 0.0,
    knees: Literal["forward", "backward", "free"] = "forward",
    ankle: bool = True,
) -> System:
    """Stance foot at (x, y); theta1 is the angle of the stance shank, positive where it leans back, others relative.

    Both legs have a ``shank`` and a thigh, ``leg`` [m] together. ``stride`` is a parameter for formulas of gaits, in
    which x' = swing.x − stride. x runs along a ground that falls by ``slope`` [rad]; ``friction`` [N m s] brakes knees
    and hip. Without an ``ankle`` nothing turns the stance shank but gravity and the stance knee.
    """
    if knees not in KNEES:
        raise ModelError(f"biped_planar: knees must be one of {', '.join(KNEES)}, got {knees!r}")
    if not 0 < shank < leg:
        raise ModelError(f"biped_planar: shank must be between 0 and leg ({leg:g} m), got {shank:g}")
    b = Builder("biped_planar")
    lower, whole = b.parameter("shank", shank, unit="m"), b.parameter("leg", leg, unit="m")
    masses = b.parameter("shank_mass", 2.0, unit="kg"), b.parameter("thigh_mass", 3.0, unit="kg")
    part = b.parameter("inertia", 1 / 24)  # of mass · length², about a link's centre
    g, tilt = b.parameter("gravity", 9.81, unit="m/s²"), b.parameter("slope", slope, unit="rad")
    brake = b.parameter("friction", friction, unit="N m s")
    b.parameter("stride", stride, unit="m")
    b.gravity((g * tilt.sin(), -g * tilt.cos(), 0))
    low, high = KNEES[knees]
    bounds = {"theta1": (-1.5, 1.5), "theta2": (low, high), "theta3": (-2.0, 2.0), "theta4": (-high, -low)}
    start = Legs(shank, leg - shank, stride, -0.1 if knees == "backward" else 0.1).pose
    x, y = b.coordinate("x", unit="m"), b.coordinate("y", unit="m")
    foot = b.world.tx(x).ty(y, name="stance")
    ground = floor(b.world, "ground")
    b.contact(foot, ground, friction=math.inf, name="stance")
    shin, femur = (lower, masses[0]), (whole - lower, masses[1])
    links = ((1, *shin, "ankle"), (1, *femur, "stance_knee"), (-1, *femur, "hip"), (-1, *shin, "swing_knee"))
    ends = ("stance_knee", "hip", "swing_knee", "swing")
    for (name, (least, most)), (up, length, mass, motor), end in zip(bounds.items(), links, ends, strict=True):
        angle = b.coordinate(name, unit="rad", low=least, high=most, start=start[name])
        link = foot.rz(angle, name=f"{name}_link")
        b.mass(link.ty(up * length / 2), mass, inertia=(0, 0, part * mass * length**2))
        foot = link.ty(up * length, name=end)
        if motor != "ankle":
            b.damping(angle, brake)
        if motor != "ankle" or ankle:
            b.drive(angle, b.input(motor, unit="N m", low=-140.0, high=140.0))
        b.encoder(angle)
    b.contact(foot, ground, friction=math.inf, name="swing")
    return b.build()
