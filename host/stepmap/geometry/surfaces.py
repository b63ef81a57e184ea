"""Triangles of simple surfaces, for pictures."""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.geometry.arithmetic import Triple

_CORNERS = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
_SIDES = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
CUBE: Array = _CORNERS[[face for a, b, c, d in _SIDES for face in ((a, b, c), (a, c, d))]]
AROUND, ALONG = 24, 12  # sides and rings of round surfaces


def swept(a: Triple, b: Triple, radius: float) -> Array:
    """The surface of a sphere that moved from a to b, (count, 3, 3)."""
    start, end = np.asarray(a), np.asarray(b)
    length = float(np.linalg.norm(end - start))
    axis = (end - start) / length if length > 0 else np.array([0.0, 0.0, 1.0])
    first = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    first /= np.linalg.norm(first)
    second = np.cross(axis, first)
    polar = np.linspace(0, np.pi, ALONG + 1 + ALONG % 2)
    turn = np.linspace(0, 2 * np.pi, AROUND + 1)
    ring = np.cos(turn)[:, None] * first + np.sin(turn)[:, None] * second
    half = len(polar) // 2
    at = [(start, angle) for angle in polar[::-1][: half + 1]] + [(end, angle) for angle in polar[::-1][half:]]
    points = np.array([o + radius * (np.cos(angle) * axis + np.sin(angle) * ring) for o, angle in at])
    return sheet(points)


def sheet(points: Array) -> Array:
    """Two triangles per cell of a net of points (n, m, 3)."""
    a, b, c, d = points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]
    pairs = np.stack([np.stack([a, b, c], axis=-2), np.stack([a, c, d], axis=-2)], axis=2)
    out: Array = pairs.reshape(-1, 3, 3)
    return out
