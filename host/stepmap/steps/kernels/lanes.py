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
BUILDING = 0.5, 0.03  # s of processor time that the library of lanes takes to be built, and what each dimension adds


class Worth:
    """Whether so much has been asked for that a library for many points at once, which is kept, pays."""

    def __init__(self, ndx: int) -> None:
        self._spent, self._enough = 0.0, BUILDING[0] + BUILDING[1] * ndx

    def after(self, points: int, entries: int) -> bool:
        """Told of that many points, with that many entries of A and B each."""
        self._spent += points * entries * PER_ENTRY
        return self._spent >= self._enough


def pointer(function: Any) -> int | None:
    """The address of a library's function."""
    return ctypes.cast(function, ctypes.c_void_p).value
