"""Mechanisms with gaps that are in no catalog, each as a truth in continuous time and as a user would build it."""

from __future__ import annotations

import math
from typing import Any

import casadi as ca
import numpy as np

import stepmap as sm
from tests.hybrid import Gap, Hybrid
from tests.strikes import Strike

G = 9.81


def winch() -> Strike:
    """A load on the floor that a winch jerks up, lets go faster than it falls, catches, and sets down."""
    m, c, aside, top = 0.6, 0.2, 0.2, 1.0

    def length(t: Any, of: Any) -> Any:
        return 1.15 - 0.35 * of.sin(2.2 * t) * of.sin(2.2 * t) + 0.08 * of.sin(14 * t)

    truth = Hybrid(
        2,
        lambda q, v: m / 2 * ca.dot(v, v),
        lambda q: m * G * q[1],
        [
            Gap("line", lambda q, t: length(t, ca) - ca.sqrt((q[0] - aside) ** 2 + (q[1] - top) ** 2)),
            Gap("floor", lambda q, t: q[1]),
        ],
        lambda q, v, t: ca.vertcat(-c * v[0], 0),
    )
    b, (x, z) = _planar("winch")
    reel = b.coordinate("reel", unit="m", kinematic=True, start=1.15)
    load = b.world.tx(x).tz(z, name="load")
    b.mass(load, m)
    b.damping(x, c)
    b.string(b.world.tx(aside).tz(top, name="hook"), load, reel, name="line")
    b.contact(load, b.world, name="floor")
    return Strike(truth, b.build(), (0.0, 0.0), (0.0, 0.0), 1.5, ("floor",), lambda t: length(t, np)[:, None])


def seesaw() -> Strike:
    """A ball that bounces on a beam with a spring: the plane belongs to a body that moves."""
    m, J, k, e = 0.2, 0.08, 6.0, 0.6
    truth = Hybrid(
        3,
        lambda q, v: m / 2 * (v[0] ** 2 + v[1] ** 2) + J / 2 * v[2] ** 2,
        lambda q: m * G * q[1] + k / 2 * q[2] ** 2,
        [Gap("hit", lambda q, t: ca.sin(q[2]) * q[0] + ca.cos(q[2]) * q[1], restitution=e)],
    )
    b, (x, z) = _planar("seesaw")
    tilt = b.coordinate("tilt", unit="rad")
    ball, beam = b.world.tx(x).tz(z, name="ball"), b.world.ry(tilt, name="beam")
    b.mass(ball, m)
    b.mass(beam, 1.0, inertia=(0.0, J, J))
    b.coordinate_spring(tilt, stiffness=k)
    b.contact(ball, beam, restitution=e, name="hit")
    return Strike(truth, b.build(), (0.25, 0.3, 0.05), (-0.1, 0.0, 0.0), 0.7)


def bolas() -> Strike:
    """Two masses tied by a string, thrown; one of them strikes a wall, which slackens the string."""
    m1, m2, length, e = 0.3, 0.5, 0.7, 0.7
    truth = Hybrid(
        4,
        lambda q, v: m1 / 2 * ca.sumsqr(v[:2]) + m2 / 2 * ca.sumsqr(v[2:]),
        lambda q: G * (m1 * q[1] + m2 * q[3]),
        [
            Gap("line", lambda q, t: length - ca.norm_2(q[:2] - q[2:])),
            Gap("wall", lambda q, t: 1.5 - q[0], restitution=e),
        ],
    )
    b, (x1, z1, x2, z2) = _planar("bolas", 2)
    first, second = b.world.tx(x1).tz(z1, name="first"), b.world.tx(x2).tz(z2, name="second")
    b.mass(first, m1)
    b.mass(second, m2)
    b.string(first, second, length, name="line")
    b.contact(first, b.world.tx(1.5).ry(-math.pi / 2, name="side"), restitution=e, name="wall")
    return Strike(truth, b.build(), (0.0, 0.0, 0.3, 0.0), (2.0, 3.0, 1.0, -1.0), 1.0)


def _planar(name: str, points: int = 1) -> tuple[sm.Builder, list[Any]]:
    """A builder with gravity, and coordinates of points in the x-z plane."""
    b = sm.Builder(name)
    b.gravity((0, 0, -G))
    return b, [b.coordinate(f"{axis}{i}", unit="m") for i in range(points) for axis in "xz"]
