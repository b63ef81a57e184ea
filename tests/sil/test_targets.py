"""The last link of the chain: the generated C on every chip = integer model, bit for bit. The chips are QEMU's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepmap_codegen import Form, IntegerMachine, Options, Scalar
from stepmap_codegen.emit.c_text import field_order
from stepmap_codegen.toolchain import TARGETS, Target, build, run
from tests.sil import programs
from tests.sil.controllers import CORE, holding, suspended_mass
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


PROGRAMS = """
#include "controller.h"
#include "sm_bench.h"

static sm_controller c;

int app(void) {{
  uint32_t which;
  while (io_read(&which, sizeof which) == (int)sizeof which && io_read(c.all, sizeof c.all) == (int)sizeof c.all) {{
    int held = 1;
    c.overflows = 0;
    switch (which) {{
{cases}
    }}
    io_write(c.all, sizeof c.all);
    io_write(&held, sizeof held);
    io_write(&c.overflows, sizeof c.overflows);
  }}
  return 0;
}}
"""
RECORDS = 300  # of each function


EVERYWHERE = [(name, Form.STRAIGHT) for name, target in TARGETS.items() if target.memory] + [("cortex-m3", Form.ROWS)]


@pytest.mark.parametrize(("chip", "form"), EVERYWHERE)
def test_random_programs_on_a_chip(chip: str, form: Form, tmp_path: Path) -> None:
    """Blocks with selections and guards, and their chains, at random fields: values, guards and saturations."""
    seeds = [int(s) for s in np.random.default_rng(11).integers(2**32, size=30)]
    program, samples = programs.random_program(seeds)
    formats = programs.random_formats(program, samples, 32, 1)
    order = field_order(program)
    functions = [(name, numbers) for name, numbers in program.chains.items()]
    functions += [(block.name, [i]) for i, block in enumerate(program.blocks) if not block.chain]
    cases, records, expected = [], [], []
    for which, (name, numbers) in enumerate(functions):
        guarded = program.blocks[numbers[-1]].guard is not None
        cases.append(f"    case {which}:\n      {'held = ' if guarded else ''}sm_{name}(&c);\n      break;")
        before = programs.vectors(formats, samples, which, RECORDS)
        machine = IntegerMachine(program, formats, before)
        held = np.any([machine.run(i) for i in numbers], axis=0)
        records.append(np.concatenate([np.full((1, RECORDS), which), before[order]]).T)
        expected.append(np.concatenate([machine.fields[order], held[None], machine.saturations[None]]).T)
    folder = tmp_path / form.value
    sources = programs.written(program, formats, Scalar.FIXED32, form, folder)
    (folder / "driver.c").write_text(PROGRAMS.format(cases="\n".join(cases)))
    built = build(TARGETS[chip], [*sources, folder / "driver.c"], [folder, CORE], folder / "chip", ("-Os",))
    answers = np.frombuffer(run(built, np.concatenate(records).astype("<i4").tobytes()), "<i4")
    wanted = np.concatenate(expected)
    np.testing.assert_array_equal(answers.reshape(wanted.shape), wanted)
    assert len(program.chains) >= 4
