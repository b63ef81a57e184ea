"""The row of a schedule that is nearest to a pose, in integers as firmware/core/sm_walk.c finds it."""

from __future__ import annotations

from collections.abc import Sequence

from stepmap.arrays import Array

BACK, AHEAD = 3, 6  # rows around the expected one that are looked at
BITS = 12  # fraction bits of what is compared
LARGEST = 8191  # of a difference: two radians


def nearest(pose: Sequence[int], rows: Array, expected: int, of_pose: Sequence[int], of_row: Sequence[int]) -> int:
    """The row (of raw values) with the least sum of squares of differences to the pose; the first of equal ones.

    ``of_pose`` and ``of_row`` are fraction bits.
    """
    best, least = 0, -1
    for k in range(max(0, expected - BACK), min(len(rows), expected + AHEAD + 1)):
        total = 0
        for i, value in enumerate(pose):
            off = (value >> (of_pose[i] - BITS)) - (int(rows[k, i]) >> (of_row[i] - BITS))
            off = max(-LARGEST, min(LARGEST, off))
            total += off * off
        if least < 0 or total < least:
            best, least = k, total
    return best
