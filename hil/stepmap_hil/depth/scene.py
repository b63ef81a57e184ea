"""What stands before the camera: a ball on a string under a robot, a wall, things that stay where they are.

World axes: x right, y up, z toward the camera; the mechanism moves in the plane z = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError

Triple: TypeAlias = tuple[float, float, float]


@dataclass(frozen=True)
class Box:
    """A solid with edges along the world's axes."""

    center: Triple
    size: Triple

    def __post_init__(self) -> None:
        if not (np.isfinite(self.center).all() and np.isfinite(self.size).all() and min(self.size) > 0):
            raise ModelError(f"box: needs a finite center and a positive size, not {self.center}, {self.size}")

    @property
    def low(self) -> Array:
        return np.asarray(self.center, dtype=float) - np.asarray(self.size, dtype=float) / 2

    @property
    def high(self) -> Array:
        return np.asarray(self.center, dtype=float) + np.asarray(self.size, dtype=float) / 2

    @property
    def corners(self) -> Array:
        """(8, 3)."""
        return np.array(np.meshgrid(*zip(self.low, self.high, strict=True))).reshape(3, 8).T


RAIL = Box((0.3, 1.13, 0.0), (2.4, 0.03, 0.03))
CABINET = Box((-0.35, 0.2, -0.75), (0.3, 1.4, 0.4))


@dataclass(frozen=True)
class Scene:
    """Sizes [m] of what moves, and what does not.

    The robot's position is the point its string leaves from; ``body`` is from there to the middle of its box.
    """

    radius: float = 0.03
    box: Triple = (0.12, 0.08, 0.06)
    body: Triple = (0.0, 0.04, 0.0)
    string: float = 0.001
    """Radius of the string."""
    wall: float = -1.0
    """z of the wall."""
    fixtures: tuple[Box, ...] = (RAIL, CABINET)

    def __post_init__(self) -> None:
        for name, least in (("radius", self.radius), ("box", min(self.box)), ("string", self.string)):
            if not (np.isfinite(least) and least > 0):
                raise ModelError(f"{name}: must be positive")

    def robot(self, position: Array) -> Box:
        """The robot's box when its string leaves from ``position``."""
        x, y, z = (float(p + b) for p, b in zip(position, self.body, strict=True))
        return Box((x, y, z), self.box)

    @property
    def face(self) -> Array:
        """From the point the string leaves from to the middle of the face toward the camera."""
        return np.array([self.body[0], self.body[1], self.body[2] + self.box[2] / 2])
