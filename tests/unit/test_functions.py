"""Exponentials, logarithms and inverse functions of the C runtime: errors in ulp, the same bits in every width."""

from __future__ import annotations

import ctypes
import math
import platform
import subprocess
from collections.abc import Callable
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest

from stepmap.graph import compiler
from stepmap.graph.address import address

NAMES = ("exp", "log", "tan", "atan", "asin", "acos", "sinh", "cosh", "tanh")
SOURCE = (
    """#define SM_FUNCTIONS
#include "trig.h"
enum { LANES = sizeof(real) / sizeof(double) };
"""
    + "".join(
        f"""__attribute__((visibility("default"))) void all_{name}(const double *x, double *y, int n) {{
  for (int i = 0; i < n; i += LANES) {{
    real value;
    memcpy(&value, x + i, sizeof value);
    value = sm_{name}(value);
    memcpy(y + i, &value, sizeof value);
  }}
}}
"""
        for name in NAMES
    )
    + """__attribute__((visibility("default"))) void all_atan2(const double *y, const double *x, double *out, int n) {
  for (int i = 0; i < n; i += LANES) {
    real up, along;
    memcpy(&up, y + i, sizeof up);
    memcpy(&along, x + i, sizeof along);
    up = sm_atan2(up, along);
    memcpy(out + i, &up, sizeof up);
  }
}
"""
)
X86 = platform.machine() == "x86_64"
MACHINES = ["x86-64", "x86-64-v3", "native"] if X86 else ["native"]
DIGITS = 60
ODD = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e308, -1e308, 2.0, -2.0, 711.0, -746.0, 0.5]
)


def built(folder: Path, march: str, *options: str) -> ctypes.CDLL:
    (folder / "functions.c").write_text(SOURCE)
    target = folder / f"functions{abs(hash((march, options)))}.so"
    flags = [*compiler.COMMON, *compiler.HANDWRITTEN, f"-march={march}", "-I", str(compiler.RUNTIME)]
    subprocess.run(
        [*(compiler.find() or ()), *flags, *options, "-shared", "functions.c", "-o", str(target), "-lm"],
        cwd=folder,
        check=True,
    )
    return ctypes.CDLL(str(target))


def evaluated(library: ctypes.CDLL, name: str, *x: np.ndarray) -> np.ndarray:
    size = -(-len(x[0]) // 8) * 8  # whole vectors
    given = [np.resize(part, size) for part in x]
    out = np.empty(size)
    pointers = [ctypes.c_void_p(address(part)) for part in (*given, out)]
    getattr(library, f"all_{name}")(*pointers, size)
    return out[: len(x[0])]


# references by series, with many digits -----------------------------------------------------------------------------


def series(first: Decimal, factor: Callable[[int], Decimal]) -> Decimal:
    total, term, n = Decimal(0), first, 0
    while term and abs(term) > abs(first) * Decimal(10) ** -DIGITS:
        total, n = total + term, n + 1
        term *= factor(n)
    return total


def arc(t: Decimal) -> Decimal:
    """atan t, halved until its series is short."""
    halvings = 0
    while abs(t) > Decimal("0.02"):
        t, halvings = t / (1 + (1 + t * t).sqrt()), halvings + 1
    return series(t, lambda n: -t * t * (2 * n - 1) / (2 * n + 1)) * 2**halvings


def angle(y: Decimal, x: Decimal) -> Decimal:
    half = 2 * arc(Decimal(1))
    if x == 0:
        return half.copy_sign(y)
    return arc(y / x) + (0 if x > 0 else (2 * half).copy_sign(y))


def tangent(x: Decimal) -> Decimal:
    pi = 4 * arc(Decimal(1))
    r = x - (x / pi).to_integral_value() * pi
    sine = series(r, lambda n: -r * r / (2 * n * (2 * n + 1)))
    return sine / series(Decimal(1), lambda n: -r * r / ((2 * n - 1) * 2 * n))


def grown(x: Decimal) -> Decimal:
    """e^x - 1"""
    return x.exp() - 1 if abs(x) > 1 else series(x, lambda n: x / (n + 1))


EXACT: dict[str, Callable[[Decimal], Decimal]] = {
    "exp": Decimal.exp,
    "log": Decimal.ln,
    "tan": tangent,
    "atan": arc,
    "asin": lambda x: angle(x, ((1 - x) * (1 + x)).sqrt()),
    "acos": lambda x: angle(((1 - x) * (1 + x)).sqrt(), x),
    "sinh": lambda x: (grown(x) - grown(-x)) / 2,
    "cosh": lambda x: (x.exp() + (-x).exp()) / 2,
    "tanh": lambda x: grown(2 * x) / (grown(2 * x) + 2),
}


def arguments(name: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    near, middle = rng.uniform(-1.0, 1.0, 150), 10 * rng.normal(size=100)
    small = np.concatenate([1e-3 * near[:40], 1e-8 * near[:20]])
    wide = np.exp(rng.uniform(-690.0, 690.0, 60))
    if name == "log":
        return np.concatenate([1 + 0.9 * near, 1 + small, np.abs(middle), wide, [5e-324, 1e-310]])
    if name in ("asin", "acos"):
        return np.concatenate([near, small, np.copysign(1 - 1e-3 * near**2, near), np.copysign(1 - 1e-15, near[:2])])
    others = {
        "exp": 700 * near,
        "sinh": 700 * near,
        "cosh": 700 * near,
        "tan": 1e5 * near,
        "atan": wide,
        "tanh": 25 * near,
    }
    return np.concatenate([near, small, middle, others[name]])


def ulps(found: np.ndarray, exact: list[Decimal]) -> float:
    """The largest error."""
    off = [abs(Decimal(float(y)) - e) for y, e in zip(found, exact, strict=True)]
    return float(max(gap / Decimal(float(np.spacing(abs(float(e))))) for gap, e in zip(off, exact, strict=True)))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return built(tmp_path_factory.mktemp("functions"), "native")


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_within_one_ulp(name: str, library: ctypes.CDLL) -> None:
    x = arguments(name)
    with localcontext() as context:
        context.prec = DIGITS
        worst = ulps(evaluated(library, name, x), [EXACT[name](Decimal(float(e))) for e in x])
    assert worst <= (0.95 if name == "tan" else 0.7)  # what functions.h says


def test_errors_of_angles_are_within_one_ulp(library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(8)
    y = np.concatenate([rng.normal(size=300), 1e-3 * rng.normal(size=100), np.exp(rng.uniform(-600, 600, 100))])
    x = np.concatenate([rng.normal(size=400), -np.exp(rng.uniform(-600, 600, 100))])
    with localcontext() as context:
        context.prec = DIGITS
        exact = [angle(Decimal(float(a)), Decimal(float(b))) for a, b in zip(y, x, strict=True)]
        assert ulps(evaluated(library, "atan2", y, x), exact) <= 0.7


@pytest.mark.parametrize("name", NAMES)
def test_odd_arguments_give_what_libm_gives(name: str, library: ctypes.CDLL) -> None:
    known = getattr(np, {"atan": "arctan", "asin": "arcsin", "acos": "arccos"}.get(name, name))
    with np.errstate(all="ignore"):
        expected = known(ODD)
    found = evaluated(library, name, ODD)
    np.testing.assert_allclose(found, expected, rtol=4e-16, atol=0)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()


def test_odd_angles_are_those_of_libm(library: ctypes.CDLL) -> None:
    y, x = (part.ravel() for part in np.meshgrid(ODD, ODD))
    found = evaluated(library, "atan2", y, x)
    expected = np.array([math.atan2(a, b) for a, b in zip(y, x, strict=True)])
    np.testing.assert_allclose(found, expected, rtol=4e-16, atol=0)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()


def test_bits_are_the_same_on_every_processor_and_in_every_width(library: ctypes.CDLL, tmp_path: Path) -> None:
    given = {name: (np.concatenate([arguments(name), ODD]),) for name in NAMES}
    given["atan2"] = given["atan"][0], given["atan"][0][::-1].copy()
    expected = {name: evaluated(library, name, *x).tobytes() for name, x in given.items()}
    variants = [*((march, ()) for march in MACHINES), *((MACHINES[0], (f"-DSM_LANES={n}",)) for n in (2, 8))]
    for march, options in variants:
        other = built(tmp_path, march, "-O1", *options)
        for name, x in given.items():
            assert evaluated(other, name, *x).tobytes() == expected[name], (name, march, options)
