"""Natural cubic splines on a regular grid in space: coefficients, and values with derivatives at many points."""

from __future__ import annotations

import casadi as ca
import numpy as np

from stepmap.arrays import Array

ORDERS = 3  # value, slope, second derivative


def coefficients(values: Array) -> Array:
    """Coefficients (n + 2, m + 2, l + 2) of the uniform cubic B-splines that interpolate values (n, m, l).

    One axis after the other: c[i−1] + 4 c[i] + c[i+1] = 6 f[i], second derivatives 0 at both ends, so that a straight
    continuation beyond them is smooth.
    """
    for axis in range(values.ndim):
        values = np.moveaxis(_along_first(np.moveaxis(values, axis, 0)), 0, axis)
    return np.ascontiguousarray(values)


def _along_first(f: Array) -> Array:
    from scipy.linalg import solve_banded  # takes a while to load

    c = f.copy()
    inner = 6.0 * f[1:-1]
    inner[0] -= f[0]
    inner[-1] -= f[-1]
    bands = np.ones((3, len(inner)))
    bands[1] = 4.0
    c[1:-1] = solve_banded((1, 1), bands, inner.reshape(len(inner), -1)).reshape(inner.shape)
    return np.concatenate([2 * c[:1] - c[1:2], c, 2 * c[-1:] - c[-2:-1]])


def expand(c: Array, u: Array, orders: int) -> Array:
    """Derivatives (K, orders, orders, orders) of the spline at points u (K, 3) in units of the grid: entry i, j, k is
    the i-th derivative in x, j-th in y, k-th in z. Beyond the grid it goes on straight in every axis."""
    places, weights = zip(*(_basis(u[:, axis], c.shape[axis] - 2, orders) for axis in range(3)), strict=True)
    four = np.arange(4)
    i, j, k = (first[:, None] + four for first in places)
    found = c[i[:, :, None, None], j[:, None, :, None], k[:, None, None, :]]  # (K, 4, 4, 4)
    wx, wy, wz = weights
    along_z = found @ wz[:, None]  # (K, 4, 4, o)
    along_y = np.swapaxes(wy, 1, 2)[:, None] @ along_z  # (K, 4, o, o)
    flat = along_y.reshape(len(u), 4, orders * orders)
    out: Array = (np.swapaxes(wx, 1, 2) @ flat).reshape(len(u), orders, orders, orders)
    return out


def _basis(u: Array, count: int, orders: int) -> tuple[Array, Array]:
    """The first of the four splines that are not zero at u, and their derivatives (K, 4, orders)."""
    inside = np.clip(u, 0.0, count - 1.0)
    first = np.minimum(inside.astype(int), count - 2)
    s, beyond = inside - first, u - inside
    r = 1.0 - s
    slope = np.stack([-(r**2), s * (3 * s - 4), r * (4 - 3 * r), s**2], axis=1) / 2
    value = np.stack([r**3, 4 - 3 * s**2 * (2 - s), 4 - 3 * r**2 * (2 - r), s**3], axis=1) / 6
    made = [value + beyond[:, None] * slope, slope]
    if orders > 2:
        made.append(np.where(beyond[:, None] == 0, np.stack([r, 3 * s - 2, 3 * r - 2, s], axis=1), 0.0))
    return first, np.stack(made[:orders], axis=2)


def basis(u: ca.MX, count: int) -> tuple[ca.MX, list[ca.MX]]:
    """The same of an expression u: the first of the four splines, and their values."""
    inside = ca.fmin(ca.fmax(u, 0.0), count - 1.0)
    first = ca.fmin(ca.floor(inside), count - 2)
    s, beyond = inside - first, u - inside
    r = 1.0 - s
    slope = (-(r**2), s * (3 * s - 4), r * (4 - 3 * r), s**2)
    value = (r**3, 4 - 3 * s**2 * (2 - s), 4 - 3 * r**2 * (2 - r), s**3)
    return first, [v / 6 + beyond * g / 2 for v, g in zip(value, slope, strict=True)]
