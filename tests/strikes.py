"""Motions with impacts and releases, each as a truth in continuous time and as a system of the catalog beside it.

Energies and gaps are written here in Cartesian positions of masses, apart from the systems' frames.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

import stepmap as sm
from tests.hybrid import Gap, Hybrid, Path


@dataclass(frozen=True)
class Strike:
    """A motion: its truth, and the system that is to follow it from the same pose and velocity."""

    truth: Hybrid
    system: sm.System
    q: tuple[float, ...]
    v: tuple[float, ...]
    seconds: float
    closed: tuple[str, ...] = ()
    inputs: Callable[[np.ndarray], np.ndarray] | None = None  # ρ at times (N,), (N, nk)

    def solve(self) -> Path:
        return self.truth.solve(self.q, self.v, self.seconds, self.closed)

    def rollout(self, dt: float, substeps: int = 1) -> sm.Trajectory:
        """The event step's motion over the same time."""
        step = sm.discretize(self.system, dt, **({"substeps": substeps} if substeps > 1 else {}))
        n = round(self.seconds / dt)
        t = dt * np.arange(n + 1)
        rho = np.zeros((n + 1, 0)) if self.inputs is None else self.inputs(t)
        rate = np.zeros(0) if self.inputs is None else (self.inputs(np.array([1e-6])) - rho[:1])[0] / 1e-6
        x0 = step.from_velocity(np.concatenate([self.q, rho[0]]), np.concatenate([self.v, rate]), instant=True)
        return step.rollout(x0, rho[1:])


def ball() -> Strike:
    """A mass thrown under a held hook: its string goes taut, swings it over the top, and is slack again."""
    m, g, length = 0.1, 9.81, 0.6
    hook = np.array([0.0, 1.0])

    def height(q: ca.SX, t: ca.SX) -> ca.SX:
        return length - ca.sqrt((q[0] - hook[0]) ** 2 + (q[1] - hook[1]) ** 2)

    truth = Hybrid(2, lambda q, v: m / 2 * ca.dot(v, v), lambda q: m * g * q[1], [Gap("string", height)])
    system = sm.systems.get("suspended_mass_string", mass=m, gravity=g)
    hold = lambda t: np.tile([hook[0], length], (len(t), 1))  # noqa: E731
    return Strike(truth, system, (-0.3, 1.1), (3.5, 1.0), 1.6, (), hold)


def arm() -> Strike:
    """Two rods from the origin, the tip on a string whose hook swings and whose length is wound up and down."""
    m, link, g, c, top = 0.5, 0.25, 9.8, 0.01, 1.0
    J = m * link**2 / 12

    def points(q: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX]:
        first = ca.vertcat(ca.cos(q[0]), ca.sin(q[0])) * link
        second = ca.vertcat(ca.cos(q[0] + q[1]), ca.sin(q[0] + q[1])) * link
        return first / 2, first + second / 2, first + second

    def kinetic(q: ca.SX, v: ca.SX) -> ca.SX:
        speeds = [ca.jtimes(point, q, v) for point in points(q)[:2]]
        return sum(m / 2 * ca.dot(s, s) for s in speeds) + J / 2 * (v[0] ** 2 + (v[0] + v[1]) ** 2)

    def potential(q: ca.SX) -> ca.SX:
        return m * g * sum(point[1] for point in points(q)[:2])

    def hook(t: Any, of: Any) -> tuple[Any, Any]:
        return 0.4 + 0.1 * of.sin(4 * t), 0.8 - 0.15 * of.cos(10 * t)

    def height(q: ca.SX, t: ca.SX) -> ca.SX:
        x, length = hook(t, ca)
        tip = points(q)[2]
        return length - ca.sqrt((tip[0] - x) ** 2 + (tip[1] - top) ** 2)

    truth = Hybrid(2, kinetic, potential, [Gap("string", height)], lambda q, v, t: -c * v)
    system = sm.systems.get("planar_arm_string", damping=c)
    return Strike(truth, system, (0.8, 0.3), (0.0, 0.0), 1.0, (), lambda t: np.stack(hook(t, np), axis=1))


def wall(restitution: float) -> Strike:
    """A double pendulum that swings against a wall."""
    g, distance = 9.8, 0.3

    def points(q: ca.SX) -> tuple[ca.SX, ca.SX]:
        first = ca.vertcat(ca.sin(q[0]), -ca.cos(q[0]))
        return first, first + ca.vertcat(ca.sin(q[0] + q[1]), -ca.cos(q[0] + q[1]))

    def kinetic(q: ca.SX, v: ca.SX) -> ca.SX:
        return sum(ca.sumsqr(ca.jtimes(point, q, v)) for point in points(q)) / 2

    truth = Hybrid(
        2,
        kinetic,
        lambda q: g * sum(point[1] for point in points(q)),
        [Gap("wall", lambda q, t: distance - points(q)[1][0], restitution=restitution)],
    )
    system = sm.systems.get("wall_pendulum", restitution=restitution)
    return Strike(truth, system, (-0.5, 0.2), (3.0, -4.0), 1.5)


def wedge(tilt: float = 0.35, speed: float = 0.0, factor: float = 0.5, seconds: float = 0.26) -> Strike:
    """A wedge on its left foot that falls onto its right one, and rocks; feet do not slip."""
    m, length, g = 2.0, 0.2, 9.81
    J = 13 / 48 * m * length**2

    def foot(q: ca.SX, side: int) -> ca.SX:
        x, y = side * length / 2, -np.sqrt(3) / 4 * length
        c, s = ca.cos(q[2]), ca.sin(q[2])
        return ca.vertcat(q[0] + c * x - s * y, q[1] + s * x + c * y)

    gaps = [
        Gap(f"{name}_foot", lambda q, t, s=side: foot(q, s)[1], lambda q, t, s=side: foot(q, s)[0])
        for name, side in (("left", -1), ("right", 1))
    ]
    truth = Hybrid(
        3,
        lambda q, v: factor * (m * (v[0] ** 2 + v[1] ** 2) + J * v[2] ** 2),
        lambda q: m * g * q[1],
        gaps,
    )
    arm_x, arm_y = _turned(length / 2, np.sqrt(3) / 4 * length, tilt)  # from the left foot to the centre
    q, v = (arm_x, arm_y, tilt), (-arm_y * speed, arm_x * speed, speed)
    system = sm.systems.get("rocking_wedge", factor=factor)
    return Strike(truth, system, q, v, seconds, ("left_foot",))


def _turned(x: float, y: float, angle: float) -> tuple[float, float]:
    c, s = float(np.cos(angle)), float(np.sin(angle))
    return c * x - s * y, s * x + c * y
