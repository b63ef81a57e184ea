"""Many points at once in the lanes of vectors: when that pays, and what it takes besides.

Lanes have the bits of the scalar library, so results do not depend on which of the two is used.
"""

from __future__ import annotations

import ctypes
from typing import Any

TWINS = {  # functions on many points: the same in lanes, and the scalar one that takes what a lane cannot do
    "sm_rollout_many": ("sm_rollout_lanes", "sm_step"),
    "sm_linearize_all": ("sm_linearize_lanes", "sm_linearize"),
}
FEWEST = 4  # points: fewer leave most lanes empty
PER_ENTRY = 2e-9  # s that a scalar step takes per entry of A and B, for want of a better guess
BUILDING = 0.3  # s of scalar steps, after which the library of lanes is built: it takes as long, and is kept


class Worth:
    """Whether so much has been asked for that a library for many points at once pays."""

    def __init__(self) -> None:
        self._spent = 0.0

    def after(self, points: int, entries: int) -> bool:
        """Told of that many points, with that many entries of A and B each."""
        self._spent += points * entries * PER_ENTRY
        return self._spent >= BUILDING


def pointer(function: Any) -> int | None:
    """The address of a library's function."""
    return ctypes.cast(function, ctypes.c_void_p).value
