"""A planar double pendulum with torques at both joints (Murphey & Johnson, Fig. 3)."""

from __future__ import annotations

from stepmap.mechanics import Builder, System

EXAMPLE = {"theta1": 2.0, "theta2": 1.0}


def double_pendulum(
    mass1: float = 1.0,
    mass2: float = 1.0,
    length1: float = 1.0,
    length2: float = 1.0,
    gravity: float = 9.8,
    damping: float = 0.0,
    actuated: bool = True,
) -> System:
    """Two point masses on massless rods; theta2 is relative to the first. ``actuated=False`` leaves out the torques."""
    b = Builder("double_pendulum")
    masses = (b.parameter("mass1", mass1, unit="kg"), b.parameter("mass2", mass2, unit="kg"))
    rods = (b.parameter("length1", length1, unit="m"), b.parameter("length2", length2, unit="m"))
    g = b.parameter("gravity", gravity, unit="m/s²")
    c = b.parameter("damping", damping, unit="N m s")
    b.gravity((0, -g, 0))
    joint = b.world
    for i in (1, 2):
        theta = b.coordinate(f"theta{i}", unit="rad", low=-7.0, high=7.0)
        joint = joint.rz(theta, name=f"joint{i}").ty(-rods[i - 1], name=f"mass{i}")
        b.mass(joint, masses[i - 1])
        b.damping(theta, c)
        b.encoder(theta)
        if actuated:
            b.drive(theta, b.input(f"torque{i}", unit="N m", low=-50.0, high=50.0))
    return b.build()
