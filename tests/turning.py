"""Mechanisms that turn freely, and what they do by laws written here: Newton and Euler, solved by DOP853."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import stepmap as sm

INERTIA = np.array([0.02, 0.035, 0.05])
MASS, ARM, GRAVITY = 0.8, 0.25, 9.81
PUSH, TWIST = np.array([0.6, -0.4, 9.0]), np.array([0.05, -0.08, 0.06])  # N, N m, in the body's axes
START = np.array([0.6, -0.48, 0.36, 0.528])
START /= np.linalg.norm(START)
OMEGA = np.array([1.3, -0.7, 2.1])


def free_body(gravity: float = 0.0) -> sm.System:
    """A rigid body in space, with a wrench of six inputs in its own axes."""
    b = sm.Builder("free_body")
    body = b.world.free("body")
    b.mass(body, MASS, inertia=INERTIA)
    b.gravity((0, 0, -gravity))
    names = ("fx", "fy", "fz", "mx", "my", "mz")
    force = [b.input(name) for name in names]
    b.wrench(body, force=force[:3], moment=force[3:])
    return b.build()


def top() -> sm.System:
    """A heavy symmetric top on a fixed point."""
    b = sm.Builder("top")
    pivot = b.world.ball("top")
    b.mass(pivot.tz(ARM, name="centre"), MASS, inertia=(0.01, 0.01, 0.02))
    b.gravity((0, 0, -GRAVITY))
    return b.build()


def arm() -> sm.System:
    """Ball, hinge, ball: two links and a hand, with moments at all joints."""
    b = sm.Builder("arm")
    u = [b.input(f"u{i}") for i in range(7)]
    shoulder = b.world.ball("shoulder")
    b.mass(shoulder.tz(-0.15), 1.0, inertia=(0.01, 0.012, 0.003))
    elbow = b.coordinate("elbow", unit="rad")
    fore = shoulder.tz(-0.3).ry(elbow, name="fore")
    b.mass(fore.tz(-0.12), 0.6, inertia=(0.006, 0.005, 0.002))
    hand = fore.tz(-0.25).ball("wrist", name="hand")
    b.mass(hand.tz(-0.05, name="tip"), 0.3, inertia=(0.002, 0.001, 0.0015))
    b.gravity((0, 0, -GRAVITY))
    b.drive(shoulder, u[:3])
    b.drive(elbow, u[3])
    b.drive(hand, u[4:])
    return b.build()


def rotation(q: np.ndarray) -> np.ndarray:
    """The matrix of a unit quaternion."""
    w, v = q[0], q[1:]
    hat = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.eye(3) + 2 * w * hat + 2 * hat @ hat


def turning(q: np.ndarray, w: np.ndarray) -> np.ndarray:
    """dq/dt = ½ q ω."""
    return 0.5 * np.concatenate([[-q[1:] @ w], q[0] * w + np.cross(q[1:], w)])


def solved(rate: Callable[[float, np.ndarray], np.ndarray], start: np.ndarray, time: float) -> np.ndarray:
    """The state after some time, to 1e-12."""
    found = solve_ivp(rate, (0.0, time), start, method="DOP853", rtol=1e-13, atol=1e-13)
    return found.y[:, -1]


def free_body_truth(time: float, gravity: float, force: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """Position and quaternion from START at the origin at rest but for OMEGA."""

    def rate(t: float, y: np.ndarray) -> np.ndarray:
        velocity, q, w = y[3:6], y[6:10], y[10:]
        acceleration = rotation(q) @ force / MASS - [0, 0, gravity]
        spin = (moment - np.cross(w, INERTIA * w)) / INERTIA
        return np.concatenate([velocity, acceleration, turning(q, w), spin])

    y = solved(rate, np.concatenate([np.zeros(6), START, OMEGA]), time)
    return np.concatenate([y[:3], y[6:10]])


def top_truth(time: float, start: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """The quaternion of the heavy top: Euler's equations about its fixed point."""
    inertia = np.array([0.01 + MASS * ARM**2, 0.01 + MASS * ARM**2, 0.02])

    def rate(t: float, y: np.ndarray) -> np.ndarray:
        q, w = y[:4], y[4:]
        down = rotation(q).T @ [0, 0, -MASS * GRAVITY]
        return np.concatenate([turning(q, w), (np.cross([0, 0, ARM], down) - np.cross(w, inertia * w)) / inertia])

    return solved(rate, np.concatenate([start, omega]), time)[:4]


def arm_truth(time: float, poses: tuple[np.ndarray, float, np.ndarray], rates: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Shoulder, elbow and wrist of ``arm`` after some time under held moments: pinocchio's dynamics."""
    pin = pytest.importorskip("pinocchio")
    model, at = pin.Model(), 0
    links = (
        (pin.JointModelSpherical(), 0.0, 1.0, -0.15, (0.01, 0.012, 0.003)),
        (pin.JointModelRY(), -0.3, 0.6, -0.12, (0.006, 0.005, 0.002)),
        (pin.JointModelSpherical(), -0.25, 0.3, -0.05, (0.002, 0.001, 0.0015)),
    )
    for i, (joint, height, mass, centre, moments) in enumerate(links):
        at = model.addJoint(at, joint, pin.SE3(np.eye(3), np.array([0, 0, height])), f"joint{i}")
        body = pin.Inertia(mass, np.array([0, 0, centre]), np.diag(moments))
        model.appendBodyToJoint(at, body, pin.SE3.Identity())
    model.gravity.linear = np.array([0, 0, -GRAVITY])
    data = model.createData()

    def rate(t: float, y: np.ndarray) -> np.ndarray:
        first, elbow, last, v = y[:4], y[4], y[5:9], y[9:]
        q = np.concatenate([first[[1, 2, 3, 0]], [elbow], last[[1, 2, 3, 0]]])
        return np.concatenate([turning(first, v[:3]), v[3:4], turning(last, v[4:]), pin.aba(model, data, q, v, u)])

    return solved(rate, np.concatenate([poses[0], [poses[1]], poses[2], rates]), time)[:9]
