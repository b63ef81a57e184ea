"""Fixed-point primitives, exactly: what firmware/core/sm_fixed.h does in C, here on arrays of int64.

A number is an integer v with f fraction bits, v·2^−f. Results are rounded to nearest (ties up) and saturate at
−2^(word−1) and 2^(word−1) − 1. Every function returns (value, saturated).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

TOP = (1 << 31) - 1


def limit(word: int) -> int:
    """Largest integer of a word."""
    return (1 << (word - 1)) - 1


def saturate(v: Ints, word: int) -> tuple[Ints, Flags]:
    top = limit(word)
    return np.clip(v, -top - 1, top), (v > top) | (v < -top - 1)


def shifted(v: Ints, right: int, word: int) -> tuple[Ints, Flags]:
    """v·2^−right, rounded, saturated; |v| < 2^62."""
    if right > 0:
        return saturate((v + (np.int64(1) << np.int64(right - 1))) >> np.int64(right) if right < 63 else v * 0, word)
    left = min(-right, 31)
    top = limit(word)
    over = (v > top >> left) | (v < (-top - 1) >> left)
    return np.where(over, np.where(v > 0, top, -top - 1), np.where(over, 0, v) << np.int64(left)), over


def product(a: Ints, b: Ints, right: int, word: int) -> tuple[Ints, Flags]:
    """a·b·2^−right."""
    return shifted(a * b, right, word)


def reciprocal(d: Ints, fraction: int, result: int, word: int) -> tuple[Ints, Flags]:
    """2^(fraction + result)/d: the reciprocal of d·2^−fraction with ``result`` fraction bits; 1/0 saturates.

    d is normalized to m in [2^30, 2^31); 2^46/m is found to 15 bits by one 32-bit division and refined once:
    y = 2^61/m within 2^-29 relative.
    """
    size = np.abs(d)
    zero = size == 0
    safe = np.where(zero, 1, size)
    shift = 30 - (np.frexp(safe.astype(float))[1].astype(np.int64) - 1)  # exact for |d| < 2^53; −1 for 2^31
    m = np.where(shift >= 0, safe << np.maximum(shift, 0), safe >> 1)
    rough = (np.int64(1) << np.int64(31)) // (m >> np.int64(15))  # 2^46/m
    error = (np.int64(1) << np.int64(46)) - m * rough
    y = (rough << np.int64(15)) + ((error * rough) >> np.int64(31))
    right = 61 - fraction - result - shift
    out = np.zeros_like(d)
    over = np.zeros(d.shape, bool)
    for amount in np.unique(right):
        here = right == amount
        if amount > 62:
            continue
        if amount > 0:
            value = (y[here] + (np.int64(1) << np.int64(amount - 1))) >> np.int64(amount)
        elif amount > -31:
            value = y[here] * (np.int64(1) << np.int64(-amount))
        else:
            value = np.full(int(here.sum()), np.iinfo(np.int64).max)
        out[here], over[here] = saturate(np.where(d[here] < 0, -value, value), word)
    return np.where(zero, limit(word), out), over | zero
