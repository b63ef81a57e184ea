"""Machines that walk or hop with motors, rooted in the foot that stands; gaits rename their legs at every landing."""

from __future__ import annotations

import math
from typing import NamedTuple


class Legs(NamedTuple):
    """Two equal legs of a shank and a thigh [m] with both feet on the ground, knees bent by an angle [rad]."""

    shank: float
    thigh: float
    stride: float
    bend: float

    @property
    def reach(self) -> float:
        """From foot to hip [m]."""
        return math.sqrt(self.shank**2 + self.thigh**2 + 2 * self.shank * self.thigh * math.cos(self.bend))

    @property
    def pose(self) -> dict[str, float]:
        """Relative angles theta1 to theta4 at the end of a step: the hip over the middle, the swing foot ahead."""
        lean = math.asin(min(1.0, self.stride / (2 * self.reach)))
        knee = math.atan2(self.thigh * math.sin(self.bend), self.shank + self.thigh * math.cos(self.bend))
        return {
            "theta1": -lean - knee,
            "theta2": self.bend,
            "theta3": 2 * lean,
            "theta4": -self.bend,
        }
