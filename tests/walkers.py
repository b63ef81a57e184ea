"""Machines that walk down a slope: their strides by the map, and in continuous time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca
import numpy as np
from scipy.integrate import solve_ivp

import stepmap as sm
from tests.hybrid import Gap, Hybrid

LEG, HIP_MASS, LEG_MASS, GRAVITY = 1.0, 10.0, 5.0, 9.8  # of the compass; a leg's mass is at its middle
SOON = 0.1  # s: the swinging foot begins on the ground, and no stride ends before


@dataclass(frozen=True)
class Stride:
    """How a compass stands right after a landing, (stance, swing, their rates), and the time since the one before."""

    state: np.ndarray
    time: float

    @classmethod
    def of(cls, left: float, right: float, left_rate: float, right_rate: float, time: float) -> Stride:
        """After the right foot has landed."""
        return cls(np.array([right, left, right_rate, left_rate]), time)


def full(state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pose and velocity (x, y, left, right) of a compass that stands on its left foot, at the origin."""
    stance, swing, stance_rate, swing_rate = state
    c, s = LEG * math.cos(stance), LEG * math.sin(stance)
    return np.array([-s, c, stance, swing]), np.array([-c * stance_rate, -s * stance_rate, stance_rate, swing_rate])


def mapped(dt: float, slope: float = math.radians(3.0)) -> Callable[[np.ndarray], Stride]:
    """A stride by the map: the swinging foot exists from the last node before it lands."""
    system = sm.systems.get("compass_walker", slope=slope)
    stance = sm.discretize(system, dt, contacts=("left_foot",))
    both = sm.discretize(system, dt)

    def stride(state: np.ndarray) -> Stride:
        start = stance.from_velocity(*full(state), instant=True)
        free = stance.rollout(start, np.zeros((round(1.0 / dt), 0)))
        k = _landing(free.t, free.x[:, 2] + free.x[:, 3] + 2 * slope)
        struck = both.step(free.x[k], np.zeros(0)).events[0]
        assert (struck.name, struck.kind) == ("right_foot", "impact")
        last = stance.rollout(free.x[k], np.zeros((1, 0)), dt=[struck.time]).x[-1]
        struck_with = both.from_velocity(last[:4], stance.velocity(last), instant=True)  # p holds back nothing else
        return Stride.of(*last[2:4], *both.velocity(struck_with)[2:], free.t[k] + struck.time)

    return stride


def _landing(t: np.ndarray, lead: np.ndarray) -> int:
    """The last node before both legs are again at equal angles from the slope's normal, the swinging one ahead."""
    return int(np.flatnonzero((t[:-1] > SOON) & (lead[:-1] > 0) & (lead[1:] <= 0))[0])


def continuous(slope: float = math.radians(3.0)) -> Callable[[np.ndarray], Stride]:
    """A stride in continuous time."""
    truth = _compass(slope)

    def lead(t: float, state: np.ndarray) -> float:
        return float(state[2] + state[3] + 2 * slope)

    lead.direction = -1  # type: ignore[attr-defined]

    def rate(t: float, state: np.ndarray) -> np.ndarray:
        return np.concatenate([state[4:], truth.acceleration(t, state, {0})[0]])

    def stride(state: np.ndarray) -> Stride:
        found = solve_ivp(rate, (0, 1.0), np.concatenate(full(state)), "DOP853", events=lead, rtol=1e-10, atol=1e-11)
        i = int(np.flatnonzero(found.t_events[0] > SOON)[0])
        time, before = found.t_events[0][i], found.y_events[0][i]
        M, _, _, J, speed, _, _ = truth.evaluate(time, before)
        J, speed = J[2:], speed[2:, 0]  # the foot that lands; the other one leaves
        impulse = np.linalg.solve(J @ np.linalg.solve(M, J.T), -speed)
        after = before[4:] + np.linalg.solve(M, J.T @ impulse)
        return Stride.of(*before[2:4], *after[2:], time)

    return stride


def _compass(slope: float) -> Hybrid:
    def foot(q: ca.SX, i: int) -> ca.SX:
        return q[:2] + LEG * ca.vertcat(ca.sin(q[2 + i]), -ca.cos(q[2 + i]))

    def kinetic(q: ca.SX, v: ca.SX) -> ca.SX:
        legs = [ca.jtimes((q[:2] + foot(q, i)) / 2, q, v) for i in (0, 1)]
        return HIP_MASS / 2 * ca.sumsqr(v[:2]) + LEG_MASS / 2 * sum(ca.sumsqr(leg) for leg in legs)

    def potential(q: ca.SX) -> ca.SX:
        return GRAVITY * (HIP_MASS * q[1] + LEG_MASS * sum((q[1] + foot(q, i)[1]) / 2 for i in (0, 1)))

    normal = ca.DM([math.sin(slope), math.cos(slope)])
    along = ca.DM([math.cos(slope), -math.sin(slope)])
    gaps = [
        Gap(name, lambda q, t, i=i: ca.dot(normal, foot(q, i)), lambda q, t, i=i: ca.dot(along, foot(q, i)))
        for i, name in enumerate(("left", "right"))
    ]
    return Hybrid(4, kinetic, potential, gaps)


def cycle(stride: Callable[[np.ndarray], Stride], state: np.ndarray, strides: int = 40) -> Stride:
    """The limit cycle, by walking until strides repeat."""
    found = stride(state)
    for _ in range(strides):
        after = stride(found.state)
        if np.abs(after.state - found.state).max() < 1e-8:
            return after
        found = after
    return found


@dataclass(frozen=True)
class Return:
    """The return map of a compass; both feet on the slope leave one angle and two rates."""

    stride: Callable[[np.ndarray], Stride]
    slope: float

    def __call__(self, reduced: np.ndarray) -> np.ndarray:
        stance, *rates = reduced
        return self.stride(np.array([stance, -2 * self.slope - stance, *rates])).state[[0, 2, 3]]

    def jacobian(self, reduced: np.ndarray, by: float = 1e-4) -> np.ndarray:
        """By central differences."""
        return np.array([(self(reduced + d) - self(reduced - d)) / (2 * by) for d in by * np.eye(3)]).T

    def fixed(self, reduced: np.ndarray, iterations: int = 4) -> np.ndarray:
        """The cycle near that start, whether it attracts or not, by Newton's method."""
        for _ in range(iterations):
            reduced = reduced + np.linalg.solve(np.eye(3) - self.jacobian(reduced), self(reduced) - reduced)
        return reduced

    def multipliers(self, state: np.ndarray) -> np.ndarray:
        return np.linalg.eigvals(self.jacobian(state[[0, 2, 3]]))


@dataclass(frozen=True)
class Wheel:
    """The published gait of a rimless wheel: speed right after an impact, multiplier of its square.

    McGeer 1990; Coleman, Chatterjee & Ruina 1997. m = l = 1; half the angle between spokes, slope and inertia are those
    of the catalog.
    """

    half: float = math.pi / 8
    slope: float = 0.08
    inertia: float = 0.05
    gravity: float = 9.81

    @property
    def kept(self) -> float:
        """ω⁺/ω⁻."""
        return (math.cos(2 * self.half) + self.inertia) / (1 + self.inertia)

    @property
    def speed(self) -> float:
        gained = 4 * self.gravity * math.sin(self.half) * math.sin(self.slope) / (1 + self.inertia)
        return math.sqrt(gained * self.kept**2 / (1 - self.kept**2))

    def rolled(self, dt: float, seconds: float = 25.0) -> np.ndarray:
        """Squares of the speeds after impacts, by the map, from the energies that impacts take."""
        step = sm.discretize(sm.systems.get("rimless_wheel"), dt)
        velocity = {"x": math.cos(0.05), "y": -math.sin(0.05), "theta": -1.0}  # 0.05 rad past the vertical
        start = step.from_velocity(sm.systems.example("rimless_wheel"), velocity, instant=True)
        events = step.rollout(start, np.zeros((round(seconds / dt), 0))).events
        lost = np.array([event.energy for event in events if event.kind == "impact"])
        return 2 * lost / ((1 + self.inertia) * (1 / self.kept**2 - 1))
