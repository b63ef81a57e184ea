"""A checker of planar biped gaits that shares nothing with stepmap: the thesis's mechanism in plain numpy.

Derivatives are complex steps. Equations are those of Pekarek's thesis, forces in the middle of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STEP = 1e-30


@dataclass(frozen=True)
class Biped:
    shank: float = 0.5
    leg: float = 1.0
    stride: float = 0.56
    gravity: float = 9.81

    def links(self, q: np.ndarray) -> list[tuple[float, float, np.ndarray, complex]]:
        """Mass, moment of inertia, centre and angle of each link."""
        s, t = self.shank, self.leg - self.shank
        a = np.cumsum(q[2:])
        up = [np.array([-np.sin(one), np.cos(one)]) for one in a]
        foot = q[:2]
        knee, hip = foot + s * up[0], foot + s * up[0] + t * up[1]
        other = hip - t * up[2]
        centres = [foot + s / 2 * up[0], knee + t / 2 * up[1], hip - t / 2 * up[2], other - s / 2 * up[3]]
        sizes = [(2.0, s), (3.0, t), (3.0, t), (2.0, s)]
        return [(m, m * L**2 / 24, c, one) for (m, L), c, one in zip(sizes, centres, a, strict=True)]

    def swing(self, q: np.ndarray) -> np.ndarray:
        s, t = self.shank, self.leg - self.shank
        a = np.cumsum(q[2:])
        x = q[0] + s * (np.sin(a[3]) - np.sin(a[0])) + t * (np.sin(a[2]) - np.sin(a[1]))
        y = q[1] + s * (np.cos(a[0]) - np.cos(a[3])) + t * (np.cos(a[1]) - np.cos(a[2]))
        return np.array([x, y])

    def swing_slope(self, q: np.ndarray) -> np.ndarray:
        return np.array([self.swing(q + 1j * STEP * e).imag / STEP for e in np.eye(6)]).T

    def mass(self, q: np.ndarray) -> np.ndarray:
        rows = [[(c.imag / STEP, a.imag / STEP) for _, _, c, a in self.links(q + 1j * STEP * e)] for e in np.eye(6)]
        M = np.zeros((6, 6))
        for k, (m, J, _, _) in enumerate(self.links(q)):
            D, w = np.array([row[k][0] for row in rows]), np.array([row[k][1] for row in rows])
            M += m * D @ D.T + J * np.outer(w, w)
        return M

    def lagrangian(self, q: np.ndarray, v: np.ndarray) -> complex:
        # Velocities by real differences of high order would not be exact: chain rule, written out.
        s, t = self.shank, self.leg - self.shank
        a, w = np.cumsum(q[2:]), np.cumsum(v[2:])
        turn = [np.array([-np.cos(one), -np.sin(one)]) * rate for one, rate in zip(a, w, strict=True)]
        foot = v[:2]
        knee, hip = foot + s * turn[0], foot + s * turn[0] + t * turn[1]
        other = hip - t * turn[2]
        speeds = [foot + s / 2 * turn[0], knee + t / 2 * turn[1], hip - t / 2 * turn[2], other - s / 2 * turn[3]]
        total = 0.0 + 0.0j
        for (m, J, c, _), u, rate in zip(self.links(q), speeds, w, strict=True):
            total += m / 2 * (u[0] ** 2 + u[1] ** 2) + J / 2 * rate**2 - m * self.gravity * c[1]
        return total

    def ends(self, a: np.ndarray, b: np.ndarray, u: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
        """Momenta at both ends of a step, with half of the impulse of the moments at each."""
        q, v = (a + b) / 2, (b - a) / h
        eye = 1j * STEP * np.eye(6)
        lq = np.array([self.lagrangian(q + e, v).imag / STEP for e in eye])
        lv = np.array([self.lagrangian(q, v + e).imag / STEP for e in eye])
        push = h / 2 * (lq + np.concatenate([[0, 0], np.zeros(4 - len(u)), u]))
        return lv - push, lv + push

    def renamed(self, q: np.ndarray) -> np.ndarray:
        foot = self.swing(q) - [self.stride, 0]
        return np.array([*foot, q[2:].sum(), -q[5], -q[4], -q[3]])


@dataclass(frozen=True)
class Judged:
    """What a gait leaves of its equations, and the ground's forces."""

    motion: float  # discrete Euler–Lagrange, N m s
    closed: float  # m, of the foot that stands
    jump: float  # N m s, from the end to the start through projection, impact and renaming
    periodic: float  # rad or m
    normal: float  # N, least
    cone: float  # largest tangential force as a part of the normal one
    impulse: np.ndarray  # N s, of the landing
    speed: float  # m/s, at which the swing foot comes down
    clearance: np.ndarray  # m, at inner nodes
    newton: float  # how far Newton's law of the centre of mass is off, in weights


def judge(biped: Biped, q: np.ndarray, u: np.ndarray, h: float) -> Judged:
    K = len(u)
    ends = [biped.ends(q[k], q[k + 1], u[k], h) for k in range(K)]
    misses = np.array([ends[k][0] - ends[k - 1][1] for k in range(1, K)])  # what the ground gave
    forces = misses[:, :2] / h
    M = biped.mass(q[-1])
    held = np.zeros(6)
    held[2:] = np.linalg.solve(M[2:, 2:], ends[-1][1][2:])  # the foot stands: its speed is none
    D = biped.swing_slope(q[-1])
    impulse = np.linalg.solve(D @ np.linalg.solve(M, D.T), -D @ held)
    after = held + np.linalg.solve(M, D.T @ impulse)
    start = np.array([0, 0, after[2:].sum(), -after[5], -after[4], -after[3]])
    jump = (biped.mass(q[0]) @ start - ends[0][0])[2:]
    c = np.array([sum(m * c for m, _, c, _ in biped.links(one)) for one in q])
    change = np.diff(np.diff(c, axis=0) / h, axis=0) / h
    off = change - forces - [0, -10 * biped.gravity]
    return Judged(
        float(np.abs(misses[:, 2:]).max()),
        float(np.abs(q[:, :2] - q[0, :2]).max()),
        float(np.abs(jump).max()),
        float(np.abs(biped.renamed(q[-1]) - q[0]).max()),
        float(forces[:, 1].min()),
        float(np.abs(forces[:, 0] / forces[:, 1]).max()),
        impulse,
        float(-(D @ held)[1]),
        np.array([biped.swing(one)[1] for one in q[1:-1]]),
        float(np.abs(off).max() / (10 * biped.gravity)),
    )
