"""A cuboid, turned as one likes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, numbers
from stepmap.errors import ModelError, ShapeError
from stepmap.geometry import surfaces
from stepmap.geometry.arithmetic import components, dot, greater, lesser, magnitude, norm, number, triple
from stepmap.geometry.sphere import BLUNT


@dataclass(frozen=True)
class Box:
    """A cuboid with sides ``size`` [m] around ``center``, its axes the columns of ``rotation`` (3x3, or a quaternion
    w x y z).

    ``rounding`` is the radius of its edges [m]: it takes the corners off, and distances bend less near edges.
    """

    size: ArrayLike
    center: ArrayLike = (0.0, 0.0, 0.0)
    rotation: ArrayLike = (1.0, 0.0, 0.0, 0.0)
    rounding: float = 0.0

    def __post_init__(self) -> None:
        size = triple(self.size, "size of a box")
        if not min(size) > 0:
            raise ModelError(f"size of a box: all three sides must be greater than 0, got {size}")
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "center", triple(self.center, "center of a box"))
        object.__setattr__(self, "rotation", tuple(map(tuple, rotation_matrix(self.rotation, "rotation of a box"))))
        rounding = number(self.rounding, "rounding of a box", least=0.0)
        if rounding > 0.5 * min(size):
            raise ModelError(f"rounding of a box: at most half its least side, {0.5 * min(size):g} m, got {rounding:g}")
        object.__setattr__(self, "rounding", rounding)

    def distance(self, point: Any) -> Any:
        """|max(e, 0)| + min(max(e), 0) − rounding, with e the distances from its faces, moved in by the rounding."""
        off = [e - c for e, c in zip(components(point), components(self.center), strict=True)]
        halves = [0.5 * side - self.rounding for side in np.asarray(self.size)]
        axes = np.asarray(self.rotation).T
        e = [magnitude(dot(off, axis)) - half for axis, half in zip(axes, halves, strict=True)]
        blunt = BLUNT * float(np.min(np.asarray(self.size)))
        outside = norm([greater(x, 0.0) for x in e], blunt) - blunt
        return outside + lesser(reduce(greater, e), 0.0) - self.rounding

    def triangles(self) -> Array:
        turned = surfaces.CUBE * np.asarray(self.size) @ np.asarray(self.rotation).T
        out: Array = turned + np.asarray(self.center)
        return out


def rotation_matrix(value: ArrayLike, what: str) -> Array:
    """A rotation (3, 3) of a matrix or a unit quaternion w x y z."""
    given = numbers(value, what)
    if given.shape == (4,):
        length = float(np.linalg.norm(given))
        if not abs(length - 1.0) < 1e-3:  # not of NaN, either
            raise ModelError(f"{what}: a quaternion w x y z must have norm 1, got {length:g}")
        w, x, y, z = given / length
        return np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
    if given.shape != (3, 3):
        raise ShapeError(f"{what}: expected 3x3, or a quaternion w x y z, got shape {given.shape}")
    if not (np.abs(given @ given.T - np.eye(3)).max() < 1e-9 and np.linalg.det(given) > 0):
        raise ModelError(f"{what}: not a rotation (R Rᵀ = I, det R = 1)")
    return given
