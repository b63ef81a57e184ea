"""Unit quaternions (w, x, y, z) by their entries, so that numbers, arrays and symbols share the formulas.

A turn δ [rad] about the child's axes moves a quaternion along a rational chart that needs one division,

    retract(q, δ) = q · inc(δ/4),   inc(t) = (1 − s, 2 t)/(1 + s),  s = |t|²,   difference(a, b) = 4 vec/(1 + w) of ā b

with the sign that makes w ≥ 0; δ is 4 tan(θ/4) times the axis, 4 at half a turn. Both are inverse to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import casadi as ca
import numpy as np

from stepmap.arrays import Array

Entries: TypeAlias = Sequence[Any]
"""Numbers, arrays of one shape, or symbols."""


def product(a: Entries, b: Entries) -> tuple[Any, ...]:
    """a b."""
    (w, x, y, z), (r, i, j, k) = a, b
    return (
        w * r - x * i - y * j - z * k,
        w * i + x * r + y * k - z * j,
        w * j - x * k + y * r + z * i,
        w * k + x * j - y * i + z * r,
    )


def conjugate(q: Entries) -> tuple[Any, ...]:
    """The inverse of a unit quaternion."""
    w, x, y, z = q
    return w, -x, -y, -z


def increment(t: Entries) -> tuple[Any, ...]:
    """The turn whose vector is t = n tan(θ/4): (1 − s, 2 t)/(1 + s)."""
    x, y, z = t
    s = x * x + y * y + z * z
    r = 1 / (1 + s)
    return (1 - s) * r, 2 * x * r, 2 * y * r, 2 * z * r


def retracted(q: Entries, turn: Entries) -> tuple[Any, ...]:
    """q after a turn δ about its own axes."""
    return product(q, increment([e / 4 for e in turn]))


def retracted_slope(turn: Array) -> Array:
    """The turn of retract(q, δ) about its own axes by a change of δ: ((1 − s) I − 2 t̂ + 2 t tᵀ)/(1 + s)², t = δ/4."""
    x, y, z = t = turn / 4
    s = float(t @ t)
    hat = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    out: Array = ((1 - s) * np.eye(3) - 2 * hat + 2 * np.outer(t, t)) / (1 + s) ** 2
    return out


def turned(a: Entries, b: Entries) -> tuple[Any, ...]:
    """The turn δ from a to b, by the shorter way."""
    w, x, y, z = product(conjugate(a), b)
    sign = 1 - 2 * (w < 0)
    r = 4 / (w + sign)
    return x * r, y * r, z * r


def rotation(q: ca.SX) -> ca.SX:
    """The 3x3 matrix of a unit quaternion, child to parent."""
    w, x, y, z = ca.vertsplit(q)
    return ca.vertcat(
        ca.horzcat(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        ca.horzcat(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        ca.horzcat(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )


def near_identity(c: ca.SX) -> ca.SX:
    """exp(ĉ) to third order in c: all that first, second and contracted third derivatives at c = 0 see."""
    k = ca.skew(c)
    return ca.SX.eye(3) + (1 - ca.dot(c, c) / 6) * k + k @ k / 2


def columns(values: Array) -> list[Array]:
    """The entries along the last axis."""
    return [values[..., i] for i in range(values.shape[-1])]


def rows(entries: Entries) -> Array:
    """Entries as the last axis of an array."""
    return np.stack(np.broadcast_arrays(*entries), axis=-1)
