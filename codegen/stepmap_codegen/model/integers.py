"""Fixed-point primitives, exactly: what firmware/core/sm_fixed.h does in C, here on arrays of int64.

A number is an integer v with f fraction bits, v·2^−f. Results are rounded to nearest (ties up; away from zero in
``reciprocal`` and ``division``, which round a magnitude), or bits are cut off, which rounds down; and they saturate at
−2^(word−1) and 2^(word−1) − 1, or a little before the latter where they were shifted. Functions return (value,
saturated), those that cannot overflow the value alone. Errors and costs are in docs/primitives.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

TOP = (1 << 31) - 1

QUADRANTS = 1367130551  # 2^32/π
# sin(π/4 t) = t p(t²) and cos(π/4 t) = p(t²) for |t| ≤ 1; coefficient i has 2i fraction bits more than the sum
SINE = (1686629713, -693598665, 85569234, -5026337, 169634)  # 31
COSINE = (1073741824, -1324675869, 272375233, -22398329, 970263)  # 30
ROOT = (17163, 34115, 10066)  # sqrt(x) on [1/4, 1] ≈ a + b x − c x² with 16, 15 and 15 fraction bits


def limit(word: int) -> int:
    """Largest integer of a word."""
    return (1 << (word - 1)) - 1


def saturate(v: Ints, word: int) -> tuple[Ints, Flags]:
    top = limit(word)
    over = (v > top) | (v < -top - 1)
    return np.clip(v, -top - 1, top) if over.any() else v, over  # it seldom is: a test takes less than to clip


def shifted(v: Ints, right: int, word: int, cut: bool = False) -> tuple[Ints, Flags]:
    """v·2^−right of a v that fits a word, rounded or cut off; to the left saturated, by v: zeros are shifted in."""
    if right >= 32:
        return v * 0, np.zeros(np.shape(v), bool)
    if right > 0:
        return saturate(v >> np.int64(right) if cut else (v + (1 << (right - 1))) >> np.int64(right), word)
    left = min(-right, word - 1)
    held, over = saturate(v, word - left)
    return held << np.int64(left) if left else held, over


def absolute(v: Ints, word: int) -> tuple[Ints, Flags]:
    """|v|; the least number has none, and saturates."""
    return saturate(np.abs(v), word)


def product(a: Ints, b: Ints, right: int, word: int, cut: bool = False, bits: int | None = None) -> tuple[Ints, Flags]:
    """a·b·2^−right, right ≥ 1, in ``bits`` bits, or in as many as a word has.

    In words of 32 bits what saturates is the upper word; the bits below it stay.
    """
    if right > 62:
        return a * b * 0, np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b)), bool)
    whole = a * b if cut else a * b + (np.int64(1) << np.int64(right - 1))
    bits = bits or word
    if word < 32 or right >= 32:
        return saturate(whole >> np.int64(right), bits)
    upper, over = saturate(whole >> np.int64(32), right - 32 + bits)
    if not over.any():
        return whole >> np.int64(right), over
    return (upper << np.int64(32 - right)) + ((whole & 0xFFFFFFFF) >> np.int64(right)), over


def high(a: Ints, b: Ints) -> Ints:
    """a·b·2^−32 rounded, which cannot overflow."""
    return (a * b + (1 << 31)) >> 32


def reciprocal(d: Ints, fraction: int, result: int, word: int) -> tuple[Ints, Flags]:
    """2^(fraction + result)/d: the reciprocal of d·2^−fraction with ``result`` fraction bits; 1/0 saturates."""
    return division(np.ones_like(d), d, fraction + result, word)


def division(a: Ints, b: Ints, left: int, word: int) -> tuple[Ints, Flags]:
    """a/b·2^left; a/0 saturates by the sign of a, 0/0 as a positive number.

    |b| is normalized to m in [2^30, 2^31), and |a| multiplied with 2^62/m, which is found within 2^−30.99 relative.
    """
    divisor = np.maximum(np.abs(b), 1)
    zeros = _leading_zeros(divisor)
    wide = np.abs(a) * _inverse((divisor << zeros) >> 1)
    size = np.where(b == 0, _BEYOND, _rounded(wide, 63 - left - zeros))
    return saturate(np.where((a < 0) ^ (b < 0), -size, size), word)


def root(v: Ints, fraction: int, result: int, word: int) -> tuple[Ints, Flags]:
    """The square root of v·2^−fraction with ``result`` fraction bits; of a negative number 0, marked as saturated.

    v is normalized to m in [2^30, 2^32), leaving an even exponent. s = floor(sqrt(m)) by a parabola and one step of
    Heron; s + (m − s²)/2s is the root with 16 bits behind the point, within 2^−31 relative.
    """
    base = 32 + fraction - 2 * result
    odd = base % 2
    positive = np.maximum(v, 1)
    up = ((_leading_zeros(positive) + odd) & ~1) - odd
    m = positive << up
    a, b, c = ROOT
    upper = m >> 16
    seed = a + ((upper * (b - ((upper * c) >> 16))) >> 15)
    s = (seed + m // seed) >> 1
    s -= s * s > m
    precise = (s << 16) + ((m - s * s) << 15) // s
    value, over = saturate(_rounded(precise, (base + up) >> 1), word)
    return np.where(v > 0, value, 0), np.where(v > 0, over, v < 0)


def sine(v: Ints, fraction: int) -> Ints:
    """sin(v·2^−fraction) with 30 fraction bits."""
    return _sine_of_quadrants(_quadrants(v, fraction))


def cosine(v: Ints, fraction: int) -> Ints:
    """cos(v·2^−fraction) with 30 fraction bits: the sine one quadrant further."""
    return _sine_of_quadrants(_quadrants(v, fraction) + (1 << 32))


_BEYOND = 1 << 62  # saturates in every word


def _leading_zeros(v: Ints) -> Ints:
    """Zeros before the first bit of v in 32 bits, 1 ≤ v ≤ 2^31."""
    bits: Ints = np.frexp(v.astype(float))[1].astype(np.int64)
    return 32 - bits


def _rounded(v: Ints, right: Ints) -> Ints:
    """v·2^−right, 0 ≤ v < 2^63, of 0 or a number so large that it is beyond every word without a shift."""
    twice = v >> np.clip(right - 1, 0, 63)
    return np.where(right > 0, (twice >> 1) + (twice & 1), np.where(v > 0, _BEYOND, 0))


def _inverse(m: Ints) -> Ints:
    """2^62/m, 2^30 ≤ m < 2^31: too small, by less than 1.001.

    rough = (1 − e) 2^46/m with e in (0, 1.25·2^−15], and 1/(1 − e) = 1 + e + e² + ….
    """
    rough: Ints = ((1 << 32) - 1) // ((m >> 14) + 1)
    error = (1 << 46) - m * rough
    series = error + ((error * error) >> 46)
    return (rough << 16) + (((rough << 2) * series) >> 32)


def _quadrants(v: Ints, fraction: int) -> Ints:
    """The angle in quadrants with 32 fraction bits; whole turns may be lost."""
    turned = v * QUADRANTS
    if fraction > 1:
        return (turned + (1 << (fraction - 2))) >> (fraction - 1)
    return (turned & ((1 << (33 + fraction)) - 1)) << (1 - fraction)


def _sine_of_quadrants(quadrants: Ints) -> Ints:
    """Sine, 30 fraction bits: k whole quadrants, and t in [−1, 1) halves of one with 31 fraction bits."""
    k = (quadrants + (1 << 31)) >> 32
    t = quadrants - (k << 32)
    x = high(t, t)  # t², 30 fraction bits
    y = np.where(k & 1, _polynomial(COSINE, x), high(t, _polynomial(SINE, x)))
    return np.where(k & 2, -y, y)


def _polynomial(coefficients: tuple[int, ...], x: Ints) -> Ints:
    total = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = c + high(x, total)
    return total
