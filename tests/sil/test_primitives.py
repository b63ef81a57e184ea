"""The fixed-point primitives: C = integer model for every input, both within the errors docs/primitives.md states."""

from __future__ import annotations

import ctypes
import functools
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev

from stepmap.arrays import Array
from stepmap_codegen.model import integers
from stepmap_codegen.model.integers import Flags, Ints

CORE = Path(__file__).parents[2] / "firmware" / "core"
WARNINGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
TRAP = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", "-shared", "-fPIC"]
ARM = "arm-none-eabi-gcc"
WORDS = [16, 24, 32]
RUNS = 1_000_000

Model = Callable[[Ints, Ints, int, int], tuple[Ints, Flags]]


@dataclass(frozen=True)
class Primitive:
    """How it is called in C for a, b, a shift and a word, and what the model says to the same."""

    call: str
    model: Model
    shifts: tuple[int, ...] = (0,)
    inside: bool = False  # asks for numbers of the word


def never(value: Ints) -> tuple[Ints, Flags]:
    return value, np.zeros(value.shape, bool)


def held(bits: int, word: int) -> int:
    """Products of shorter words saturate at the word alone."""
    return bits if word == 32 else word


LEFT, RIGHT, BITS = (0, 1, 5, 15, 16, 23, 30, 31), (1, 2, 15, 30, 31), (13, 14, 25, 31, 32)
PRIMITIVES = {
    "limit": Primitive("sm_limit((int64_t)a * b, lost)", lambda a, b, s, w: integers.saturate(a * b, w)),
    "left": Primitive(
        "sm_left(a, (unsigned)s % SM_WORD, lost)", lambda a, b, s, w: integers.shifted(a, -(s % w), w), LEFT
    ),
    "right": Primitive("sm_right(a, (unsigned)s)", lambda a, b, s, w: integers.shifted(a, s, 32), (1, 2, 15, 30, 31)),
    "add": Primitive("sm_add(a, b, lost)", lambda a, b, s, w: integers.saturate(a + b, w)),
    "sub": Primitive("sm_sub(a, b, lost)", lambda a, b, s, w: integers.saturate(a - b, w)),
    "abs": Primitive("sm_abs(a, lost)", lambda a, b, s, w: integers.absolute(a, w)),
    "right_cut": Primitive("a >> s", lambda a, b, s, w: integers.shifted(a, s, 32, True), (1, 2, 15, 30, 31)),
    "high": Primitive("sm_high(a, b)", lambda a, b, s, w: never(integers.high(a, b))),
    "high_cut": Primitive("sm_high_cut(a, b)", lambda a, b, s, w: integers.product(a, b, 32, 32, True)),
    "mul_wide": Primitive(
        "sm_mul_wide(a, b, (unsigned)(SM_WORD + s))",
        lambda a, b, s, w: integers.product(a, b, w + s, w),
        (0, 1, 7, 8, 9, 16, 17, 30),
        inside=True,
    ),
    "mul_wide_cut": Primitive(
        "sm_mul_wide_cut(a, b, (unsigned)(SM_WORD + s))",
        lambda a, b, s, w: integers.product(a, b, w + s, w, True),
        (0, 1, 7, 8, 9, 16, 17, 30),
        inside=True,
    ),
    "mul": Primitive(
        "sm_mul(a, b, (unsigned)s, SM_WORD, lost)", lambda a, b, s, w: integers.product(a, b, s, w), RIGHT
    ),
    "mul_cut": Primitive(
        "sm_mul_cut(a, b, (unsigned)s, SM_WORD, lost)", lambda a, b, s, w: integers.product(a, b, s, w, True), RIGHT
    ),
    "mul_held": Primitive(
        "sm_mul(a, b, 20U, HELD(s), lost)", lambda a, b, s, w: integers.product(a, b, 20, w, False, held(s, w)), BITS
    ),
    "mul_cut_held": Primitive(
        "sm_mul_cut(a, b, 20U, HELD(s), lost)", lambda a, b, s, w: integers.product(a, b, 20, w, True, held(s, w)), BITS
    ),
    "reciprocal": Primitive(
        "sm_reciprocal(a, s, SM_WORD, lost)",
        lambda a, b, s, w: integers.reciprocal(a, 50 - s, 11, w),
        (-40, -3, *range(-2, 65, 6), 100),
    ),
    "div": Primitive(
        "sm_div(a, b, s, SM_WORD, lost)",
        lambda a, b, s, w: integers.division(a, b, 61 - s, w),
        (-40, -3, *range(-2, 97, 9), 200),
    ),
    "sqrt": Primitive(
        "sm_sqrt(a, s, SM_WORD, lost)",
        lambda a, b, s, w: integers.root(a, s + 8, 20, w),
        (-60, -33, -32, -31, *range(-12, 66, 5), 101),
    ),
    "sin": Primitive("sm_sin(a, s)", lambda a, b, s, w: never(integers.sine(a, s)), (-30, -8, 0, 1, 2, 16, 29, 40, 62)),
    "cos": Primitive(
        "sm_cos(a, s)", lambda a, b, s, w: never(integers.cosine(a, s)), (-30, -8, 0, 1, 2, 16, 29, 40, 62)
    ),
}

EACH = """#include "sm_fixed.h"
#define HELD(s) (SM_WORD == 32 ? (unsigned)(s) : SM_WORD)
#define EACH(name, call) \\
  void each_##name(const int32_t *first, const int32_t *second, int s, int32_t *out, uint32_t *counts, int n) { \\
    (void)s; \\
    for (int i = 0; i < n; i++) { \\
      const int32_t a = first[i], b = second[i]; \\
      uint32_t count = 0, *const lost = &count; \\
      (void)a, (void)b, (void)lost; \\
      out[i] = call; \\
      counts[i] = count; \\
    } \\
  }
"""


@functools.cache
def library(folder: Path, word: int) -> ctypes.CDLL:
    source, built = folder / f"each_{word}.c", folder / f"each_{word}.so"
    prototypes = "".join(
        f"void each_{name}(const int32_t *, const int32_t *, int, int32_t *, uint32_t *, int);\n" for name in PRIMITIVES
    )
    calls = "".join(f"EACH({name}, {primitive.call})\n" for name, primitive in PRIMITIVES.items())
    source.write_text(f"#define SM_WORD {word}\n{EACH}{prototypes}{calls}")
    files = [str(source), str(CORE / "sm_fixed.c")]
    subprocess.run(["gcc", *WARNINGS, *TRAP, f"-I{CORE}", "-o", str(built), *files], check=True)
    return ctypes.CDLL(str(built))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("primitives")


def run(folder: Path, name: str, a: Ints, b: Ints, shift: int, word: int) -> tuple[Ints, Ints]:
    """The C: values, and how often each call counted."""
    numbers = [np.ascontiguousarray(v, dtype=np.int32) for v in (a, b)]
    out, counts = np.zeros(len(a), np.int32), np.zeros(len(a), np.uint32)
    pointers = [v.ctypes.data_as(ctypes.c_void_p) for v in (*numbers, out, counts)]
    getattr(library(folder, word), f"each_{name}")(*pointers[:2], shift, *pointers[2:], len(a))
    return out.astype(np.int64), counts.astype(np.int64)


def edges() -> Ints:
    """0, ±1, INT_MIN, INT_MAX, and powers of two with their neighbours."""
    powers = [1 << k for k in range(32)]
    near = {sign * power + d for power in powers for sign in (1, -1) for d in (-1, 0, 1)}
    return np.array(sorted(v for v in near if -(1 << 31) <= v < 1 << 31))


def numbers(count: int, seed: int) -> Ints:
    """All magnitudes: every length in bits is as likely."""
    rng = np.random.default_rng(seed)
    size = rng.integers(0, 1 << 31, count) >> rng.integers(0, 32, count)
    return np.where(rng.integers(0, 2, count) == 1, size, -1 - size)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", PRIMITIVES)
def test_c_equals_the_model_bit_for_bit(name: str, word: int, folder: Path) -> None:
    primitive = PRIMITIVES[name]
    left, right = np.meshgrid(edges(), edges())
    for shift in primitive.shifts:
        count = RUNS // len(primitive.shifts)
        a = np.concatenate([left.ravel(), numbers(count, 1)])
        b = np.concatenate([right.ravel(), numbers(count, 2)])
        if primitive.inside:
            a, b = (integers.saturate(v, word)[0] for v in (a, b))
        value, over = primitive.model(a, b, shift, word)
        made, counts = run(folder, name, a, b, shift, word)
        np.testing.assert_array_equal(made, value)
        np.testing.assert_array_equal(counts, over)


edge = st.builds(
    lambda size, away, sign: int(np.clip(sign * (1 << size) + away, -(1 << 31), (1 << 31) - 1)),
    st.integers(0, 31),
    st.integers(-2, 2),
    st.sampled_from([-1, 1]),
)


@settings(max_examples=400)
@given(
    a=edge,
    b=edge,
    base=st.integers(-80, 130),
    word=st.sampled_from(WORDS),
    name=st.sampled_from(["reciprocal", "div", "sqrt"]),
)
def test_c_equals_the_model_at_any_scale(a: int, b: int, base: int, word: int, name: str, folder: Path) -> None:
    """Any base, also one no format asks for: everything saturates or is 0, and no shift is undefined."""
    first, second = np.array([a]), np.array([b])
    value, over = PRIMITIVES[name].model(first, second, base, word)
    assert [v.tolist() for v in run(folder, name, first, second, base, word)] == [value.tolist(), over.tolist()]


def excess(made: tuple[Ints, Flags], exact: Array, word: int) -> float:
    """Largest relative error beyond half a unit, for rounding; what saturated must have been beyond the word."""
    value, over = made
    top = integers.limit(word)
    assert np.all(np.abs(exact[over]) > top * (1 - 2.0**-30))
    assert np.all(np.sign(exact[over]) == np.sign(value[over]))
    inside = ~over & (exact != 0)
    assert not value[exact == 0].any()
    return float(((np.abs(value - exact)[inside] - 0.5) / np.abs(exact[inside])).max(initial=0.0))


QUOTIENT = 2.0**-30.99
ROOT = 2.0**-31


@pytest.mark.parametrize("word", WORDS)
def test_reciprocals_and_quotients_have_the_stated_error(word: int) -> None:
    """In formats that keep few bits of the result, all of them, and too many."""
    a, b = (np.concatenate([edges(), numbers(30_000, seed)]) for seed in (3, 4))
    b[b == 0] = 1
    for left in range(-30, 62, 4):
        value, over = integers.reciprocal(b, left, 0, word)
        exact = 2.0**left / b
        assert excess((value, over), exact, word) <= QUOTIENT
        assert np.abs(value - exact)[~over].max(initial=0.0) <= 0.5001  # units: all but rounded correctly
        assert excess(integers.division(a, b, left, word), a / b * 2.0**left, word) <= QUOTIENT


@pytest.mark.parametrize("word", WORDS)
def test_roots_have_the_stated_error(word: int) -> None:
    v = np.minimum(np.abs(np.concatenate([edges(), numbers(30_000, 6)])), integers.TOP)
    for fraction in (0, 13, 30):
        for result in range(-4, 31, 2):
            exact = np.sqrt(v * 2.0**-fraction) * 2.0**result
            assert excess(integers.root(v, fraction, result, word), exact, word) <= ROOT


def test_the_stated_errors_are_no_larger_than_need_be() -> None:
    """Where the result has all 31 bits, error and rounding together are more than half of what is stated for both."""
    m, n = np.random.default_rng(10).integers((1 << 30) + 1, 1 << 31, (2, RUNS))
    for made, exact, stated in (
        (integers.division(m, n, 30, 32), m / n * 2.0**30, QUOTIENT),
        (integers.root(m, 0, 15, 32), np.sqrt(m) * 2.0**15, ROOT),
    ):
        value, over = made
        full = ~over & (value >= 1 << 30)
        total = stated + 2.0**-31  # half a unit of 2^30
        assert total / 2 < (np.abs(value - exact) / exact)[full].max() <= total


def test_one_step_of_heron_is_enough_from_every_seed() -> None:
    """The seed depends on the upper 16 bits alone: at both ends of each, the root is right to its last bit or two."""
    upper = np.arange(1 << 14, 1 << 16, dtype=np.int64)
    for v in (upper << 15, (upper << 15) + 0x7FFF):  # shifted by one place, since the exponent is odd
        assert excess(integers.root(v, 31, 31, 32), np.sqrt(v * 2.0**-31) * 2.0**31, 32) <= ROOT


def test_reciprocals_of_powers_of_two_and_roots_of_squares_are_exact() -> None:
    d = 1 << np.arange(31)
    for result in range(31):
        value, over = integers.reciprocal(d, 0, result, 32)
        assert not over.any()
        np.testing.assert_array_equal(value[: result + 1], (1 << result) >> np.arange(result + 1))
    whole = np.arange(46341)  # the last whose square fits
    np.testing.assert_array_equal(integers.root(whole**2, 0, 0, 32)[0], whole)
    np.testing.assert_array_equal(integers.root(whole[:32768] ** 2, 0, 15, 32)[0], whole[:32768] << 15)


def test_what_has_no_value_saturates_and_is_counted() -> None:
    zero, signs = np.zeros(3, np.int64), np.array([-5, 0, 5])
    for word in WORDS:
        top = integers.limit(word)
        assert [v.tolist() for v in integers.division(signs, zero, 10, word)] == [[-top - 1, top, top], [True] * 3]
        assert [v.tolist() for v in integers.reciprocal(zero, 3, 4, word)] == [[top] * 3, [True] * 3]
        root, lost = integers.root(signs, 0, 0, word)
        assert root[:2].tolist() == [0, 0]
        assert lost.tolist() == [True, False, False]
        least, lost = integers.absolute(np.array([-top - 1, -top]), word)
        assert least.tolist() == [top, top]
        assert lost.tolist() == [True, False]


def sine_bound(angle: Array) -> Array:
    """Polynomial, its roundings and that of the result 2^-30.2, of the angle 2^-32.3; and 2^32/π is rounded."""
    bound: Array = 2.0**-29.9 + 2.0**-33 * np.abs(angle)
    return bound


@pytest.mark.parametrize("fraction", [-8, 0, 2, 16, 28, 31, 40])
def test_sines_have_the_stated_error(fraction: int) -> None:
    v = np.concatenate([edges(), numbers(200_000, 7), np.random.default_rng(8).integers(-(1 << 31), 1 << 31, 200_000)])
    angle = v * 2.0**-fraction
    for made, exact in ((integers.sine(v, fraction), np.sin(angle)), (integers.cosine(v, fraction), np.cos(angle))):
        error = np.abs(made * 2.0**-30 - exact)
        assert (error <= sine_bound(angle)).all()
        if fraction == 28:
            assert 2.0**-29.5 < error.max() < 2.0**-28.9  # what the table says for 8 rad


def test_sine_and_cosine_keep_their_laws() -> None:
    """Known values to the last bit, and sin² + cos² = 1 within twice what both may be off, at any angle."""
    assert integers.sine(np.zeros(1, np.int64), 16).tolist() == [0]
    assert integers.cosine(np.zeros(1, np.int64), 16).tolist() == [1 << 30]
    right = np.array([round(math.pi / 2 * 2.0**29)])
    assert integers.sine(right, 29).tolist() == [1 << 30]
    v = numbers(100_000, 9)
    for fraction in (-8, 10, 29):
        s, c = integers.sine(v, fraction) * 2.0**-30, integers.cosine(v, fraction) * 2.0**-30
        assert np.abs(s**2 + c**2 - 1).max() < 2 * math.sqrt(2) * 2.0**-30.2
        assert max(np.abs(s).max(), np.abs(c).max()) <= 1


def fitted(function: Callable[[Array], Array], parity: int, bits: int) -> list[float]:
    """Coefficients of function(π/4 t), |t| ≤ 1, interpolated at Chebyshev points: within 2 % of the minimax error."""
    points = chebyshev.chebpts1(10 + parity)
    series = chebyshev.chebfit(points, function(np.pi / 4 * points), 9 + parity)
    terms = chebyshev.cheb2poly(series)[parity::2][:5]
    return [float(term) * 2.0 ** (bits + 2 * i) for i, term in enumerate(terms)]


def in_c(pattern: str, file: str) -> tuple[int, ...]:
    found = re.search(pattern, (CORE / file).read_text())
    assert found is not None
    return tuple(int(value) for value in found[1].split(","))


def test_constants_are_the_fitted_ones() -> None:
    for name, made, wanted in (
        ("sine", integers.SINE, fitted(np.sin, 1, 31)),
        ("cosine", integers.COSINE, fitted(np.cos, 0, 30)),
    ):
        assert in_c(rf"\b{name}\[\] = {{(.*?)}}", "sm_fixed.c") == made
        np.testing.assert_allclose(made, wanted, rtol=0, atol=1)
    assert in_c(r"v \* INT64_C\((\d+)\)", "sm_fixed.h") == (integers.QUADRANTS,) == (round(2**32 / math.pi),)


def assembly(source: str, folder: Path, *options: str) -> list[str]:
    """Mnemonics gcc writes for a Cortex-M3."""
    if shutil.which(ARM) is None:
        pytest.skip(f"{ARM} is not installed")
    command = [ARM, *WARNINGS, "-mthumb", "-mcpu=cortex-m3", f"-I{CORE}", *options, "-xc", "-", "-S", "-o", "-"]
    text = subprocess.run(command, input=source, check=True, capture_output=True, text=True, cwd=folder).stdout
    return [word[1] for line in text.splitlines() if (word := re.match(r"\t([a-z]\S*)", line))]


def test_a_cortex_m3_multiplies_once_and_never_divides_64_bits(folder: Path) -> None:
    """Factors that come from products and sums: gcc likes to go on in 64 bits, with three multiplications."""
    factors = {"sm_high(a, b)": 3, "sm_mul(a, b, 20, 32, lost)": 3, "sm_mul_wide(a, b, 40)": 3, "sm_right(a, 3) + b": 2}
    arguments = "(int32_t a, int32_t b, uint32_t *lost)"
    for factor, count in factors.items():
        body = f"{{ const int32_t v = {factor}; (void)b; return sm_mul(sm_high(v, a), v, 9, 32, lost); }}"
        made = assembly(f'#include "sm_fixed.h"\nint32_t f{arguments};\nint32_t f{arguments} {body}\n', folder)
        products = [m for m in made if re.match(r"smull|smlal|umull|umlal|mul|mla|mls", m)]
        assert set(products) <= {"smull", "smlal"}
        assert len(products) == count
    add = f'#include "sm_fixed.h"\nint32_t f{arguments};\nint32_t f{arguments} {{ return sm_add(a, b, lost); }}\n'
    made = assembly(add, folder)
    assert "adds" in made
    assert {"bvs", "bvc"} & set(made)  # overflow is a flag
    primitives = assembly('#include "sm_fixed.c"\n', folder)
    assert "udiv" in primitives
    assert not {"bl", "blx"} & set(primitives)  # no call into the compiler's library, such as __aeabi_uldivmod
