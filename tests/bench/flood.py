"""Keyless bytes at full line rate while the robot runs: are ticks missed, is a signed STOP obeyed?

    python tests/bench/flood.py [--seconds 60]        writes build/bench/flood.json

The whole firmware of the main job runs in QEMU. Its line and its motors belong to the emulated time (flood.c): 460 800
baud, and every byte that no signed frame needs is the attacker's. Meanwhile the host calibrates, arms, runs, sends 30
measurements per second, stops, resets and begins again. A list of rows

    board, attack
    stop_latency_ms              the longest time from the last byte of a signed STOP on the line to the transition
    longest_turn_instructions    of the main loop, with the interrupts that fall into it
    longest_motor_gap_ms         between two steps of the motors while they are on
    missed_ticks                 measurements that made no tick
    lost_bytes                   of the line, because the board did not take them in time
    busy_percent                 of the time that motors are on
    seconds, stops               emulated time, and how many STOPs were sent in it

An instruction takes 8 ns on the STM32F405 (168 MHz, 1.34 cycles) and 64 ns on the STM32F100 (24 MHz, 1.54 cycles).
Nothing here depends on how fast this computer is, or how busy.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # a script finds only what is beside it

from rich.console import Console  # noqa: E402

from stepmap.cli.output import grid  # noqa: E402
from stepmap.files import write_whole  # noqa: E402
from stepmap_codegen.boards import BUILT_IN  # noqa: E402
from stepmap_codegen.emit.schedule import unpack  # noqa: E402
from stepmap_hil.wire import dialect  # noqa: E402
from stepmap_hil.wire.dialect import Message  # noqa: E402
from stepmap_hil.wire.key import BOARD_ID, Key  # noqa: E402
from stepmap_hil.wire.raw_values import SignalCodec  # noqa: E402
from tests.firmware.attacks import ATTACKS  # noqa: E402
from tests.firmware.link_board import headers  # noqa: E402
from tests.firmware.stm32_model import FAMILIES  # noqa: E402

HERE = Path(__file__).parent
MACHINES = {board.name: board.machine for board in BUILT_IN.values() if board.machine is not None}
FIRMWARE = ROOT / "firmware"
GENERATED = FIRMWARE / "generated" / "suspended_mass"
OUTPUT = ROOT / "build" / "bench"
SECRET = Key(bytes(range(32)))
KEY = SECRET.of_board(bytes(BOARD_ID))  # as in the image: nobody writes an id into it
BAUD = 460_800
PER_MS = BAUD / 10_000  # bytes
SLOT = 47  # bytes of a millisecond in flood.in
SHIFT = {"stm32f405": 3, "stm32f100": 6}  # QEMU: 2^SHIFT ns per instruction
HZ = {"stm32f405": 168e6, "stm32f100": 24e6}  # of SysTick
PERIOD = 1000 / 30  # ms
ROUND = 4000.0  # ms of a run with what comes before and after it
BOOT = 1000.0  # ms that a board may take to start
CALIBRATIONS = 64
STATE, LONGEST = 1, 2  # records of flood.log
WRAPPED = ("tick_handler", "port_idle", "sm_loop_turn", "sm_supervisor_handle")
STOP_LIMIT = 20.0  # ms
HEADINGS = ("board", "attack", "stop, ms", "turn", "motor gap, ms", "missed", "lost", "busy, %")
Row = dict[str, Any]


# What the host sends


@dataclass
class Script:
    """Frames of the host with the millisecond they are sent at, and where in the run which STOP lies."""

    frames: list[tuple[float, bytes]] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)  # indices of frames
    measured: list[int] = field(default_factory=list)  # sequences that must make a tick

    def send(self, ms: float, name: str, **fields: Any) -> None:
        stamp = 2**45 + len(self.frames)
        message = Message(name, {"target_system": 1, **fields}, system=255, component=1)
        self.frames.append((ms, dialect.encode(message, len(self.frames), key=KEY.link, timestamp=stamp)))

    def command(self, ms: float, name: str) -> None:
        if name == "STOP":
            self.stops.append(len(self.frames))
        self.send(ms, "COMMAND", token=1 + len(self.frames), command=dialect.value(f"STEPMAP_COMMAND_{name}"))


def script(seconds: float, flood_from: float) -> Script:
    """Calibrates, and then again and again: arm, run for two seconds, stop, reset. Times in ms."""
    made = Script()
    words = SignalCodec.read(GENERATED)
    rows = unpack((GENERATED / "schedule.bin").read_bytes()).values()[:, :4]
    sequence = 0

    def measure(ms: float, row: int, *, counts: bool) -> None:
        nonlocal sequence
        sequence += 1
        z = words.encode("measurement", rows[row])
        every = (1 << len(z)) - 1
        made.send(ms, "MEASUREMENT", stamp_us=round(1000 * ms), sequence=sequence, valid=every, z=z)
        if counts:
            made.measured.append(sequence)

    made.send(BOOT, "PING", sequence=1)
    made.command(BOOT + 10, "CALIBRATE")
    for k in range(CALIBRATIONS):
        measure(BOOT + 20 + 10 * k, 0, counts=False)
    at, round_ = flood_from + 50, 0
    while at + ROUND <= 1000 * seconds:
        made.command(at, "ARM")
        for k in range(6):
            measure(at + 10 + k * PERIOD, 0, counts=k > 0)
        made.command(at + 10 + 5 * PERIOD + 5, "RUN")
        for k in range(60):
            measure(at + 10 + (6 + k) * PERIOD, k, counts=True)
        stop = at + 10 + 66 * PERIOD + 2.3 * round_ % PERIOD  # at another moment of a tick each time
        made.command(stop, "STOP")
        made.command(stop + 300, "RESET_FAULT")
        at, round_ = at + ROUND, round_ + 1
    return made


# The line


def slots(made: Script, attack: bytes, seconds: float, flood_from: float) -> tuple[bytes, list[float]]:
    """flood.in, and when the last byte of each frame was on the line, in ms."""
    total = round(1000 * seconds * PER_MS)
    stream, own = bytearray(total), bytearray(total)
    ended: list[float] = []
    free = 0
    for ms, frame in made.frames:
        at = max(free, round(ms * PER_MS))
        stream[at : at + len(frame)] = frame
        own[at : at + len(frame)] = b"\1" * len(frame)
        free = at + len(frame)
        ended.append(free / PER_MS)
    evil = cycle(attack)
    begin = round(flood_from * PER_MS)
    for at in range(begin, total):
        if not own[at]:
            stream[at] = next(evil)
            own[at] = 1
    return b"".join(_slots(stream, own, round(1000 * seconds))), ended


def _slots(stream: bytes, there: bytes, count: int) -> Iterator[bytes]:
    for ms in range(count):
        part = range(round(ms * PER_MS), round((ms + 1) * PER_MS))
        held = bytes(stream[at] for at in part if there[at])
        yield bytes([len(held)]) + held.ljust(SLOT, b"\0")


# The board


@cache
def image(board: str) -> Path:
    """The firmware of the main job with the line and the motors of flood.c."""
    family = FAMILIES[board]
    folder = Path(tempfile.mkdtemp(prefix="stepmap-flood-", dir=_scratch()))
    (folder / "sm_key.h").write_text("#define SM_KEY {" + ", ".join(map(str, SECRET.secret)) + "}\n")
    port = FIRMWARE / "port"
    includes = [FIRMWARE / "core", port, port / "stm32", port / family.folder, GENERATED, folder]
    replaced = ("serial.c", "motors.c")
    sources = [
        *(HERE / "flood.c", FIRMWARE / "main.c"),
        *sorted((FIRMWARE / "core").glob("*.c")),
        *(path for path in sorted((port / "stm32").glob("*.c")) if path.name not in replaced),
        *sorted((port / family.folder).glob("*.c")),
        *sorted(GENERATED.glob("*.c")),
    ]
    elf = folder / "firmware.elf"
    command = [
        *("arm-none-eabi-gcc", "-std=c11", "-Os", "-mthumb", *family.flags, "-nostartfiles", "--specs=nano.specs"),
        *("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", f'-DSTEPMAP_BOARD="{board}"'),
        *(f"-Wl,--wrap={name}" for name in WRAPPED),
        *(f"-I{path}" for path in includes),
        *("-isystem", headers()),
        *sources,
        *(f"-L{port / 'stm32'}", "-T", port / family.folder / family.script, "-o", elf),
    ]
    subprocess.run(command, check=True)
    return elf


@cache
def _scratch() -> Path:
    _folders.append(tempfile.TemporaryDirectory(prefix="stepmap-flood-"))
    return Path(_folders[-1].name)


_folders: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


def emulate(board: str, line: bytes) -> tuple[bytes, list[tuple[int, ...]]]:
    """What the board sent, and the records of flood.log."""
    with tempfile.TemporaryDirectory(dir=_scratch()) as name:
        folder = Path(name)
        (folder / "flood.in").write_bytes(line)
        command = [
            *("qemu-system-arm", "-M", MACHINES[board], "-nodefaults", "-display", "none", "-kernel", image(board)),
            *("-icount", f"shift={SHIFT[board]},sleep=off", "-semihosting-config", "enable=on,target=native"),
        ]
        subprocess.run(command, check=True, cwd=folder, stdin=subprocess.DEVNULL)
        log = (folder / "flood.log").read_bytes()
        records = [struct.unpack_from("<6I", log, at) for at in range(0, len(log), 24)]
        return (folder / "flood.out").read_bytes(), records


def flood(board: str, attack: str, seconds: float) -> Row:
    """One row."""
    begin = BOOT + 10 * CALIBRATIONS + 60
    made = script(seconds, begin)
    line, ended = slots(made, ATTACKS[attack], seconds, begin)
    sent, records = emulate(board, line)
    heard = [dialect.decode(frame) for frame in dialect.Framer(KEY.link).feed(sent)]
    ticked = {m.sequence for m in heard if m.name == "TELEMETRY" and m.taken}
    stopped, why = dialect.value("STEPMAP_STATE_STOPPED"), dialect.value("STEPMAP_REASON_STOP_COMMAND")
    obeyed = [
        time / 1000 for kind, time, state, reason, *_ in records if (kind, state, reason) == (STATE, stopped, why)
    ]
    latencies = [_first(obeyed, ended[index]) for index in made.stops]
    (longest,) = [r for r in records if r[0] == LONGEST] or [(0,) * 6]
    counts_per_instruction = HZ[board] * 2 ** SHIFT[board] * 1e-9
    return {
        "board": board,
        "attack": attack,
        "stop_latency_ms": None if None in latencies or not latencies else round(max(latencies), 2),  # type: ignore[type-var]
        "longest_turn_instructions": round(longest[2] / counts_per_instruction),
        "longest_motor_gap_ms": round(1000 * longest[3] / HZ[board], 2),
        "missed_ticks": len(set(made.measured) - ticked),
        "lost_bytes": longest[4],
        "busy_percent": longest[5] / 10,
        "seconds": seconds,
        "stops": len(made.stops),
    }


def _first(times: Iterable[float], after: float) -> float | None:
    """From then to the next of these times, if that is within a second."""
    later = [time - after for time in times if after - 1 <= time <= after + 1000]
    return min(later) if later else None


def holds(row: Row) -> bool:
    """No tick missed, every STOP obeyed in time."""
    latency = row["stop_latency_ms"]
    return latency is not None and latency <= STOP_LIMIT and row["missed_ticks"] == row["lost_bytes"] == 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Floods emulated boards with keyless bytes while they run.")
    parser.add_argument("--seconds", type=float, default=60.0, help="emulated time per attack, at least 6")
    parser.add_argument("--board", choices=sorted(MACHINES), action="append", help="default: all")
    seconds = parser.parse_args().seconds
    if seconds < 6:
        parser.error("--seconds: one round of calibrating, running and stopping takes 6")
    boards = parser.parse_args().board or list(MACHINES)
    rows = []
    console = Console(width=120)
    for board in boards:
        for attack in ATTACKS:
            rows.append(flood(board, attack, seconds))
    write_whole(OUTPUT / "flood.json", (json.dumps(rows, indent=1) + "\n").encode())
    console.print(grid(HEADINGS, [[str(v) for v in list(row.values())[:8]] for row in rows]))
    if failed := [f"{row['board']}: {row['attack']}" for row in rows if not holds(row)]:
        raise SystemExit("ticks were missed or a STOP was late: " + "; ".join(failed))


if __name__ == "__main__":
    main()
