"""Rows of tables: each operation against plain arithmetic, from every place to every place."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from tests.firmware import native_core

R = native_core.types("sm_rows.h")
TOP, LEAST = 2**31 - 1, -(2**31)
WORK, FIELD, CONSTANT = 0, 1 << 14, 2 << 14
NUMBERS = [LEAST, LEAST + 1, -1_234_567_891, -65537, -3, -1, 0, 1, 2, 7, 40_000, 987_654_321, TOP - 1, TOP]


def limited(v: int) -> int:
    return max(LEAST, min(TOP, v))


def rounded(v: Fraction) -> int:
    """To nearest, ties up."""
    return math.floor(v + Fraction(1, 2))


def both(left: int, right: int) -> int:
    """The amount of a sum: shifts of both operands."""
    return left | right << 6


def run(
    op: str, amount: int, a: int, b: int, places: tuple[int, int, int] = (WORK, WORK, WORK), cut: int = 0
) -> tuple[int, int, int]:
    """(result, what the run returned, saturations) of one row."""
    core = native_core.library("sm_rows.c", "sm_fixed.c")
    memory = [(ctypes.c_int32 * 3)(), (ctypes.c_int32 * 3)(), (ctypes.c_int32 * 3)()]
    at_a, at_b, at_to = places
    memory[at_a >> 14][0], memory[at_b >> 14][1] = a, b
    row = R.sm_row(R.sm_row_op[f"SM_ROW_{op}"] | cut, amount, at_to | 2, at_a, at_b | 1)
    lost = ctypes.c_uint32()
    work, fields, constants = memory
    ended = core.sm_rows_run(ctypes.byref(row), 1, fields, constants, work, ctypes.byref(lost))
    return memory[at_to >> 14][2], ended, lost.value


SUMS: dict[str, Callable[[int, int], int]] = {
    "ADD": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "MIN": min,
    "MAX": max,
}


@pytest.mark.parametrize("op", SUMS)
@pytest.mark.parametrize(("left", "right"), [(0, 0), (1, 0), (0, 5), (31, 32), (40, 3)])
def test_sums_shift_both_operands_and_saturate(op: str, left: int, right: int) -> None:
    for a in NUMBERS:
        for b in NUMBERS:
            exact = SUMS[op](*(rounded(Fraction(v, 2**s)) if s < 32 else 0 for v, s in ((a, left), (b, right))))
            assert run(op, both(left, right), a, b) == (limited(exact), 1, int(exact != limited(exact)))


@pytest.mark.parametrize(("fast", "op"), [("ADD_FAST", "ADD"), ("SUB_FAST", "SUB")])
def test_fast_sums_are_sums_where_they_fit(fast: str, op: str) -> None:
    halves = [v // 2 for v in NUMBERS]  # their sums fit, as those of generated code do
    for a in halves:
        for b in halves:
            if abs(SUMS[op](a, b)) < TOP:
                assert run(fast, 0, a, b) == (SUMS[op](a, b), 1, 0)


CUT = 0x80  # SM_ROW_CUT
NEAREST: dict[int, Callable[[Fraction], int]] = {0: rounded, CUT: math.floor}


@pytest.mark.parametrize("cut", NEAREST)
@pytest.mark.parametrize("bits", [32, 25])
@pytest.mark.parametrize("right", [8, 17, 31])
def test_products_saturate_near_the_limit_of_their_bits(right: int, bits: int, cut: int) -> None:
    """Bits below the upper word stay as they are: less than 2^(32 − right) is missing to the limit."""
    top = 2 ** (bits - 1) - 1
    for a in NUMBERS:
        for b in NUMBERS:
            exact = NEAREST[cut](Fraction(a * b, 2**right))
            found, ended, lost = run("MUL", right | bits << 6, a, b, cut=cut)
            assert (ended, lost) == (1, int(not -top - 1 <= exact <= top))
            if lost:
                assert 0 <= (top - found if exact > 0 else found + top + 1) < 2 ** (32 - right)
            else:
                assert found == exact


@pytest.mark.parametrize("cut", NEAREST)
@pytest.mark.parametrize("right", [32, 45, 62])
def test_upper_words_of_products(right: int, cut: int) -> None:
    for a in NUMBERS:
        for b in NUMBERS:
            exact = NEAREST[cut](Fraction(a * b, 2**right))
            # Where it is rounded, its shift rounds what HIGH cut off: half of the last bit may be missing.
            assert abs(run("MUL_WIDE", right, a, b, cut=cut)[0] - exact) <= (0 if cut else 1)
        assert run("HIGH", 0, a, a, cut=cut)[0] == NEAREST[cut](Fraction(a * a, 2**32))


def test_operands_of_sums_and_moves_are_cut() -> None:
    for a in NUMBERS:
        for b in NUMBERS:
            exact = (a >> 3) + (b >> 31)
            assert run("ADD", both(3, 31), a, b, cut=CUT) == (limited(exact), 1, int(exact != limited(exact)))
        assert run("MOVE", 5, a, 0, cut=CUT)[0] == a >> 5


def test_reciprocals_roots_and_waves() -> None:
    for a in (v for v in NUMBERS if v):
        exact = Fraction(2 ** (61 - 20), a)
        found, _, lost = run("RECIPROCAL", 20, a, 0)
        assert abs(found - limited(round(exact))) <= 1
        assert lost == (abs(exact) > TOP)
        if a > 0:
            assert abs(run("ROOT", 20, a, 0)[0] - limited(round(math.sqrt(a * 2**12)))) <= 1
        # The argument has 28 fraction bits; docs/primitives.md: errors of a few units of the result's 30.
        assert run("SIN", 28, a, 0)[0] == pytest.approx(math.sin(a / 2**28) * 2**30, abs=4)
        assert run("COS", 28, a, 0)[0] == pytest.approx(math.cos(a / 2**28) * 2**30, abs=4)


def test_signs_moves_and_magnitudes() -> None:
    for a in NUMBERS:
        assert run("ABS", 0, a, 0) == (limited(abs(a)), 1, int(a == LEAST))
        assert run("SIGN", 30, a, 0)[0] == (a > 0) * 2**30 - (a < 0) * 2**30
        for right in (0, 3, 31, 40, -1, -20):
            exact = rounded(a * Fraction(2) ** -right) if right < 32 else 0
            within = limited(exact) if right >= 0 else limited(exact) >> -right << -right  # zeros are shifted in
            assert run("MOVE", right, a, 0)[::2] == (within, int(exact != limited(exact)))


def test_a_guard_ends_the_rows_where_a_is_larger() -> None:
    for a in NUMBERS:
        for b in NUMBERS:
            assert run("GUARD", both(0, 0), a, b)[:2] == (0, int(a <= b))


@pytest.mark.parametrize("a", [WORK, FIELD, CONSTANT])
@pytest.mark.parametrize("b", [WORK, FIELD, CONSTANT])
@pytest.mark.parametrize("to", [WORK, FIELD])
def test_operands_and_results_are_where_they_should_be(a: int, b: int, to: int) -> None:
    assert run("SUB", 0, 50, 8, (a, b, to))[0] == 42
