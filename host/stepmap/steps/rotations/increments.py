"""The midpoint rule of a q̄ with balls, as expressions: for the step and for the stages of a nonlinear program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca

from stepmap.mechanics.poses import quaternion
from stepmap.mechanics.poses.tangent import Tangent
from stepmap.steps.rotations.maps import RotationMap


class Increments:
    """From q̄ to the next one. ``z`` has the next values of ordinary coordinates, and t of balls, (nv).

    ``middle`` and ``velocity`` are where L and F are taken, ``after`` is the next q̄. Impulses are vectors of the first
    nd tangent dimensions.
    """

    def __init__(self, tangent: Tangent, chosen: RotationMap, q: ca.SX, z: ca.SX, dt: ca.SX) -> None:
        self.tangent, self.chosen = tangent, chosen
        self.t = {at: z[at : at + 3] for _, at in tangent.balls}
        middle, after, velocity = ca.SX(tangent.nq, 1), ca.SX(tangent.nq, 1), ca.SX(tangent.nv, 1)
        stored, places = tangent.ordinary
        for i, at in zip(stored.tolist(), places.tolist(), strict=True):
            middle[i], after[i], velocity[at] = (q[i] + z[at]) / 2, z[at], (z[at] - q[i]) / dt
        for s, at in tangent.balls:
            here, t = [q[s + k] for k in range(4)], self.t[at]
            middle[s : s + 4] = ca.vertcat(*quaternion.product(here, half(t)))
            after[s : s + 4] = ca.vertcat(*quaternion.product(here, quaternion.increment(ca.vertsplit(t))))
            velocity[at : at + 3] = chosen.phi(ca.dot(t, t)) * t / dt
        self.middle, self.after, self.velocity = middle, after, velocity

    def at_begin(self, impulse: ca.SX) -> ca.SX:
        """Twice what half an impulse at the middle is at the step's begin: (I + t̂) of it on balls."""
        return self._on_balls(impulse, lambda t, g: g + ca.cross(t, g))

    def at_end(self, impulse: ca.SX) -> ca.SX:
        """The same at the step's end: (I − t̂) of it on balls."""
        return self._on_balls(impulse, lambda t, g: g - ca.cross(t, g))

    def to_begin(self, impulse: ca.SX) -> ca.SX:
        """A vector in the axes of the middle, in those of the begin."""
        return self._on_balls(impulse, lambda t, g: _rotation(half(t)) @ g)

    def to_end(self, impulse: ca.SX) -> ca.SX:
        """A vector in the axes of the middle, in those of the end."""
        return self._on_balls(impulse, lambda t, g: _rotation(half(t)).T @ g)

    def through(self, momentum: ca.SX) -> ca.SX:
        """A vector in the axes of the begin, in those of the end."""
        return self._on_balls(momentum, lambda t, g: _rotation(quaternion.increment(ca.vertsplit(t))).T @ g)

    def left_momentum(self, lv: ca.SX) -> ca.SX:
        """M L_v, what L_v is at the step's begin."""
        return self._on_balls(lv, lambda t, g: self._momentum(t, g, 1.0))

    def right_momentum(self, lv: ca.SX) -> ca.SX:
        """Mᵀ L_v, what it is at the step's end."""
        return self._on_balls(lv, lambda t, g: self._momentum(t, g, -1.0))

    def _momentum(self, t: ca.SX, g: ca.SX, sign: float) -> ca.SX:
        s = ca.dot(t, t)
        phi, slope = self.chosen.phi(s), self.chosen.slope(s)
        along = (phi + slope * (1 + s)) / 2 * ca.dot(t, g)
        return ca.SX(phi * (1 - s) / 4 * g + sign * phi / 2 * ca.cross(t, g) + along * t)

    def _on_balls(self, values: ca.SX, change: Callable[[ca.SX, ca.SX], ca.SX]) -> ca.SX:
        out = ca.SX(values)
        for at, t in self.t.items():
            out[at : at + 3] = change(t, values[at : at + 3])
        return out


def half(t: ca.SX) -> tuple[Any, ...]:
    """Half of the increment: (1, t)/√(1 + s)."""
    r = 1 / ca.sqrt(1 + ca.dot(t, t))
    return r, t[0] * r, t[1] * r, t[2] * r


def normalized(tangent: Tangent, q: ca.SX) -> ca.SX:
    """q̄ whose quaternions, off the unit by rounding, are unit ones again: q (3 − |q|²)/2."""
    out = ca.SX(q)
    for s, _ in tangent.balls:
        four = q[s : s + 4]
        out[s : s + 4] = four * (3 - ca.dot(four, four)) / 2
    return out


def _rotation(q: tuple[Any, ...]) -> ca.SX:
    return quaternion.rotation(ca.vertcat(*q))
