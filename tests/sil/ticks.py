"""Whole ticks of a controller from many vectors of fields: in the integer model, and in C wherever it can run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepmap_codegen import Controller, IntegerMachine, Role, encode
from stepmap_codegen.emit.c_text import field_order
from stepmap_codegen.model.integers import Ints
from stepmap_codegen.toolchain import Built, Target, build, run
from tests.sil.controllers import CORE, STRICT

# A record is the fields and the mask of valid measurements; the answer the fields, what was accepted, overflows, cost.
DRIVER = """
#include "controller.h"
#include "sm_bench.h"

static sm_controller c;

int app(void) {
  uint32_t valid;
  while (io_read(c.all, sizeof c.all) == (int)sizeof c.all && io_read(&valid, sizeof valid) == (int)sizeof valid) {
    uint32_t out[3];
    c.overflows = 0;
    count_begin();
    out[0] = sm_update(&c, valid);
    sm_state_feedback(&c);
    sm_predict(&c);
    out[2] = count_end();
    out[1] = c.overflows;
    io_write(c.all, sizeof c.all);
    io_write(out, sizeof out);
  }
  return 0;
}
"""
WARNINGS = tuple(flag for flag in STRICT if flag.startswith("-W"))


@dataclass(frozen=True)
class Ticks:
    """What ticks left behind, one column or entry a tick."""

    fields: Ints
    taken: Ints  # mask of the measurements that were inside the gate
    overflows: Ints  # of the number format
    count: Ints  # instructions where a chip counts them, else 0


def build_ticks(made: Controller, target: Target, folder: Path, options: Sequence[str]) -> Built:
    """The controller's C with the driver, compiled for a target with every warning an error."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in made.files().items():
        (folder / name).write_bytes(content)
    (folder / "driver.c").write_text(DRIVER)
    core = [CORE / f"{name}.c" for name in ("sm_fixed", "sm_rows", "sm_schedule")]
    sources = [folder / "controller.c", folder / "driver.c", *core]
    return build(target, sources, [folder, CORE], folder / target.name, (*options, *WARNINGS))


def in_c(made: Controller, built: Built, fields: Ints, valid: Ints, timeout: float = 60.0) -> Ticks:
    """One tick in C from each column of fields."""
    order = field_order(made.program)
    records = np.concatenate([fields[order], valid[None]]).T
    answers = run(built, records.astype("<i4").tobytes(), timeout)
    table = np.frombuffer(answers, "<i4").reshape(fields.shape[1], len(order) + 3).astype(np.int64)
    after = np.empty_like(fields)
    after[order] = table[:, : len(order)].T
    return Ticks(after, table[:, -3], table[:, -2], table[:, -1])


def in_model(made: Controller, fields: Ints, valid: Ints) -> Ticks:
    """The same in exact integers."""
    program = made.program
    assert made.formats is not None
    model = IntegerMachine(program, made.formats, fields)
    taken = np.zeros_like(valid)
    for number, block in enumerate(program.blocks):
        if block.channel is not None:
            bit = np.int64(1 << block.channel)
            taken += bit * model.run(number, (valid & bit) != 0)
        elif block.needs:
            needed = np.int64(sum(1 << channel for channel in block.needs))
            model.run(number, (valid & needed) == needed)
        else:
            model.run(number)
    return Ticks(model.fields, taken, model.saturations, np.zeros_like(taken))


def compare(made: Controller, built: Built, fields: Ints, valid: Ints) -> Ticks:
    """Ticks in the model, which C must repeat bit for bit: all fields, gates and saturations."""
    expected, found = in_model(made, fields, valid), in_c(made, built, fields, valid)
    for name in ("fields", "taken", "overflows"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    return expected


def vectors(made: Controller, count: int, seed: int) -> tuple[Ints, Ints]:
    """(fields, masks of valid measurements) inside the ranges, three kinds in turn.

    Anywhere between ± the largest of a range, scaled down by up to 1000; anywhere between its ends; and near a tick of
    the simulated runs, where gates pass and the numbers are those of a controller at work.
    """
    assert made.formats is not None
    rng = np.random.default_rng(seed)
    low, high, size = (v[:, None] for v in (made.ranges.low, made.ranges.high, made.ranges.sizes))
    unit = rng.random((len(size), count))
    seen = made.recording.snapshots
    near = seen[:, rng.integers(seen.shape[1], size=count)]
    kinds = (
        (2 * unit - 1) * size * 10 ** rng.uniform(-3, 0, count),
        low + unit * (high - low),
        np.clip(near + (2 * unit - 1) * size * 10 ** rng.uniform(-7, -1, count), low, high),
    )
    values = np.choose(np.arange(count) % 3, kinds)
    everything = (1 << len(made.program.of(Role.MEASUREMENT))) - 1
    some = rng.integers(everything + 1, size=count)
    valid = np.where(rng.random(count) < 0.9, everything, some)
    return encode(values, made.formats.fields, made.formats.word), valid
