"""The last link of the chain: the generated C on every chip = integer model, bit for bit. The chips are QEMU's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepmap_codegen import Form, Options
from stepmap_codegen.toolchain import TARGETS, Target
from tests.sil.controllers import holding, suspended_mass
from tests.sil.ticks import build_ticks, compare, vectors

# Their tools are part of the set-up: without them these tests fail, they do not skip.
on_chips = pytest.mark.parametrize(
    "target", [pytest.param(target, id=name) for name, target in TARGETS.items() if target.memory]
)


@on_chips
@pytest.mark.parametrize("options", [("-O2",), ("-Os",)], ids="".join)
def test_ten_thousand_of_the_million_on_a_chip(target: Target, options: tuple[str, ...], tmp_path: Path) -> None:
    made, _ = suspended_mass()
    fields, valid = vectors(made, 20_000, seed=0)
    ticks = compare(made, build_ticks(made, target, tmp_path, options), fields[:, :10_000], valid[:10_000])
    assert len(np.unique(ticks.taken)) == 16  # every measurement, taken or not, with every other
    assert (ticks.overflows == 0).any()
    assert (ticks.overflows > 0).any()


@on_chips
def test_tables_on_a_chip(target: Target, tmp_path: Path) -> None:
    made, _ = suspended_mass(Options(form=Form.ROWS))
    compare(made, build_ticks(made, target, tmp_path, ("-Os",)), *vectors(made, 2000, seed=1))


@on_chips
def test_sine_and_cosine_on_a_chip(target: Target, tmp_path: Path) -> None:
    made, _ = holding("cart_pendulum")
    compare(made, build_ticks(made, target, tmp_path, ("-O2",)), *vectors(made, 2000, seed=2))
