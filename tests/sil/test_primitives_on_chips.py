"""Primitives on every chip, whose instructions are others on each, against the integer model at the ends of words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepmap_codegen.toolchain import TARGETS, Target, build, run
from tests.sil.controllers import CORE, STRICT
from tests.sil.test_primitives import PRIMITIVES, edges, numbers

# Shifts are constants here, as in generated code: chips have instructions for those alone.
CASES = [(name, shift) for name, primitive in PRIMITIVES.items() for shift in primitive.shifts[:: 1 + primitive.inside]]
DRIVER = """
#include "sm_bench.h"
#include "sm_fixed.h"
#define HELD(s) (unsigned)(s)
{functions}

static int32_t (*const each[])(int32_t, int32_t, uint32_t *) = {{ {names} }};
#define COUNT (sizeof each / sizeof each[0])

int app(void) {{
  int32_t in[2];
  static int32_t out[2 * COUNT];
  while (io_read(in, sizeof in) == (int)sizeof in) {{
    for (unsigned i = 0; i < COUNT; i++) {{
      uint32_t noted;
      out[2U * i] = each[i](in[0], in[1], &noted);
      out[2U * i + 1U] = (int32_t)noted;
    }}
    io_write(out, sizeof out);
  }}
  return 0;
}}
"""
EACH = """
static int32_t each_{i}(int32_t a, int32_t b, uint32_t *noted) {{
  enum {{ s = {shift} }};
  uint32_t overflowed = 0, *const lost = &overflowed;
  (void)a, (void)b, (void)lost;
  sm_watch();
  const int32_t v = {call};
  *noted = sm_noted(overflowed);
  return v;
}}
"""
on_chips = pytest.mark.parametrize("target", [pytest.param(t, id=name) for name, t in TARGETS.items() if t.memory])


@on_chips
@pytest.mark.parametrize("options", ["-Os", "-O2"])
def test_chips_compute_what_the_model_does(target: Target, options: str, tmp_path: Path) -> None:
    """Values and whether they saturated: pairs of limits, of powers of two and their neighbours, and of any size."""
    calls = [EACH.format(i=i, shift=shift, call=PRIMITIVES[name].call) for i, (name, shift) in enumerate(CASES)]
    names = ", ".join(f"each_{i}" for i in range(len(CASES)))
    (tmp_path / "driver.c").write_text(DRIVER.format(functions="".join(calls), names=names))
    flags = (options, *(flag for flag in STRICT if flag.startswith("-W")))
    built = build(target, [tmp_path / "driver.c", CORE / "sm_fixed.c"], [CORE], tmp_path / "out", flags)
    some = np.unique(np.concatenate([edges()[::7], [-(1 << 31), (1 << 31) - 1, -1, 0, 1]]))
    left, right = np.meshgrid(some, some)
    a, b = np.concatenate([left.ravel(), numbers(600, 1)]), np.concatenate([right.ravel(), numbers(600, 2)])
    answers = np.frombuffer(run(built, np.stack([a, b], axis=1).astype("<i4").tobytes()), "<i4")
    found = answers.reshape(len(a), len(CASES), 2)
    for i, (name, shift) in enumerate(CASES):
        value, over = PRIMITIVES[name].model(a, b, shift, 32)
        np.testing.assert_array_equal(found[:, i, 0], value, err_msg=f"{name} {shift}")
        np.testing.assert_array_equal(found[:, i, 1], over, err_msg=f"{name} {shift}, saturation")
