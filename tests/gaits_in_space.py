"""A checker of spatial biped gaits that shares nothing with stepmap: the mechanism in plain numpy.

The discrete action of a step is varied by complex steps, so its equations are those of Hamilton's principle itself:
geodesic middles and rotation vectors of unit quaternions (w, x, y, z) stand here instead of any formula for their
derivatives. Variations of a thigh are turns about its own axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

TINY = 1e-30
NAMES = [
    *("x", "y", "z", "stance_knee", *(f"stance_thigh.{e}" for e in "wxyz")),
    *("swing_knee", *(f"swing_thigh.{e}" for e in "wxyz")),
]
INPUTS = ["stance_knee_y", "swing_knee_y", "ankle_x", "ankle_y", "ankle_z", "hip_x", "hip_y", "hip_z"]
DOWN = np.array([0.0, 0.0, -1.0])
MIRROR = np.array([1.0, -1.0, 1.0])  # of vectors, across y = 0; turns have the other signs
SIDES = ("stance", "swing")


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.array([a[0] * b[0] - a[1:] @ b[1:], *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))])


def turned_back(a: np.ndarray) -> np.ndarray:
    return a * [1, -1, -1, -1]


def matrix(a: np.ndarray) -> np.ndarray:
    cross = np.cross(np.eye(3), a[1:])  # cross @ b is a[1:] × b
    return np.eye(3) + 2 * a[0] * cross + 2 * cross @ cross


def about_y(angle: complex) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def vector(a: np.ndarray) -> np.ndarray:
    """The rotation vector of a unit quaternion."""
    r = np.sqrt(a[1:] @ a[1:])
    return 2 * np.arctan(r / a[0]) / r * a[1:] if abs(r) > 1e-12 else 2 * a[1:] / a[0]


def root(a: np.ndarray) -> np.ndarray:
    return np.array([1 + a[0], *a[1:]]) / np.sqrt(2 * (1 + a[0]))


class Pose(NamedTuple):
    hip: np.ndarray
    knees: tuple[complex, complex]
    thighs: tuple[np.ndarray, np.ndarray]  # quaternions

    @classmethod
    def of(cls, q: np.ndarray) -> Pose:
        """From the stored numbers in the order of NAMES."""
        return cls(q[:3], (q[3], q[8]), (q[4:8], q[9:13]))

    def moved(self, by: np.ndarray) -> Pose:
        """By a small variation (x, y, z, knee and turn of the stance leg, of the swing leg)."""
        turns = [
            times(thigh, np.array([1, *(by[at : at + 3] / 2)])) for thigh, at in zip(self.thighs, (4, 8), strict=True)
        ]
        return Pose(self.hip + by[:3], (self.knees[0] + by[3], self.knees[1] + by[7]), (turns[0], turns[1]))


class Velocity(NamedTuple):
    hip: np.ndarray
    knees: tuple[complex, complex]
    turns: tuple[np.ndarray, np.ndarray]  # in the thighs' axes

    @classmethod
    def of(cls, v: np.ndarray) -> Velocity:
        return cls(v[:3], (v[3], v[7]), (v[4:7], v[8:11]))


class Part(NamedTuple):
    mass: float
    inertia: np.ndarray  # principal
    centre: np.ndarray
    axes: np.ndarray
    speed: np.ndarray
    spin: np.ndarray  # in its axes


@dataclass(frozen=True)
class SpatialBiped:
    shank: float = 0.5
    leg: float = 1.0
    stride: float = 0.45
    gravity: float = 9.81

    @property
    def weight(self) -> float:
        return 10 * self.gravity

    def feet(self, q: Pose) -> list[np.ndarray]:
        return [points[2] for points in self.legs(q)]

    def legs(self, q: Pose) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Hip, knee and foot of both legs."""
        out = []
        for thigh, knee in zip(q.thighs, q.knees, strict=True):
            axes = matrix(thigh)
            bend = q.hip + (self.leg - self.shank) * axes @ DOWN
            out.append((q.hip, bend, bend + self.shank * axes @ about_y(knee) @ DOWN))
        return out

    def parts(self, q: Pose, v: Velocity) -> list[Part]:
        found, long = [], self.leg - self.shank
        for thigh, knee, spin, rate in zip(q.thighs, q.knees, v.turns, v.knees, strict=True):
            axes, bent = matrix(thigh), about_y(knee)
            lower, turn = axes @ bent, bent.T @ spin + np.array([0, rate, 0])
            bend, speed = q.hip + long * axes @ DOWN, v.hip + long * axes @ np.cross(spin, DOWN)
            upper = (q.hip + bend) / 2, axes, (v.hip + speed) / 2, spin
            shin = bend + self.shank / 2 * lower @ DOWN, lower, speed + self.shank / 2 * lower @ np.cross(turn, DOWN)
            for mass, length, part in ((3.0, long, upper), (2.0, self.shank, (*shin, turn))):
                inertia = mass * length**2 * np.array([31 / 1000, 31 / 1000, 3 / 500])
                found.append(Part(mass, inertia, *part))
        return found

    def kinetic(self, q: Pose, v: Velocity) -> complex:
        return sum(p.mass / 2 * p.speed @ p.speed + p.spin @ (p.inertia * p.spin) / 2 for p in self.parts(q, v))

    def lagrangian(self, q: Pose, v: Velocity) -> complex:
        return self.kinetic(q, v) - sum(p.mass * self.gravity * p.centre[2] for p in self.parts(q, v))

    def mass(self, q: Pose) -> np.ndarray:
        unit = np.eye(11)
        rows = [[self.kinetic(q, Velocity.of(a + 1j * TINY * b)).imag / TINY for b in unit] for a in unit]
        return np.array(rows)

    def foot_slopes(self, q: Pose) -> list[np.ndarray]:
        moved = [self.feet(q.moved(1j * TINY * e)) for e in np.eye(11)]
        return [np.array([feet[i].imag / TINY for feet in moved]).T for i in (0, 1)]

    def renamed(self, q: np.ndarray) -> np.ndarray:
        turn = np.array([1, -1, 1, -1])
        place = MIRROR * q[:3] - [self.stride, 0, 0]
        return np.concatenate([place, q[8:9], turn * q[9:13], q[3:4], turn * q[4:8]])


def between(a: Pose, b: Pose, h: float) -> tuple[Pose, Velocity]:
    """The middle of a step, and the velocity there."""
    steps = [times(turned_back(one), other) for one, other in zip(a.thighs, b.thighs, strict=True)]
    middles = [times(one, root(step)) for one, step in zip(a.thighs, steps, strict=True)]
    knees = [((one + other) / 2, (other - one) / h) for one, other in zip(a.knees, b.knees, strict=True)]
    pose = Pose((a.hip + b.hip) / 2, (knees[0][0], knees[1][0]), (middles[0], middles[1]))
    turns = [vector(step) / h for step in steps]
    return pose, Velocity((b.hip - a.hip) / h, (knees[0][1], knees[1][1]), (turns[0], turns[1]))


def work(middle: Pose, varied: Pose, u: np.ndarray) -> complex:
    """What the moments do on a variation of the middle, first order."""
    turns = [2 * times(turned_back(a), b)[1:] for a, b in zip(middle.thighs, varied.thighs, strict=True)]
    knees = [b - a for a, b in zip(middle.knees, varied.knees, strict=True)]
    shin = about_y(middle.knees[0]).T @ turns[0] + np.array([0, knees[0], 0])
    hip = turns[1] - matrix(middle.thighs[1]).T @ matrix(middle.thighs[0]) @ turns[0]
    return u[0] * knees[0] + u[1] * knees[1] + u[2:5] @ shin + u[5:8] @ hip


def momenta(biped: SpatialBiped, a: Pose, b: Pose, u: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """At both ends of a step: −D₁ and D₂ of its action, with the virtual work of the moments."""
    middle, _ = between(a, b, h)
    ends = []
    for sign, moves_a in ((-1, True), (1, False)):
        row = []
        for e in np.eye(11):
            by = 1j * TINY * e
            varied, v = between(a.moved(by), b, h) if moves_a else between(a, b.moved(by), h)
            row.append(sign * h * (biped.lagrangian(varied, v) + work(middle, varied, u)).imag / TINY)
        ends.append(np.array(row))
    return ends[0], ends[1]


@dataclass(frozen=True)
class JudgedInSpace:
    """What a gait leaves of its equations, and the ground's forces."""

    motion: float  # discrete Euler–Lagrange equations, N m s
    closed: float  # m, of the foot that stands
    unit: float  # norms of quaternions off 1
    jump: float  # N m s, from the end to the start through projection, impact and renaming
    periodic: float  # rad or m
    normal: float  # N, least
    cone: float  # largest tangential force as a part of the normal one, of steps
    landing_cone: float  # of the impulse
    speed: float  # m/s, at which the swing foot comes down
    clearance: np.ndarray  # m, of the swing foot at inner nodes
    feet: float  # m, least distance to the side
    knees: float
    apart: float  # m, least lateral distance where one leg passes before the other
    newton: float  # how far Newton's law of the centre of mass is off, in weights
    spin: float  # the same of angular momentum about the standing foot, in weights times a leg
    work: float  # J, sum of |moment · turn|


def judge_in_space(biped: SpatialBiped, q: np.ndarray, u: np.ndarray, h: float) -> JudgedInSpace:
    poses = [Pose.of(one) for one in q]
    ends = [momenta(biped, a, b, one, h) for a, b, one in zip(poses[:-1], poses[1:], u, strict=True)]
    slopes = [biped.foot_slopes(one) for one in poses]
    before, motion, forces = [_landed(biped, poses[-1], ends[-1][1], slopes[-1])], [], []
    jump, impulse, speed = before[0]
    start = biped.mass(poses[0]) @ jump
    for k, arrived in enumerate([start, *(arrive for _, arrive in ends[:-1])]):
        A, needed = slopes[k][0], ends[k][0] - arrived
        force = np.linalg.lstsq(A.T, needed, rcond=None)[0]
        forces.append(force / h)
        motion.append(np.abs(A.T @ force - needed).max())
    f = np.array(forces)
    feet = np.array([biped.feet(one) for one in poses])
    knees = np.array([[leg[1] for leg in biped.legs(one)] for one in poses])
    newton, spin, done = _balances(biped, poses, u, f, h)
    return JudgedInSpace(
        float(max(motion[1:])),
        float(np.abs(feet[:, 0] - feet[0, 0]).max()),
        float(max(abs(np.linalg.norm(thigh) - 1) for one in poses for thigh in one.thighs)),
        float(motion[0]),
        float(np.abs(biped.renamed(q[-1]) - q[0]).max()),
        float(f[:, 2].min()),
        float((np.linalg.norm(f[:, :2], axis=1) / f[:, 2]).max()),
        float(np.linalg.norm(impulse[:2]) / impulse[2]),
        float(-speed[2]),
        feet[1:-1, 1, 2],
        float((feet[:, 0, 1] - feet[:, 1, 1]).min()),
        float((knees[:, 0, 1] - knees[:, 1, 1]).min()),
        min(_passing(*biped.legs(one)) for one in poses),
        newton,
        spin,
        done,
    )


def _landed(biped: SpatialBiped, q: Pose, p: np.ndarray, slopes: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The velocity after the landing in new names, the impulse on the swing foot, and the velocity it came with."""
    M, (A, B) = biped.mass(q), slopes
    held = np.linalg.solve(np.block([[M, A.T], [A, np.zeros((3, 3))]]), np.append(p, np.zeros(3)))[:11]
    impulse = np.linalg.solve(B @ np.linalg.solve(M, B.T), -B @ held)
    after = Velocity.of(held + np.linalg.solve(M, B.T @ impulse))
    turns = [-MIRROR * turn for turn in after.turns]
    renamed = [*(MIRROR * after.hip), after.knees[1], *turns[1], after.knees[0], *turns[0]]
    return np.array(renamed), impulse, B @ held


def _balances(
    biped: SpatialBiped, poses: list[Pose], u: np.ndarray, f: np.ndarray, h: float
) -> tuple[float, float, float]:
    """Newton's law and that of angular momentum from middle to middle, and the work of all moments."""
    total, spin, moment, done = [], [], [], 0.0
    foot = biped.feet(poses[0])[0]
    for a, b, one in zip(poses[:-1], poses[1:], u, strict=True):
        q, v = between(a, b, h)
        parts = biped.parts(q, v)
        total.append(sum(p.mass * p.speed for p in parts))
        spin.append(sum(np.cross(p.centre - foot, p.mass * p.speed) + p.axes @ (p.inertia * p.spin) for p in parts))
        weighed = sum(np.cross(p.centre - foot, p.mass * biped.gravity * DOWN) for p in parts)
        ankle = matrix(q.thighs[0]) @ about_y(q.knees[0]) @ one[2:5]
        moment.append(weighed + ankle)
        relative = v.turns[1] - matrix(q.thighs[1]).T @ matrix(q.thighs[0]) @ v.turns[0]
        shin = about_y(q.knees[0]).T @ v.turns[0] + np.array([0, v.knees[0], 0])
        done += h * float(np.abs(one * [*v.knees, *shin, *relative]).sum())
    change = np.diff(np.array(total), axis=0) / h - f[1:] - biped.weight * DOWN
    turned = np.diff(np.array(spin), axis=0) / h - (np.array(moment)[1:] + np.array(moment)[:-1]) / 2
    scale = biped.weight * biped.leg
    return float(np.abs(change).max() / biped.weight), float(np.abs(turned).max() / scale), done


def _passing(stance: tuple[np.ndarray, ...], swing: tuple[np.ndarray, ...]) -> float:
    """The least y of the stance leg over that of the swing leg where they cross, seen from the side; hips are one."""
    least = np.inf
    for i in range(2):
        for j in range(2):
            (a, b), (c, d) = (stance[i], stance[i + 1]), (swing[j], swing[j + 1])
            across = np.array([(b - a)[[0, 2]], -(d - c)[[0, 2]]]).T
            if i + j == 0 or abs(np.linalg.det(across)) < 1e-9:
                continue
            s, t = np.linalg.solve(across, (c - a)[[0, 2]])
            if 0 <= s <= 1 and 0 <= t <= 1:
                least = min(least, float((a + s * (b - a))[1] - (c + t * (d - c))[1]))
    return least
