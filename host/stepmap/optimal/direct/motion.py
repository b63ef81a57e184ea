"""A motion as the variables of a program have it, from a guess, between two grids, disturbed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stepmap.arrays import Array
from stepmap.optimal.direct.limits import Bounds
from stepmap.optimal.direct.mechanism import Mechanism


@dataclass(frozen=True, eq=False)
class Motion:
    """Nodes q̄ (K+1, nq), p (K+1, nd), stages v̄ (K, n), u (K, nu), lam (K, nc), and the whole time [s]."""

    q: Array
    p: Array
    v: Array
    u: Array
    lam: Array
    time: float

    @property
    def steps(self) -> int:
        return len(self.u)

    @property
    def h(self) -> float:
        return self.time / self.steps

    def resampled(self, mechanism: Mechanism, steps: int) -> Motion:
        """On another number of steps: nodes interpolated, inputs held, velocities those between the nodes."""
        if steps == self.steps:
            return self
        old, new = np.linspace(0, 1, self.steps + 1), np.linspace(0, 1, steps + 1)
        middles = (new[1:] + new[:-1]) / 2
        q, p = mechanism.tangent.normalize(interpolated(old, new, self.q)), interpolated(old, new, self.p)
        place = np.clip(np.searchsorted(old, middles) - 1, 0, self.steps - 1)
        v = mechanism.tangent.difference(q[:-1], q[1:]) / (self.time / steps)
        return Motion(q, p, v, self.u[place], self.lam[place], self.time)

    def timed(self, low: float, high: float) -> Motion:
        """With its time moved into a range; velocities and momenta are scaled."""
        time = float(np.clip(self.time, low, high))
        factor = self.time / time
        return replace(self, time=time, v=self.v * factor, p=self.p * factor)


def interpolated(old: Array, new: Array, values: Array) -> Array:
    """Columns of values, linear between the nodes."""
    out = np.empty((len(new), values.shape[1]))
    for i, column in enumerate(values.T):
        out[:, i] = np.interp(new, old, column)
    return out


def through(mechanism: Mechanism, q: Array, time: float, multipliers: int, u: Array | None = None) -> Motion:
    """The motion through poses (K+1): v̄ between them, and p as the ends of its steps have it."""
    steps = len(q) - 1
    h = time / steps
    v = mechanism.tangent.difference(q[:-1], q[1:]) / h
    forces = np.zeros((steps, mechanism.nu)) if u is None else u
    p = np.zeros((steps + 1, mechanism.nd))
    p[1:] = mechanism.momenta(q[:-1], v, forces, h)
    p[0] = mechanism.instant(q[:1], v[:1])[0]
    return Motion(q, p, v, forces, np.zeros((steps, multipliers)), time)


def disturbed(mechanism: Mechanism, motion: Motion, bounds: Bounds, rng: np.random.Generator) -> Motion:
    """The motion with bumps on all coordinates, within their limits, that leave its ends alone."""
    part = np.linspace(0, 1, motion.steps + 1)[:, None]
    way = np.abs(mechanism.tangent.difference(motion.q[:1], motion.q)).max(axis=0)
    n, size = len(way), np.maximum(way, 0.3)
    bump = sum(rng.normal(size=n) * np.sin(i * np.pi * part) / i for i in (1, 2, 3))
    q = mechanism.tangent.normalize(np.clip(mechanism.tangent.retract(motion.q, 0.5 * size * bump), *bounds.q))
    q[[0, -1]] = motion.q[[0, -1]]
    low, high = np.clip(bounds.u, -1.0, 1.0)
    u = motion.u + 0.3 * rng.uniform(low, high, size=motion.u.shape[1])
    return replace(through(mechanism, q, motion.time, motion.lam.shape[1], np.clip(u, *bounds.u)), lam=motion.lam)
