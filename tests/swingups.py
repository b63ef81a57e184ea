"""Mechanisms that are to swing up and stay up, with the torque each has: for searches with hard limits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import stepmap as sm

GRAVITY = 9.8  # m/s²


def two_links(name: str, driven: int) -> sm.System:
    """Two uniform rods of 1 kg and 1 m, the second hinged to the first; a torque at one of the joints."""
    b = sm.Builder(name)
    joint = b.world
    for i in (1, 2):
        angle = b.coordinate(f"a{i}", unit="rad")
        rod = joint.rz(angle, name=f"joint{i}").ty(-0.5, name=f"rod{i}")
        b.mass(rod, 1.0, inertia=(0, 0, 1 / 12))
        joint = rod.ty(-0.5, name=f"end{i}")
        b.damping(angle, 0.05)
        if i == driven:
            b.drive(angle, b.input("torque", unit="N m"))
    b.gravity((0, -GRAVITY, 0))
    return b.build()


def rotary_pendulum() -> sm.System:
    """A rod of 0.2 m and 50 g, swinging at the tip of an arm of 0.1 m that a motor turns about the vertical."""
    b = sm.Builder("furuta")
    phi, theta = b.coordinate("phi", unit="rad"), b.coordinate("theta", unit="rad")
    torque = b.input("torque", unit="N m")
    arm = b.world.ry(phi, name="motor")
    b.mass(arm, 0.1, inertia=(0, 5e-4, 0))
    rod = arm.tx(0.1, name="tip").rx(theta, name="pivot").ty(-0.1, name="rod")
    b.mass(rod, 0.05, inertia=(1.7e-4, 0, 1.7e-4))
    b.gravity((0, -GRAVITY, 0))
    b.damping(phi, 1e-4)
    b.damping(theta, 2e-5)
    b.drive(phi, torque)
    return b.build()


def reaction_wheel() -> sm.System:
    """A rod of 0.3 m with a wheel at its end, whose motor turns it against the rod."""
    b = sm.Builder("reaction_wheel")
    theta, wheel = b.coordinate("theta", unit="rad"), b.coordinate("wheel", unit="rad")
    torque = b.input("torque", unit="N m")
    hub = b.world.rz(theta, name="pivot").ty(-0.3, name="hub")
    b.mass(hub, 0.3, inertia=(0, 0, 1e-3))
    b.mass(hub.rz(wheel, name="rim"), 0.2, inertia=(0, 0, 2e-3))
    b.gravity((0, -GRAVITY, 0))
    b.damping(theta, 1e-3)
    b.damping(wheel, 1e-4)
    b.drive(wheel, torque)
    return b.build()


@dataclass(frozen=True)
class SwingUp:
    """A system, the limit of its input, time step and duration, and where it is to stand."""

    name: str
    make: Callable[[], sm.System]
    limit: float
    dt: float
    steps: int
    goal: dict[str, float]

    @functools.cached_property
    def step(self) -> sm.VariationalStep:
        return sm.discretize(self.make(), self.dt)


PI = 3.141592653589793
CASES = {
    case.name: case
    for case in (
        SwingUp("acrobot", lambda: two_links("acrobot", 2), 10.0, 0.025, 200, {"a1": PI}),
        SwingUp("pendubot", lambda: two_links("pendubot", 1), 15.0, 0.02, 200, {"a1": PI}),
        SwingUp("furuta", rotary_pendulum, 0.04, 0.01, 200, {"theta": PI}),
        SwingUp("cart", lambda: sm.systems.get("cart_pendulum"), 60.0, 0.02, 250, {"theta": PI}),
        SwingUp("pendulum", lambda: sm.systems.get("pendulum"), 2.0, 0.05, 200, {"theta": PI}),
        SwingUp("reaction_wheel", reaction_wheel, 0.3, 0.02, 200, {"theta": PI}),
    )
}
