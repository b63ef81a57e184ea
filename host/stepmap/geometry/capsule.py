"""A cylinder with round ends: all points near a segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.geometry import surfaces
from stepmap.geometry.arithmetic import components, number, triple
from stepmap.geometry.segments import point_to_segment
from stepmap.geometry.sphere import BLUNT


@dataclass(frozen=True)
class Capsule:
    """Points within ``radius`` of the segment from ``a`` to ``b`` [m]."""

    a: ArrayLike
    b: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", triple(self.a, "a of a capsule"))
        object.__setattr__(self, "b", triple(self.b, "b of a capsule"))
        object.__setattr__(self, "radius", number(self.radius, "radius of a capsule", above=0.0))
        if self.a == self.b:
            raise ModelError("capsule: a and b are the same point; that is a Sphere")

    def distance(self, point: Any) -> Any:
        """The distance to the segment, less the radius."""
        ends = components(self.a), components(self.b)
        return point_to_segment(components(point), *ends, BLUNT * self.radius) - self.radius

    def triangles(self) -> Array:
        return surfaces.swept(triple(self.a, "a"), triple(self.b, "b"), self.radius)
