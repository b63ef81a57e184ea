"""What the firmware takes of its chips, with the jobs of the examples.

    python tests/bench/firmware.py        writes build/bench/firmware.json

A list of rows

    board, job
    flash_bytes, ram_bytes             of the image; RAM with the room that is left for the stack
    stack_bytes                        the deepest path of calls and one interrupt on top of it, from gcc's call graph
    instructions_per_tick              the most of the ticks of a run in QEMU: gate, update, feedback, map, telemetry,
                                       and the interrupts that fall into them
    instructions_per_message           to sign and send the telemetry of a tick, and to check and take a measurement
    longest_interrupt_instructions     a byte in, a byte out, or a millisecond; Unicorn runs the handlers

Counts are instructions, not cycles. The board reads the time from its SysTick while QEMU lets every instruction take
256 ns; so ticks are counted in steps of four instructions.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # a script finds only what is beside it

import numpy as np  # noqa: E402
import unicorn as uc  # noqa: E402
from rich.console import Console  # noqa: E402

from stepmap import jobs  # noqa: E402
from stepmap.cli.output import grid  # noqa: E402
from stepmap.files import write_whole  # noqa: E402
from stepmap.jobs import optimize as optimum  # noqa: E402
from stepmap_codegen import generate as generation  # noqa: E402
from stepmap_codegen.boards import find  # noqa: E402
from stepmap_codegen.toolchain import build, run  # noqa: E402
from stepmap_hil.boards import QemuBoard  # noqa: E402
from stepmap_hil.firmware import build as building  # noqa: E402
from stepmap_hil.wire.link import Link  # noqa: E402
from stepmap_hil.wire.raw_values import SignalCodec  # noqa: E402
from stepmap_hil.wire.session import Session  # noqa: E402
from tests.firmware.link_board import headers  # noqa: E402
from tests.firmware.stm32_model import Chip  # noqa: E402
from tests.pil.built import KEY, KEY_FILE, alone  # noqa: E402

OUTPUT = ROOT / "build" / "bench"
JOBS = ("suspended_mass", "cart_pendulum")
BOARDS = ("native", "stm32f405", "stm32f100")
SHIFT = 8  # QEMU: 2^SHIFT ns an instruction
TICKS = 60
HEADINGS = ("board", "job", "flash", "RAM", "stack", "a tick", "a message", "an interrupt")
Row = dict[str, Any]


def main() -> None:
    rows = [row for name in JOBS for row in measure(name)]
    write_whole(OUTPUT / "firmware.json", (json.dumps(rows, indent=1) + "\n").encode())
    Console(width=120).print(grid(HEADINGS, [["-" if v is None else str(v) for v in row.values()] for row in rows]))
    small = next(row for row in rows if (row["board"], row["job"]) == ("stm32f100", "suspended_mass"))
    if small["flash_bytes"] > 128 * 1024 or small["ram_bytes"] > 8 * 1024:
        raise SystemExit("the main job does not fit the STM32F100")


def measure(name: str) -> list[Row]:
    """Rows of a job, a board each."""
    file = ROOT / "examples" / f"{name}.toml"
    job = jobs.load(file)
    out = OUTPUT / "firmware"
    solved = optimum.stage(job, out)
    if not solved.unchanged():
        optimum.write(solved, job, job.solve().require(), 0.0)
    plan = optimum.result(solved, job)
    choices = generation.read_choices(file)
    generated = generation.stage(job, solved, choices, out)
    if not generated.unchanged():
        generation.write(generated, generation.controller(job, plan, choices))
    rows = []
    for board in BOARDS:
        how = building.Choices(board, KEY_FILE)
        with alone():
            made = building.stage(job, generated, how, KEY, out)
            if not made.unchanged():
                building.build(made, generated.folder, how)
        firmware = building.Firmware(made.folder, board)
        chip = find(board).bare_chip is not None
        readings = np.array(
            [job.step.system.readings(x[: job.step.nd + job.step.nk]) for x in plan.trajectory.x[:TICKS]]
        )
        summary = firmware.summary
        rows.append(
            {
                "board": board,
                "job": name,
                **{key: summary[key] for key in ("flash_bytes", "ram_bytes", "stack_bytes")},
                "instructions_per_tick": ticks(firmware, generated.folder, readings) if chip else None,
                "instructions_per_message": messages(board, generated.folder) if chip else None,
                "longest_interrupt_instructions": interrupts(board) if chip else None,
            }
        )
    return rows


def ticks(firmware: building.Firmware, generated: Path, readings: Any) -> int:
    """The most instructions of a tick, as the firmware's own clock counts them."""
    words = SignalCodec.read(generated)
    options = ("-icount", f"shift={SHIFT}")
    with QemuBoard(firmware.board, firmware.program, options=options) as board:
        session = Session(Link(board.open(), KEY), words)
        session.connect(timeout=30.0)
        z = [words.encode("measurement", row) for row in readings]
        every = (1 << len(z[0])) - 1
        session.calibrate(lambda: (z[0], every), [0, 0])
        session.arm()
        session.tick(z[0], every)
        session.run()
        longest = 0
        for row in z:
            session.pass_time(words.period)
            *_, told = session.tick(row, every)
            longest = max(longest, told.tick_us)
    return longest * 1000 >> SHIFT


MESSAGES = """
#include "sm_bench.h"
#include "sm_link.h"

size_t port_region_size(port_region region) { (void)region; return 0; }
const uint8_t *port_region_read(port_region region) { (void)region; return NULL; }
int port_region_erase(port_region region) { (void)region; return -1; }
int port_region_write(port_region region, size_t offset, const uint8_t *from, size_t size) {
  (void)region; (void)offset; (void)from; (void)size;
  return -1;
}

static uint8_t frame[300];
static size_t filled;

static size_t output(void *context, const uint8_t *from, size_t size) {
  (void)context;
  for (size_t i = 0; i < size && filled < sizeof frame; i++) {
    frame[filled++] = from[i];
  }
  return size;
}

int app(void) {
  static const uint8_t key[32] = {1, 2, 3};
  static sm_store store;
  static sm_link board, host;
  static mavlink_telemetry_t telemetry;
  static mavlink_measurement_t measurement;
  sm_message message;
  uint32_t counted = 0;
  sm_store_open(&store);
  static const uint8_t id[PORT_BOARD_ID] = {4, 5, 6};
  if (sm_link_start(&board, &store, 1, key, id, output, 0) || sm_link_start(&host, &store, 2, key, id, output, 0)) {
    return 1;
  }
  for (unsigned i = 0; i < 14; i++) { /* 8 states, 4 channels, 2 commands */
    telemetry.words[i] = (int32_t)(0x12345678U * (i + 1U));
  }
  telemetry.state = 4;
  telemetry.reason = 5;
  measurement.target_system = 1;
  measurement.target_component = 1;
  count_begin();
  int result = sm_link_send(&board, MAVLINK_MSG_ID_TELEMETRY, &telemetry);
  counted += count_end();
  filled = 0;
  result |= sm_link_send(&host, MAVLINK_MSG_ID_MEASUREMENT, &measurement);
  count_begin();
  (void)sm_link_take(&board, frame, filled, &message);
  counted += count_end();
  io_write(&counted, sizeof counted);
  return result || message.id != MAVLINK_MSG_ID_MEASUREMENT;
}
"""


def messages(board: str, generated: Path) -> int:
    """Instructions to send the telemetry of a tick and to take a measurement."""
    core = ROOT / "firmware" / "core"
    with tempfile.TemporaryDirectory(prefix="stepmap-bench-") as folder:
        driver = Path(folder) / "messages.c"
        driver.write_text(MESSAGES)
        sources = [driver, *(core / f"sm_{name}.c" for name in ("link", "store", "sha256", "schedule"))]
        options = ("-Os", "-isystem", str(headers()))
        target = find(board).bare_chip
        assert target is not None
        built = build(target, sources, [core, generated], Path(folder) / "objects", options)
        return int.from_bytes(run(built), "little")


class Line(Chip):
    """Takes one byte, and is busy with it."""

    def _write(self, cpu: Any, offset: int, size: int, value: int, base: int) -> None:
        before = len(self.sent)
        super()._write(cpu, offset, size, value, base)
        self.line_ready = self.line_ready and len(self.sent) == before


def interrupts(board: str) -> int:
    """Instructions of the longest interrupt: a byte comes while one leaves, or a millisecond ends."""
    chip = Line(board)
    chip.start()
    chip.line_ready = False
    chip.call("port_send", chip.put(bytes(range(20))), 20)
    counts = []
    for handler in ("serial_handler", "tick_handler"):
        chip.line_ready, chip.heard = True, [0x55]
        counted = [0]

        def count(*_: Any, into: list[int] = counted) -> None:
            into[0] += 1

        hook = chip.cpu.hook_add(uc.UC_HOOK_CODE, count)
        chip.call(handler)
        chip.cpu.hook_del(hook)
        counts.append(counted[0])
    if not chip.sent:
        raise SystemExit("the serial interrupt sent nothing: it was not measured")
    return max(counts)


if __name__ == "__main__":
    main()
