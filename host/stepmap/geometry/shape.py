"""What a shape is: a signed distance of points, below zero inside."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from stepmap.arrays import Array
from stepmap.geometry.grids.grid import DistanceGrid


@runtime_checkable
class Shape(Protocol):
    """A solid at a fixed place in the world."""

    def distance(self, point: Any) -> Any:
        """Signed distance [m] to the surface, an expression of an SX or MX (3), or an array of points (..., 3)."""

    def triangles(self) -> Array:
        """The surface for pictures and outside checks, (count, 3, 3) [m]; of what has no end, a large piece."""


@runtime_checkable
class Gridded(Shape, Protocol):
    """A shape whose distance is interpolated: no SX expression, but second-order expansions at points as data."""

    @property
    def grid(self) -> DistanceGrid:
        """The distance at grid nodes with its spline."""
