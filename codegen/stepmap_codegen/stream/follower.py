"""What the board does with set-points, bit for bit as in firmware/core/sm_follow.c."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from stepmap.arrays import Array
from stepmap_codegen.model.integers import limit
from stepmap_codegen.stream.settings import Stream

N = TypeVar("N", int, float)
POSITION_BITS, SPEED_BITS = 28, 18  # of sm_follow.h
MOST_STEP = 2**29  # raw, so that products of steps and distances fit 64 bits


@dataclass(frozen=True)
class RawLimits:
    """Limits of a streamed quantity in the format of its reference."""

    low: int
    high: int
    step: int  # most change in one tick
    change: int  # most change of that


def raw_limits(stream: Stream, bits: Sequence[int], period: float) -> list[RawLimits]:
    """Limits in raw values, rounded inwards; ``bits`` are fraction bits of the quantities' references."""
    made = []
    for q, fraction in zip(stream.quantities, bits, strict=True):
        one = 2.0**fraction
        step = min(max(int(np.floor(q.rate * period * one)), 1), MOST_STEP)
        change = min(max(int(np.floor(q.acceleration * period**2 * one)), 1), 2 * step)
        made.append(RawLimits(int(np.ceil(q.low * one)), int(np.floor(q.high * one)), step, change))
    return made


def toward(off: N, speed: N, most: N, change: N) -> N:
    """How far to move in a tick towards what is ``off`` away: the most with which it can still stop there.

    The speed was ``speed`` per tick, may become ``most``, and changes by ``change`` at a time; slowing down takes
    speed (speed + change) / (2 change).
    """
    if abs(off) <= change and abs(off) <= most and abs(off - speed) <= change:
        return off
    far, forward = (off, speed) if off > 0 else (-off, -speed)
    made = min(forward + change, most)
    for slower in (forward, forward - change):
        if made <= 0 or made * (made + change) <= 2 * change * far:
            break
        made = slower
    return made if off > 0 else -made


def slowed(speed: N, change: N) -> N:
    """A speed that is slowed down by ``change``."""
    return speed - max(-change, min(change, speed))


class Follower:
    """Value and next value of the set-points, tick by tick."""

    def __init__(self, limits: Sequence[RawLimits], states: Sequence[int], last: Array, tangent: Array, word: int):
        self.limits, self.states, self.word = list(limits), list(states), word
        self.last = [int(v) for v in last]
        self.slopes = [[int(v) for v in row] for row in tangent]
        self.target = [self.last[i] for i in states]
        self.value, self.next = list(self.target), list(self.target)

    def take(self, raw: Sequence[int]) -> None:
        """A set-point has come."""
        self.target = [max(of.low, min(of.high, int(v))) for of, v in zip(self.limits, raw, strict=False)]

    def step(self, *, moves: bool, lost: bool) -> None:
        """One tick; ``moves``: the schedule is over and motors follow; ``lost``: no set-point has come for too long."""
        speeds = [b - a for a, b in zip(self.value, self.next, strict=True)]
        self.value = list(self.next)
        if moves:
            off = [self._limited(t - v) for t, v in zip(self.target, self.value, strict=True)]
            self.next = [
                v + (slowed(speed, of.change) if lost else toward(d, speed, of.step, of.change))
                for v, of, d, speed in zip(self.value, self.limits, off, speeds, strict=True)
            ]

    def reference(self, entries: int) -> list[int]:
        """The last row of the schedule with its first ``entries`` moved by the set-points."""
        count, row = len(self.states), list(self.last)
        off = [self._limited(v - self.last[i]) for v, i in zip(self.value, self.states, strict=True)]
        change = [self._limited(b - a) for a, b in zip(self.value, self.next, strict=True)]
        for i in range(entries):
            total = row[i]
            for j in range(count):
                total += _scaled(self.slopes[j][i], off[j], POSITION_BITS)
                total += _scaled(self.slopes[count + j][i], change[j], SPEED_BITS)
            row[i] = self._limited(total)
        return row

    def _limited(self, v: int) -> int:
        top = limit(self.word)
        return max(-top - 1, min(top, v))


def _scaled(a: int, b: int, right: int) -> int:
    return (a * b + (1 << (right - 1))) >> right


def raw_tangent(rows: Array, bits: Sequence[int], states: Sequence[int]) -> Array:
    """Rows D then E, (2n, entries) in SI units, as raw values; what they become may be beyond 32 bits."""
    n = len(states)
    of = np.array([bits[i] for i in states], dtype=float)[:, None]
    entries = np.array(bits, dtype=float)[None, :]
    shifts = np.vstack([entries - of + POSITION_BITS, entries - of + SPEED_BITS])
    raw: Array = np.rint(rows.reshape(2 * n, -1) * 2.0**shifts)
    return raw


def decoded(raw: Array, bits: Sequence[int], states: Sequence[int]) -> tuple[Array, Array]:
    """D and E in SI units of raw rows: the inverse of ``raw_tangent``."""
    of = np.array([bits[i] for i in states], dtype=float)[:, None]
    shift = np.array(bits, dtype=float)[None, :] - of
    D, E = np.split(np.asarray(raw, dtype=float), 2)
    return D * 2.0 ** -(shift + POSITION_BITS), E * 2.0 ** -(shift + SPEED_BITS)
