"""Sines and cosines of the C runtime: within 1 ulp of mpmath's, with the same bits in every width of vectors."""

from __future__ import annotations

import ctypes
import math
import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest

from stepmap.graph import compiler
from stepmap.graph.address import address

REFERENCE = Path(__file__).parents[1] / "data" / "sines.txt"
SOURCE = """#include "trig.h"
__attribute__((visibility("default"))) void all(const double *x, double *s, double *c, int n) {
  real angle, sine, cosine;
  const int lanes = sizeof angle / sizeof *x;
  for (int i = 0; i < n; i += lanes) {
    memcpy(&angle, x + i, sizeof angle);
    sm_sincos_all(&angle, &sine, &cosine, 1);
    memcpy(s + i, &sine, sizeof sine);
    memcpy(c + i, &cosine, sizeof cosine);
  }
}
__attribute__((visibility("default"))) void one_call(const double *x, double *s, double *c, int n) {
#ifndef SM_LANES
  sm_sincos_all(x, s, c, n);
#endif
}
"""
X86 = platform.machine() == "x86_64"
MACHINES = ["x86-64", "x86-64-v3", "native"] if X86 else ["native"]


def built(folder: Path, march: str, *options: str) -> ctypes.CDLL:
    (folder / "sines.c").write_text(SOURCE)
    target = folder / f"sines{abs(hash((march, options)))}.so"
    flags = [*compiler.COMMON, *compiler.HANDWRITTEN, f"-march={march}", "-I", str(compiler.RUNTIME)]
    subprocess.run(
        [*(compiler.find() or ()), *flags, *options, "-shared", "sines.c", "-o", str(target), "-lm"],
        cwd=folder,
        check=True,
    )
    return ctypes.CDLL(str(target))


def evaluated(library: ctypes.CDLL, x: np.ndarray, name: str = "all") -> np.ndarray:
    out = np.zeros((2, len(x)))
    pointer = ctypes.c_void_p
    getattr(library, name)(pointer(address(x)), pointer(address(out[0])), pointer(address(out[1])), len(x))
    return out


def reference() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Angles, and sines and cosines as the nearest double and the rest, (2, n) each."""
    lines = [line.split() for line in REFERENCE.read_text().splitlines() if not line.startswith("#")]
    x, s, s_rest, c, c_rest = np.array([[float.fromhex(word) for word in line] for line in lines]).T
    some = np.resize(x, -(-len(x) // 8) * 8)  # whole vectors
    return some, *(np.stack([np.resize(e, len(some)) for e in pair]) for pair in ((s, c), (s_rest, c_rest)))


def test_errors_are_within_one_ulp(tmp_path: Path) -> None:
    x, nearest, rest = reference()
    found = evaluated(built(tmp_path, "native"), x)
    off = np.abs((found - nearest) - rest)  # the difference is exact
    with np.errstate(invalid="ignore"):
        ulps = np.where(off == 0, 0.0, off / np.spacing(np.abs(nearest)))
    assert ulps.max() <= 0.8  # what trig.h says; the polynomials alone leave 0.5 and a little
    assert (ulps <= 0.5).mean() > 0.8  # most are the nearest double


def test_bits_are_the_same_on_every_processor_and_in_every_width(tmp_path: Path) -> None:
    x = reference()[0]
    x = np.concatenate([x, -x, [np.nan, np.inf, -np.inf, 1.0, 2.0, 3.0, 1e300, -1e300]])
    expected = evaluated(built(tmp_path, "native"), x)
    assert np.isnan(expected[:, -8:-5]).all()
    variants = [*((march, ()) for march in MACHINES), *((MACHINES[0], (f"-DSM_LANES={n}",)) for n in (2, 4, 8))]
    for march, options in variants:
        library = built(tmp_path, march, "-O1", *options)
        assert evaluated(library, x).tobytes() == expected.tobytes(), (march, options)
        if not options:
            assert evaluated(library, x, "one_call").tobytes() == expected.tobytes(), march


@pytest.mark.parametrize("n", [1, 2, 3, 7, 9])
def test_angles_that_fill_no_vector_are_the_same(n: int, tmp_path: Path) -> None:
    x = np.linspace(-3.0, 1e7, n)
    library = built(tmp_path, "native")
    found = evaluated(library, x, "one_call")
    np.testing.assert_allclose(found, [[math.sin(e) for e in x], [math.cos(e) for e in x]], rtol=3e-16)
    for i in range(n):
        assert evaluated(library, x[i : i + 1], "one_call").tobytes() == found[:, i : i + 1].tobytes()
