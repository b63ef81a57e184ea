"""What the board does with set-points, bit for bit as in firmware/core/sm_stream.c."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap_codegen.model.integers import limit
from stepmap_codegen.stream.settings import Stream

POSITION_BITS, SPEED_BITS = 28, 18  # of sm_stream.h


@dataclass(frozen=True)
class RawLimits:
    """Limits of a streamed quantity in the format of its reference."""

    low: int
    high: int
    step: int  # most change in one tick


def raw_limits(stream: Stream, bits: Sequence[int], period: float) -> list[RawLimits]:
    """Limits in raw values, rounded inwards; ``bits`` are fraction bits of the quantities' references."""
    made = []
    for q, fraction in zip(stream.quantities, bits, strict=True):
        one = 2.0**fraction
        step = max(int(np.floor(q.rate * period * one)), 1)
        made.append(RawLimits(int(np.ceil(q.low * one)), int(np.floor(q.high * one)), step))
    return made


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
        self.value = list(self.next)
        if lost:
            self.target = list(self.value)
        if moves:
            off = [self._limited(t - v) for t, v in zip(self.target, self.value, strict=True)]
            self.next = [
                v + max(-of.step, min(of.step, d)) for v, of, d in zip(self.value, self.limits, off, strict=True)
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
