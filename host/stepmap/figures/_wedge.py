"""The wedge of Pekarek, 3.5.1, from foot to foot: the map's motion, and a benchmark in continuous time beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from stepmap import systems
from stepmap.arrays import Array
from stepmap.steps import discretize

MASS, LENGTH, GRAVITY = 2.0, 0.2, 9.81
ARM, RISE = math.sqrt(7 / 16) * LENGTH, math.atan(math.sqrt(3) / 2)  # from a foot to the centre [m], its angle [rad]
TILT, SPEED = 1.2049, -7.5715  # the start [rad, rad/s]
DT, END = 0.01, 0.3
INERTIA = (13 / 48 + 7 / 16) * MASS * LENGTH**2  # about a foot [kg m²]
KEPT = 5 / 17  # of the angular speed, at the impact
STANDING = (LENGTH / 2, math.sqrt(3) / 4 * LENGTH, 0.0)
ASSUMPTIONS = (
    "the Lagrangian as printed, q̇ᵀ M q̇ − V without ½: only with it the printed figures come out together",
    f"the start is not printed: θ = {TILT} rad, θ̇ = {SPEED} rad/s, fitted to the printed time of impact and its error",
    "the left foot is a hinge until the impact, as in the text: on that start the ground has to pull at it",
    "the map is the midpoint rule, the text's is Störmer and Verlet's; the benchmark is an eighth-order method",
)


@dataclass(frozen=True)
class Rocking:
    """Times, positions (x, y, θ) and energies; those of the map are over its intervals, at their middle."""

    t: Array
    q: Array
    t_energy: Array
    energy: Array  # total [J]
    impact: float  # [s]
    loss: float  # [J]


def mapped() -> Rocking:
    """By the map: nodes every 10 ms, and one at the impact, which the event tells."""
    hinged = systems.get("rocking_wedge", factor=1.0, pinned=True)
    x, y = ARM * math.cos(TILT + RISE), ARM * math.sin(TILT + RISE)
    start = discretize(hinged, DT).from_velocity(
        {"x": x, "y": y, "theta": TILT}, {"x": -y * SPEED, "y": x * SPEED, "theta": SPEED}, instant=True
    )
    impact = discretize(hinged, DT).rollout(start, np.zeros((30, 0))).events[0]
    part = impact.time - impact.step * DT
    before = discretize(hinged, DT, contacts=())
    fall = before.rollout(start, np.zeros((impact.step + 1, 0)), dt=[*[DT] * impact.step, part])
    after = discretize(systems.get("rocking_wedge", factor=1.0), DT)
    landing = after.from_velocity(STANDING, before.velocity(fall.x[-1]), instant=True)
    steps = round(END / DT) - impact.step
    rise = after.rollout(landing, np.zeros((steps, 0)), dt=[DT - part, *[DT] * (steps - 1)])
    t = np.concatenate([fall.t, impact.time + rise.t[1:]])
    q = np.vstack([fall.x[:, :3], rise.x[1:, :3]])
    energy = _discrete_energy(t, q)
    lost = float(energy[impact.step] - energy[impact.step + 1])
    return Rocking(t, q, (t[1:] + t[:-1]) / 2, energy, impact.time, lost)


def benchmark(samples: int = 400) -> Rocking:
    """Two inverted pendulums, patched with the analytical jump of the angular velocity."""

    def landed(t: float, state: Array) -> float:
        return float(state[0])

    landed.terminal = True  # type: ignore[attr-defined]
    fine = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-12, "dense_output": True}
    turn = MASS * GRAVITY * ARM / (2 * INERTIA)
    fall = solve_ivp(lambda t, s: [s[1], -turn * math.cos(s[0] + RISE)], (0, 1), [TILT, SPEED], events=landed, **fine)
    impact, speed = float(fall.t[-1]), float(fall.y[1, -1])
    rise = solve_ivp(lambda t, s: [s[1], turn * math.cos(s[0] - RISE)], (impact, END), [0.0, KEPT * speed], **fine)
    early = np.linspace(0, impact, samples)
    late = np.linspace(impact, END, samples)
    left, right = fall.sol(early), rise.sol(late)
    q = np.vstack(
        [
            np.stack([ARM * np.cos(left[0] + RISE), ARM * np.sin(left[0] + RISE), left[0]], axis=1),
            np.stack([LENGTH - ARM * np.cos(right[0] - RISE), -ARM * np.sin(right[0] - RISE), right[0]], axis=1),
        ]
    )
    t, rate = np.concatenate([early, late]), np.concatenate([left[1], right[1]])
    energy = INERTIA * rate**2 + MASS * GRAVITY * q[:, 1]
    return Rocking(t, q, t, energy, impact, INERTIA * speed**2 * (1 - KEPT**2))


def _discrete_energy(t: Array, q: Array) -> Array:
    """−∂Ld/∂h of every interval: kinetic energy of its chord, potential energy at its middle."""
    v = np.diff(q, axis=0) / np.diff(t)[:, None]
    kinetic = MASS * (v[:, 0] ** 2 + v[:, 1] ** 2 + 13 / 48 * LENGTH**2 * v[:, 2] ** 2)
    total: Array = kinetic + MASS * GRAVITY * (q[1:, 1] + q[:-1, 1]) / 2
    return total
