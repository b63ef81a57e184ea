"""Which of the balls that a frame shows is which: by where each is expected, from where it was and how it moved."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stepmap.arrays import Array

NEAR = 0.12  # m from where a ball is expected that it may be found, if it was seen in the last frame
WANDER = 1.0  # m/s that this distance grows by while it is not seen
FIRST = 0.5  # m, before it was seen at all, and at most ever
FORGET = 0.5  # s without it, after which it is expected where it was last


def match(found: Array, expected: Array, within: Array) -> list[int | None]:
    """For each of n expected places (n, 3) the index of one of m found ones (m, 3), or None.

    Of all ways to give each place one found within its distance (n,), that with the most pairs and then the least sum
    of squared distances.
    """
    if not len(found):
        return [None] * len(expected)
    from scipy.optimize import linear_sum_assignment  # takes a while to import, and a single ball needs none

    apart = np.linalg.norm(expected[:, None] - found[None], axis=2)
    allowed = apart <= within[:, None]
    cost = np.where(allowed, apart**2, 1e3)  # more than any sum of squares: no pair is given up for nearer ones
    chosen: list[int | None] = [None] * len(expected)
    for place, index in zip(*linear_sum_assignment(cost), strict=True):
        if allowed[place, index]:
            chosen[int(place)] = int(index)
    return chosen


@dataclass(frozen=True, eq=False)
class Prediction:
    """Where balls are expected: each goes on as it did between the last two frames that showed it."""

    places: Array  # (n, 3) [m], where each was last, or begins
    velocities: Array  # (n, 3) [m/s]
    times: Array  # (n,) [s], when that was; −inf before the first time

    @classmethod
    def begin(cls, places: Array) -> Prediction:
        return cls(places, np.zeros_like(places), np.full(len(places), -np.inf))

    def expected(self, time: float) -> Array:
        """(n, 3)"""
        passed = time - self.times
        passed = np.where(passed < FORGET, passed, 0.0)
        places: Array = self.places + passed[:, None] * self.velocities
        return places

    def within(self, time: float) -> Array:
        """How far from there each may be, (n,) [m]."""
        reach: Array = np.minimum(NEAR + WANDER * (time - self.times), FIRST)
        return reach

    def seen(self, time: float, balls: Array) -> Prediction:
        """After a frame that showed balls (n, 3), NaN those that were not seen."""
        there = np.asarray(np.isfinite(balls).all(axis=1))
        passed = time - self.times
        follows = np.logical_and(there, np.logical_and(passed > 0, passed < FORGET))
        moved = (balls - self.places) / np.where(follows, passed, 1.0)[:, None]
        return replace(
            self,
            places=np.where(there[:, None], balls, self.places),
            velocities=np.where(follows[:, None], moved, np.where(there[:, None], 0.0, self.velocities)),
            times=np.where(there, time, self.times),
        )
