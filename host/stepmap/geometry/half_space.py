"""Everything behind a plane: a floor, a wall, a ceiling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.geometry.arithmetic import components, dot, triple

REACH = 100.0  # m, of the piece that pictures show


@dataclass(frozen=True)
class HalfSpace:
    """Points where ``normal`` · (p − ``point``) < 0: the normal points out of the solid, at what moves."""

    point: ArrayLike
    normal: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "point", triple(self.point, "point of a half-space"))
        normal = np.array(triple(self.normal, "normal of a half-space"))
        length = float(np.linalg.norm(normal))
        if not length > 0:
            raise ModelError("normal of a half-space: must not be zero; for a floor it is (0, 0, 1)")
        object.__setattr__(self, "normal", tuple(float(e) for e in normal / length))

    def distance(self, point: Any) -> Any:
        """n · (p − p0)."""
        off = [e - o for e, o in zip(components(point), components(self.point), strict=True)]
        return dot(off, components(self.normal))

    def triangles(self) -> Array:
        normal, origin = np.asarray(self.normal), np.asarray(self.point)
        first = np.cross(normal, np.eye(3)[int(np.argmin(np.abs(normal)))])
        first *= REACH / np.linalg.norm(first)
        second = np.cross(normal, first)
        corners = [origin + s * first + t * second for s, t in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        return np.array([[corners[0], corners[1], corners[2]], [corners[0], corners[2], corners[3]]])
