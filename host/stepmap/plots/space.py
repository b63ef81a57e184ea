"""Axes in three dimensions: the world's, with equal scales, seen from a little to the side and above."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec

from stepmap.arrays import Array
from stepmap.plots.style import GRID

ELEVATION, AZIMUTH = 22.0, -58.0  # of the camera [degrees]
ZOOM = 0.92
LEAST = 0.25  # of the largest side that the others have at least: a flat box would hide what is in it
NAMES: tuple[Literal["x", "y", "z"], ...] = ("x", "y", "z")


def add_axes(
    figure: Figure,
    place: SubplotSpec | int,
    points: Array,
    up: Array,
    elevation: float = ELEVATION,
    zoom: float = ZOOM,
) -> Axes:
    """Axes for points (..., 3) [m], with ``up`` upward on the page."""
    made: Axes = figure.add_subplot(place, projection="3d")
    axes: Any = made  # of matplotlib's toolkit for three dimensions, which has no types
    vertical = NAMES[int(np.argmax(np.abs(up)))]
    axes.view_init(elevation, AZIMUTH, vertical_axis=vertical)
    low, high = (getattr(points.reshape(-1, 3), name)(axis=0) for name in ("min", "max"))
    size = 1.06 * np.maximum(high - low, max(LEAST * float((high - low).max()), 1e-3))
    for name, middle, side in zip(NAMES, (low + high) / 2, size, strict=True):
        getattr(axes, f"set_{name}lim")(middle - side / 2, middle + side / 2)
        getattr(axes, f"set_{name}label")(f"{name} [m]")
        ticked = getattr(axes, f"{name}axis")
        ticked.set_pane_color((1.0, 1.0, 1.0, 0.0))
        ticked.line.set_color(GRID)
        ticked.set_major_locator(_few(side / float(size.max())))
    axes.set_box_aspect(size, zoom=zoom)
    if float(up @ np.eye(3)[NAMES.index(vertical)]) < 0:
        getattr(axes, f"invert_{vertical}axis")()
    return made


def _few(share: float) -> object:
    """Ticks of a side, fewer where it is short."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(max(2, round(6 * share)))
