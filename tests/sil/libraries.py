"""Libraries of controllers to test with: ticks through their functions, and the same ticks in the integer model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import stepmap as sm
from stepmap.estimate.measurement import measurement_model
from stepmap_codegen import Controller, Role, encode
from stepmap_codegen.emit.c_text import field_order
from stepmap_codegen.library import Library
from stepmap_codegen.lower import landing
from stepmap_codegen.model.integers import Ints
from stepmap_codegen.reference_loop import CONTACT_BIT, ReferenceLoop
from stepmap_codegen.toolchain import Built, Target, build, run
from tests.sil.controllers import STRICT

# A record is its library, whether the start is held, the mask of valid measurements and their raw values, and behind
# them the age of a contact or set-points. The answer is what was accepted, overflows, row, commands, and all fields.
DRIVER = """
static PREFIX_controller PREFIX_c;

static int PREFIX_tick(void) {
  int32_t record[2 + PREFIX_MEASUREMENTS + EXTRA];
  uint32_t told[3];
  if (io_read(record, sizeof record) != (int)sizeof record) {
    return -1;
  }
  for (unsigned i = 0; i < PREFIX_MEASUREMENTS; i++) {
    if (((uint32_t)record[1] >> i & 1U) != 0U && PREFIX_measure(&PREFIX_c, i, record[2 + i]) != 0) {
      return -2;
    }
  }
TOLD  told[0] = PREFIX_update(&PREFIX_c);
  if (record[0] != 0) {
    PREFIX_hold(&PREFIX_c);
  } else {
    PREFIX_law(&PREFIX_c);
  }
  int32_t commands[PREFIX_ENTRIES];
  for (unsigned i = 0; i < PREFIX_ENTRIES; i++) {
    commands[i] = PREFIX_command(&PREFIX_c, i);
  }
  PREFIX_predict(&PREFIX_c);
  told[1] = PREFIX_overflows(&PREFIX_c);
  told[2] = PREFIX_row(&PREFIX_c);
  io_write(told, sizeof told);
  io_write(commands, sizeof commands);
  io_write(PREFIX_c.controller.all, sizeof PREFIX_c.controller.all);
  return 0;
}
"""
APP = """
int app(void) {{
  uint32_t which;
{starts}
  while (io_read(&which, sizeof which) == (int)sizeof which) {{
    const int result = {ticks};
    if (result != 0) {{
      return result;
    }}
  }}
  return 0;
}}
"""
START = """  if (PREFIX_self_test(&PREFIX_c) != 0) {
    return 1;
  }
  if (PREFIX_start(&PREFIX_c) != 0) {
    return 2;
  }"""
CONTACT = """  if (((uint32_t)record[1] >> 12 & 1U) != 0U) {
    PREFIX_contact(&PREFIX_c, record[2 + PREFIX_MEASUREMENTS]);
  }
"""
SET_POINT_BIT = 13  # of valid channels: set-points have come
SET_POINTS = """  if (((uint32_t)record[1] >> 13 & 1U) != 0U) {
    for (unsigned i = 0; i < PREFIX_SET_POINTS; i++) {
      if (PREFIX_set_point(&PREFIX_c, i, record[2 + PREFIX_MEASUREMENTS + i]) != 0) {
        return -4;
      }
    }
  }
"""
WARNINGS = tuple(flag for flag in STRICT if flag.startswith("-W"))


@dataclass(frozen=True)
class Drive:
    """Ticks of one controller: whether the start is held, masks of valid channels, raw values."""

    holds: Ints
    valid: Ints
    raw: Ints  # (ticks, channels), behind them the age of a contact of robots that walk, or set-points


@dataclass(frozen=True)
class Answers:
    """What ticks gave, one row per tick."""

    accepted: Ints
    overflows: Ints
    commands: Ints
    fields: Ints  # in the struct's order

    def kept(self, made: Controller) -> Ints:
        """Fields that a tick leaves to the next one, and telemetry: neither measurements nor the row."""
        left_out = {*made.program.of(Role.MEASUREMENT), *made.program.of(Role.SCHEDULE), *made.program.of(Role.COMMAND)}
        wanted = [k for k, i in enumerate(field_order(made.program)) if i not in left_out]
        return self.fields[:, wanted]


def write(made: Controller, folder: Path, prefix: str) -> Path:
    """The library of a controller in a new folder."""
    for name, content in Library(made, made.program.name, prefix).files(folder.name).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def drive(made: Controller, path: sm.Trajectory, ticks: int, seed: int, held: int = 5) -> Drive:
    """Measurements along the plan, with noise, some missing and some far outside the gate; first the start is held."""
    assert made.formats is not None
    rng, channels = np.random.default_rng(seed), made.program.of(Role.MEASUREMENT)
    at = np.clip(np.arange(ticks) - held, 0, len(path.x) - 1)
    z = measurement_model(made.plant.step).readings(path.x[at])
    sigma = np.sqrt(made.plant.noise.measurement)
    z = z + sigma * rng.standard_normal(z.shape) * np.where(rng.random(z.shape) < 0.03, 50.0, 1.0)
    bits = [made.formats.fields[i] for i in channels]
    everything = (1 << len(channels)) - 1
    valid = np.where(rng.random(ticks) < 0.8, everything, rng.integers(everything + 1, size=ticks))
    holds = (np.arange(ticks) < held).astype(np.int64)
    return Drive(holds, valid, encode(z.T, bits, made.formats.word).T)


def in_model(made: Controller, driven: Drive) -> Answers:
    """The ticks in exact integers."""
    loop, order = ReferenceLoop(made), field_order(made.program)
    rows, channels, stream = [], len(made.program.of(Role.MEASUREMENT)), made.plant.stream
    most = 0 if stream is None else round(stream.hold * 1e6) // round(made.program.period * 1e6)  # ticks
    silent = most + 1
    for hold, valid, raw in zip(driven.holds, driven.valid, driven.raw, strict=True):
        words, runs, said = [int(v) for v in raw], not hold, bool(valid >> SET_POINT_BIT & 1)
        silent = 0 if said else silent
        told = {"set_point": words[channels:] if said else None, "lost": silent > most}
        _, commands, accepted = loop.step(int(valid), words, follow=runs, running=runs, hold=not runs, **told)
        silent += int(runs)
        fields = [loop.machine.fields[i] for i in order]
        rows.append((accepted, loop.machine.saturations, commands, fields))
    accepted, overflows, commands, fields = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return Answers(accepted, overflows - loop_start(made), commands, fields)


def loop_start(made: Controller) -> int:
    """Saturations before the first tick."""
    return ReferenceLoop(made).machine.saturations


def build_libraries(folders: Sequence[tuple[str, Path]], target: Target, out: Path, options: Sequence[str]) -> Built:
    """One image with several libraries, given by prefix and folder."""
    out.mkdir(parents=True, exist_ok=True)
    includes = "".join(f'#include "{prefix}.h"\n' for prefix, _ in folders)
    parts = []
    for prefix, folder in folders:
        header = (folder / "src" / f"{prefix}.h").read_text()
        told, extra = "", "0"
        if f"{prefix}_contact" in header:
            told, extra = CONTACT, "1"
        elif f"{prefix}_set_point" in header:
            told, extra = SET_POINTS, f"{prefix.upper()}_SET_POINTS"
        parts.append(_named(DRIVER.replace("TOLD", told).replace("EXTRA", extra), prefix))
    starts = "\n".join(_named(START, prefix) for prefix, _ in folders)
    choice = "-3"
    for k, (prefix, _) in enumerate(folders):
        choice = f"which == {k}U ? {prefix}_tick() : {choice}"
    text = f'{includes}#include "sm_bench.h"\n{"".join(parts)}{APP.format(starts=starts, ticks=choice)}'
    (out / "driver.c").write_text(text)
    sources = [out / "driver.c", *(path for _, folder in folders for path in sorted((folder / "src").glob("*.c")))]
    return build(target, sources, [folder / "src" for _, folder in folders], out / "built", (*options, *WARNINGS))


def _named(text: str, prefix: str) -> str:
    for name in ("MEASUREMENTS", "ENTRIES", "SET_POINTS"):
        text = text.replace(f"PREFIX_{name}", f"{prefix.upper()}_{name}")
    return text.replace("PREFIX", prefix)


def in_c(built: Built, controllers: Sequence[Controller], drives: Sequence[Drive]) -> list[Answers]:
    """The ticks of all controllers, in turn, in the image."""
    records, sizes = [], []
    for k in range(len(drives[0].valid)):
        for which, driven in enumerate(drives):
            records += [which, int(driven.holds[k]), int(driven.valid[k]), *map(int, driven.raw[k])]
    for made in controllers:
        commands = max(len(made.program.of(Role.COMMAND)), 1)
        sizes.append((3 + commands + len(made.program.fields), commands))
    words = np.frombuffer(run(built, np.array(records, dtype="<i4").tobytes()), "<i4").astype(np.int64)
    table = words.reshape(-1, sum(size for size, _ in sizes))
    found, at = [], 0
    for size, commands in sizes:
        own = table[:, at : at + size]
        found.append(Answers(own[:, 0], own[:, 1], own[:, 3 : 3 + commands], own[:, 3 + commands :]))
        at += size
    return found


def require_same(made: Controller, found: Answers, expected: Answers) -> None:
    """Every bit of what ticks gave is that of the model."""
    for name in ("accepted", "overflows", "commands"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    np.testing.assert_array_equal(found.kept(made), expected.kept(made))


def walked(made: Controller, ticks: int, seed: int) -> Drive:
    """Of a robot that walks: measurements along the steps of its plan, with noise, a landing at the end of each."""
    assert made.formats is not None
    assert made.plant.gait is not None
    rng, channels, steps = np.random.default_rng(seed), made.program.of(Role.MEASUREMENT), made.plant.gait.steps
    x = made.schedule.values()[:, : made.plant.step.nx]
    at = np.arange(ticks) % steps
    z = measurement_model(made.plant.step).readings(x[at])
    z = z + np.sqrt(made.plant.noise.measurement) * rng.standard_normal(z.shape)
    raw = encode(z.T, [made.formats.fields[i] for i in channels], made.formats.word).T
    age = made.formats.fields[made.program.index(landing.AGE)]
    ages = np.rint(rng.uniform(0, made.program.period, ticks) * 2.0**age).astype(np.int64)
    everything = (1 << len(channels)) - 1
    contacts = ((at == 0) & (np.arange(ticks) > 0)).astype(np.int64) << CONTACT_BIT
    return Drive(np.zeros(ticks, dtype=np.int64), everything | contacts, np.column_stack([raw, ages]))


def streamed(made: Controller, path: sm.Trajectory, ticks: int, seed: int) -> Drive:
    """The same as ``drive``, with set-points that jump, go over their limits, and stay away for a while."""
    plain, stream = drive(made, path, ticks, seed), made.plant.stream
    assert stream is not None
    assert made.formats is not None
    rng, references = np.random.default_rng(seed + 1), made.program.of(Role.SCHEDULE)
    bits = [made.formats.fields[references[state]] for state in stream.states]
    wide = stream.high - stream.low
    points = rng.uniform(stream.low - 0.2 * wide, stream.high + 0.2 * wide, (ticks // 20 + 1, len(wide)))
    raw = encode(np.repeat(points, 20, axis=0)[:ticks].T, bits, made.formats.word).T
    told = (np.arange(ticks) % 3 == 0) & (np.arange(ticks) < 2 * ticks // 3)
    return Drive(plain.holds, plain.valid | told << SET_POINT_BIT, np.column_stack([plain.raw, raw]))
