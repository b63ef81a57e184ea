"""Rows of clearances: one obstacle's distance from one probe point, or from the segment between two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.geometry.arithmetic import components, dot, root
from stepmap.geometry.capsule import Capsule
from stepmap.geometry.half_space import HalfSpace
from stepmap.geometry.probes import Ball, Link
from stepmap.geometry.segments import point_to_segment, segment_to_segment
from stepmap.geometry.shape import Gridded, Shape
from stepmap.geometry.sphere import BLUNT, Sphere

EXPANSION = 13  # numbers per row of a grid: point, value, slope, second derivative


class Points(Protocol):
    """Probe points by number: expressions (3), or arrays (..., 3)."""

    def __getitem__(self, index: int) -> Any: ...


@dataclass(frozen=True)
class PointRow:
    """An obstacle's distance from a ball, or from one of the balls that cover a capsule."""

    shape: Shape
    at: int
    radius: float
    link: tuple[int, int] | None = None  # of a cover: the ends of its capsule, and how many gaps it has
    gaps: int = 1

    def value(self, points: Points) -> Any:
        return self.shape.distance(points[self.at]) - self.reach(points)

    def reach(self, points: Points) -> Any:
        """The ball's radius. Balls that cover a capsule meet at its surface: √(r² + (length/2 gaps)²)."""
        if self.link is None:
            return self.radius
        a, b = (components(points[end]) for end in self.link)
        along = [q - p for p, q in zip(a, b, strict=True)]
        return root(self.radius**2 + dot(along, along) / (2 * self.gaps) ** 2)

    def expanded(self, points: Points, data: ca.SX) -> Any:
        """The row of a grid from ``data``, as ``expansions`` makes it."""
        off = points[self.at] - data[0:3]
        xx, xy, xz, yy, yz, zz = (data[7 + i] for i in range(6))
        bend = ca.vertcat(ca.horzcat(xx, xy, xz), ca.horzcat(xy, yy, yz), ca.horzcat(xz, yz, zz))
        return data[3] + ca.dot(data[4:7], off) + ca.dot(off, bend @ off) / 2 - self.reach(points)


@dataclass(frozen=True)
class LinkRow:
    """A ball's or a capsule's exact distance from a moving capsule."""

    shape: Sphere | Capsule
    ends: tuple[int, int]
    radius: float

    def value(self, points: Points) -> Any:
        a, b = (components(points[end]) for end in self.ends)
        blunt, reach = BLUNT * self.shape.radius, self.shape.radius + self.radius
        if isinstance(self.shape, Sphere):
            return point_to_segment(components(self.shape.center), a, b, blunt) - reach
        return segment_to_segment(a, b, components(self.shape.a), components(self.shape.b), blunt) - reach


Row = PointRow | LinkRow


def expansions(shape: Shape, points: Array) -> Array:
    """What ``PointRow.expanded`` needs of a shape with a grid at points (K, 3), (K, EXPANSION)."""
    assert isinstance(shape, Gridded)
    found = shape.grid.jets(points)
    upper = found.bend[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    return np.column_stack([points, found.value, found.slope, upper])


def rows_of(part: Ball | Link, shape: Shape) -> list[Row]:
    """The rows of one part and one obstacle, exact where there is a formula, else of balls that cover the part."""
    if isinstance(part, Ball):
        return [PointRow(shape, part.at, part.radius)]
    if isinstance(shape, (Sphere, Capsule)):
        return [LinkRow(shape, part.ends, part.radius)]
    if isinstance(shape, HalfSpace):
        return [PointRow(shape, end, part.radius) for end in part.ends]
    gaps = len(part.cover) - 1
    return [PointRow(shape, at, part.radius, part.ends, gaps) for at in part.cover]
