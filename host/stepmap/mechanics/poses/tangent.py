"""The tangent space of q̄: one dimension per ordinary coordinate, three per ball.

Velocities, momenta, slopes and mass matrices have its nv entries; q̄ itself has nq stored numbers, four of them per
ball. They are the same where nothing turns freely.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.poses import quaternion
from stepmap.mechanics.quantity import Ball, Coordinate

UNIT = 1e-3  # by which the norm of a given quaternion may be off 1; it is then normalised


class Tangent:
    """Where stored numbers of q̄ and its tangent dimensions stand, and how the one is moved along the other."""

    def __init__(self, coordinates: Sequence[Coordinate], balls: Sequence[Ball]) -> None:
        self.names = tuple(c.name for c in coordinates)
        of = {c.name: ball for ball in balls for c in ball.entries}
        entries: list[tuple[str, str]] = []
        self.places: dict[str, int] = {}  # of ordinary coordinates and of balls, in the tangent space
        self.balls: list[tuple[int, int]] = []  # where each begins in q̄ and in the tangent space
        dynamic = 0
        for i, c in enumerate(coordinates):
            ball = of.get(c.name)
            if ball is None:
                self.places[c.name] = len(entries)
                entries.append((c.name, c.unit))
            elif c.name == ball.entries[0].name:
                self.places[ball.name] = len(entries)
                self.balls.append((i, len(entries)))
                entries += [(f"{ball.name}.r{axis}", "rad") for axis in "xyz"]
            dynamic = dynamic if c.kinematic else len(entries)
        self.entries = tuple(entries)
        self.nq, self.nv, self.nd = len(self.names), len(entries), dynamic

    @cached_property
    def ordinary(self) -> tuple[Array, Array]:
        """Places of ordinary coordinates in q̄ and in the tangent space."""
        stored = [i for i, name in enumerate(self.names) if not any(s <= i < s + 4 for s, _ in self.balls)]
        return np.array(stored, dtype=int), np.array([self.places[self.names[i]] for i in stored], dtype=int)

    def difference(self, a: ArrayLike, b: ArrayLike) -> Array:
        """The tangent vector (..., nv) from a pose to another; turns about the child's axes."""
        a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
        if not self.balls:
            return np.asarray(b - a)
        shape = np.broadcast_shapes(a.shape, b.shape)[:-1]
        out = np.empty((*shape, self.nv))
        stored, tangent = self.ordinary
        out[..., tangent] = b[..., stored] - a[..., stored]
        for s, t in self.balls:
            ends = (quaternion.columns(e[..., s : s + 4]) for e in (a, b))
            out[..., t : t + 3] = quaternion.rows(quaternion.turned(*ends))
        return out

    def retract(self, q: ArrayLike, dq: ArrayLike) -> Array:
        """The pose (..., nq) that a tangent vector leads to."""
        q, dq = np.asarray(q, dtype=float), np.asarray(dq, dtype=float)
        if not self.balls:
            return np.asarray(q + dq)
        shape = np.broadcast_shapes(q.shape[:-1], dq.shape[:-1])
        out = np.empty((*shape, self.nq))
        stored, tangent = self.ordinary
        out[..., stored] = q[..., stored] + dq[..., tangent]
        for s, t in self.balls:
            turn = quaternion.columns(dq[..., t : t + 3])
            moved = quaternion.retracted(quaternion.columns(q[..., s : s + 4]), turn)
            out[..., s : s + 4] = quaternion.rows(moved)
        return self.normalize(out)

    def retract_slope(self, dq: ArrayLike) -> Array:
        """How the pose at the end of a tangent vector moves with it, (nv, nv); turns about the axes there."""
        dq = np.asarray(dq, dtype=float)
        out = np.eye(self.nv)
        for _, t in self.balls:
            out[t : t + 3, t : t + 3] = quaternion.retracted_slope(dq[t : t + 3])
        return out

    def normalize(self, q: ArrayLike) -> Array:
        """q̄ with unit quaternions."""
        out = np.array(q, dtype=float)
        for s, _ in self.balls:
            out[..., s : s + 4] /= np.linalg.norm(out[..., s : s + 4], axis=-1, keepdims=True)
        return out

    def require_unit(self, q: Array, what: str) -> Array:
        """q̄ with unit quaternions; raises ModelError where a given one is not near one."""
        if not self.balls:
            return q
        for s, _ in self.balls:
            norms = np.atleast_1d(np.linalg.norm(q[..., s : s + 4], axis=-1))
            off = norms[np.argmax(np.abs(norms - 1.0))]
            if not abs(off - 1.0) <= UNIT:
                name = self.names[s].rpartition(".")[0]
                raise ModelError(
                    f"{what}: the quaternion (w, x, y, z) of {name!r} has the norm {off:.6g}, and that of a turn is 1",
                    hint="(1, 0, 0, 0) is no turn; a turn θ about a unit axis n is (cos(θ/2), n sin(θ/2)).",
                )
        return self.normalize(q)

    # the same as expressions; x may have more entries, which are plain ------------------------------------------

    def difference_of(self, a: ca.SX, b: ca.SX) -> ca.SX:
        """The tangent vector from a to b."""
        if not self.balls:
            return b - a
        out = [b[i] - a[i] for i in range(a.numel())]
        for s, _ in reversed(self.balls):
            turn = quaternion.turned(*([e[s + i] for i in range(4)] for e in (a, b)))
            out[s : s + 4] = turn
        return ca.vertcat(*out)

    def basis_of(self, q: ca.SX) -> ca.SX:
        """What stored numbers change by along each tangent dimension at q̄, (nq, nv)."""
        out = ca.SX(self.nq, self.nv)
        for i, at in zip(*(part.tolist() for part in self.ordinary), strict=True):
            out[i, at] = 1
        for s, at in self.balls:
            w, x, y, z = (q[s + k] / 2 for k in range(4))
            out[s : s + 4, at : at + 3] = ca.vertcat(
                ca.horzcat(-x, -y, -z), ca.horzcat(w, -z, y), ca.horzcat(z, w, -x), ca.horzcat(-y, x, w)
            )
        return out

    def slope_of(self, after: ca.SX, slope: ca.SX, before: ca.SX) -> ca.SX:
        """The derivative (nv, nv) between tangent spaces of a map of poses, from that of its stored numbers.

        ``after`` and ``before`` have unit quaternions, so that 4 times the transpose of a basis is its inverse.
        """
        if not self.balls:
            return slope
        weights = ca.SX.ones(self.nv)
        for _, at in self.balls:
            weights[at : at + 3] = 4
        return ca.diag(weights) @ self.basis_of(after).T @ slope @ self.basis_of(before)

    def retract_of(self, x: ca.SX, dx: ca.SX) -> ca.SX:
        """x moved along dx."""
        if not self.balls:
            return x + dx
        out: list[ca.SX] = []
        at, i = 0, 0
        begins = {s for s, _ in self.balls}
        while i < x.numel():
            if i in begins:
                turn = [dx[at + k] for k in range(3)]
                out += quaternion.retracted([x[i + k] for k in range(4)], turn)
                i, at = i + 4, at + 3
            else:
                out.append(x[i] + dx[at])
                i, at = i + 1, at + 1
        return ca.vertcat(*out)
