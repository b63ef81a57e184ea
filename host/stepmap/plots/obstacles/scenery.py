"""Obstacles behind and below what moves: triangles of their surfaces, shaded, cut off around the motion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from stepmap.arrays import Array
from stepmap.geometry import Shape
from stepmap.plots.style import GRID

STONE, LIGHT = np.array([0.80, 0.76, 0.70]), np.array([0.35, -0.45, 0.82])
AROUND = 0.12  # of the motion's largest side: how far scenery goes on beyond it
FEW = 0.05  # the same of planar pictures


def box_around(points: Array, part: float = AROUND) -> tuple[Array, Array]:
    """Low and high corners of what is shown around the points of a motion (..., n)."""
    flat = points.reshape(-1, points.shape[-1])
    low, high = flat.min(axis=0), flat.max(axis=0)
    pad = part * max(float((high - low).max()), 0.1)
    return low - pad, high + pad


def polygons(shapes: Sequence[Shape], low: Array, high: Array) -> list[Array]:
    """The surfaces' triangles, cut to a box."""
    found: list[Array] = []
    for shape in shapes:
        triangles = shape.triangles()
        outside: Array = np.any((triangles < low).all(axis=1) | (triangles > high).all(axis=1), axis=1)
        kept = triangles[~outside]
        inside = ((kept >= low) & (kept <= high)).all(axis=(1, 2))
        found += list(kept[inside])
        found += [cut for cut in (_cut(one, low, high) for one in kept[~inside]) if len(cut) > 2]
    return found


def _cut(polygon: Array, low: Array, high: Array) -> Array:
    """A polygon within a box: cut at its six sides, one after another."""
    corners = list(polygon)
    for axis in range(3):
        for sign, end in ((1.0, low[axis]), (-1.0, high[axis])):
            kept: list[Array] = []
            for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
                da, db = sign * (a[axis] - end), sign * (b[axis] - end)
                if da >= 0:
                    kept.append(a)
                if da * db < 0:
                    kept.append(a + da / (da - db) * (b - a))
            corners = kept
    return np.array(corners)


def draw_solids(axes: Axes, shapes: Sequence[Shape], low: Array, high: Array, alpha: float = 1.0) -> None:
    """Shaded surfaces in axes of space; what is drawn later lies over them."""
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

    found = polygons(shapes, low, high)
    if not found:
        return
    space: Any = axes  # of matplotlib's toolkit for three dimensions, which has no types
    space.computed_zorder = False
    colors = np.array([_shade(polygon) for polygon in found])
    space.add_collection3d(
        Poly3DCollection(found, facecolors=colors, edgecolors=colors, linewidths=0.3, alpha=alpha, zorder=0)
    )


def _shade(polygon: Array) -> Array:
    normal = np.cross(polygon[1] - polygon[0], polygon[2] - polygon[0])
    size = float(np.linalg.norm(normal))
    light = abs(float(normal @ LIGHT)) / size if size > 0 else 0.0
    shade: Array = STONE * (0.62 + 0.38 * light)
    return shade


def draw_flat(axes: Axes, shapes: Sequence[Shape], project: Any, low: Array, high: Array) -> None:
    """Outlines of obstacles in the plane of the page, filled; ``project`` leads from the world to it."""
    found = [project(polygon) for polygon in polygons(shapes, low, high)]
    axes.add_collection(
        PolyCollection(found, facecolors=GRID, edgecolors=GRID, linewidths=0.5, zorder=0.1), autolim=False
    )
