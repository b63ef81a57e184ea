"""A ball, as an obstacle or as a part of what moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.geometry import surfaces
from stepmap.geometry.arithmetic import components, norm, number, triple

BLUNT = 1e-6  # of the size, at points where a distance has no slope: centres and axes


@dataclass(frozen=True)
class Sphere:
    """Points within ``radius`` of ``center`` [m]."""

    center: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", triple(self.center, "center of a sphere"))
        object.__setattr__(self, "radius", number(self.radius, "radius of a sphere", above=0.0))

    def distance(self, point: Any) -> Any:
        """|p − c| − r."""
        off = [e - c for e, c in zip(components(point), components(self.center), strict=True)]
        return norm(off, BLUNT * self.radius) - self.radius

    def triangles(self) -> Array:
        center = triple(self.center, "center")
        return surfaces.swept(center, center, self.radius)
