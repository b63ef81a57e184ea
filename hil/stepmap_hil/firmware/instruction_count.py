"""Counts what a tick costs on a chip: the generated controller alone, in QEMU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stepmap_codegen import Controller, boards
from stepmap_codegen.toolchain import build, run
from stepmap_hil.firmware.sources import sources


def instructions(controller: Controller, board: str, folder: Path, *, landing: bool = False) -> int | None:
    """Instructions of a tick on the board's processor, counted by QEMU; None for a board without a chip.

    ``landing``: a tick in which the foot of a robot that walks has come down.
    """
    chip = boards.find(board).bare_chip
    if chip is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    if controller.schedule.gait == 0:  # one row is looked at, and all of a large model's would not fit
        controller = replace(controller, schedule=replace(controller.schedule, rows=controller.schedule.rows[:1]))
    for name, content in controller.files().items():
        (folder / name).write_bytes(content)
    (folder / "count.c").write_text(f"#define LANDING {int(landing)}\n{COUNT}", encoding="utf-8")
    core = sources() / "firmware" / "core"
    code = [
        folder / "count.c",
        folder / "controller.c",
        folder / "schedule.c",
        *(core / f"sm_{n}.c" for n in ("fixed", "rows", "schedule")),
    ]
    made = build(chip, code, [core, folder], folder / "objects", options=("-Os",))
    return int.from_bytes(run(made), "little")


COUNT = """#include <string.h>

#include "controller.h"
#include "schedule.h"
#include "sm_bench.h"

int app(void) {
  static sm_controller c;
  if (sm_self_test(&c) != 0) {
    return 1;
  }
  for (unsigned i = 0; i < SM_NX && i < SM_NZ; i++) {
    c.z[i] = c.x[i];
  }
  const uint8_t *image = (const uint8_t *)sm_schedule_image; /* its first row */
  memcpy(c.row, image + (image[6] | image[7] << 8), sizeof c.row);
#if LANDING
  c.mode[SM_GAIT_CONTACT] = SM_GAIT_CONTACT_ONE;
#endif
  count_begin();
  (void)sm_update(&c, (1U << SM_NZ) - 1U);
  sm_state_feedback(&c);
  sm_predict(&c);
  const uint32_t count = count_end();
  io_write(&count, sizeof count);
  return 0;
}
"""
