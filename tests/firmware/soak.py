"""Hours of ticks of the whole firmware in simulated time, with random faults: `make soak HOURS=24`.

    python -m tests.firmware.soak [HOURS] [SEED]

All that happens within a tick is C (soak.c), so a day takes half a minute. Clocks, stamps and sequences begin a minute
before they wrap. The same runs are done three times: twice compiled for any x86-64 processor, once for one with wider
vectors. Ends with exit code 1 where a promise of soak.c is broken, memory grows, nothing wrapped, or the board did not
send the same bytes. Figures: build/bench/soak.json, from where `python -m tests.fuzz.docs` takes them.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stepmap_codegen.emit.schedule import unpack
from stepmap_hil.wire.dialect import word
from stepmap_hil.wire.raw_values import SignalCodec
from tests.firmware.link_board import headers
from tests.firmware.loop_board import HERE, KEY, generated
from tests.firmware.loop_kit import PERIOD, START
from tests.firmware.native_core import CORE, ROOT, WARNINGS
from tests.hil.soak import resident

GROWTH = 4 * 2**20  # bytes
JSON = ROOT / "build" / "bench" / "soak.json"
NAME = "suspended_mass"
STATES, REASONS = 8, 32
LINE = ("lost", "doubled", "flipped", "cut off", "noise", "overtaken", "forged", "bare", "elsewhere", "recorded")
EVENTS = (
    *("reset", "power cut", "flash fails", "flash lies", "stop", "any command", "silence", "pause", "encoder jumps"),
    *(
        "motor stuck",
        "line jammed",
        "slow",
        "overrun",
        "alarm",
        "missing",
        "wrong",
        "repeated",
        "late",
        "partial",
        "old",
    ),
)
TOTALS = ("ticks", "frames", "bytes", "sent", "damaged", "runs", "real_runs", "failed_starts", "resets", "restarts",
          "power_losses", "stamp_wraps", "clock_wraps", "uptime_wraps")  # fmt: skip
WRAPS = ("stamp_wraps", "clock_wraps", "uptime_wraps")


class Plan(ctypes.Structure):
    """soak_plan of soak_robot.h."""

    _fields_ = [
        ("view", ctypes.c_void_p),
        ("rows", ctypes.c_uint32),
        ("start", ctypes.c_int32 * len(START)),
        ("start_u", ctypes.c_int32 * len(START[2:])),
    ]


class Counts(ctypes.Structure):
    """soak_counts of soak_host.h."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in TOTALS),
        ("events", ctypes.c_uint64 * len(EVENTS)),
        ("line", ctypes.c_uint64 * len(LINE)),
        ("states", ctypes.c_uint64 * STATES),
        ("ends", ctypes.c_uint64 * REASONS),
    ]  # fmt: skip


def library(folder: Path, march: str = "", optimize: str = "-O2") -> ctypes.CDLL:
    """Firmware, its port and the host as one library, in which undefined behaviour traps."""
    built, code = folder / "soak.so", generated(NAME)
    own = [HERE / f"{name}.c" for name in ("soak", "soak_host", "soak_robot", "harness_loop", "flash")]
    sources = [*own, *sorted(CORE.glob("*.c")), *sorted(code.glob("*.c"))]
    include = [f"-I{CORE}", f"-I{code}", f"-I{HERE}", "-isystem", str(headers())]
    kind = [optimize, "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", "-shared", "-fPIC"]
    machine = [f"-march={march}"] if march else []
    wrapped = ["-Wl,--wrap=sm_update", "-o", str(built)]
    command = ["gcc", "-std=c11", *machine, *WARNINGS, *kind, *include, *wrapped, *map(str, sources), "-lm"]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(built))
    loaded.soak_run.restype = ctypes.c_char_p
    loaded.soak_open.restype = ctypes.c_size_t
    return loaded


def machines() -> tuple[str, ...]:
    """What to compile for: the first twice, and another that this processor can run."""
    if platform.machine() != "x86_64":
        return "", ""
    wide = {"avx2", "bmi2", "fma"} <= set(Path("/proc/cpuinfo").read_text().split())
    return ("x86-64", "x86-64", "x86-64-v3") if wide else ("x86-64", "x86-64")


class Soak:
    """The board with its host; `run` is one run, from whatever state the last one left."""

    def __init__(self, core: ctypes.CDLL, seed: int) -> None:
        self.core = core
        words = SignalCodec.read(generated(NAME))
        rows = unpack((generated(NAME) / "schedule.bin").read_bytes()).values()[:, : len(START)]
        self._view = np.ascontiguousarray([words.encode("measurement", row) for row in rows], dtype=np.int32)
        start, start_u = words.encode("measurement", np.array(START)), words.encode("command", np.array(START[2:]))
        plan = Plan(self._view.ctypes.data, len(rows), tuple(start), tuple(start_u))
        size = core.soak_open(KEY.secret, ctypes.c_uint64(seed), ctypes.byref(plan))
        assert size == ctypes.sizeof(Counts)

    def run(self) -> str:
        """The promise that was broken, or nothing."""
        broken: bytes | None = self.core.soak_run()
        return (broken or b"").decode()

    def told(self) -> tuple[Counts, str]:
        """Counts, and the digest of all that the board sent."""
        counts, digest = Counts(), (ctypes.c_uint8 * 32)()
        self.core.soak_told(ctypes.byref(counts), digest)
        return counts, bytes(digest).hex()


def named(counts: Counts) -> dict[str, Any]:
    """Totals, states of ticks, ends of runs and faults by name."""
    words = {"states": "STEPMAP_STATE", "ends": "STEPMAP_REASON"}
    by_word = {
        field: {word(enum, i): n for i, n in enumerate(getattr(counts, field)) if n} for field, enum in words.items()
    }
    faults = dict(zip((*EVENTS, *LINE), (*counts.events, *counts.line), strict=True))
    return {name: getattr(counts, name) for name in TOTALS} | by_word | {"faults": faults}


def soak(hours: float, seed: int, march: str) -> dict[str, Any]:
    """Runs until so many hours of ticks have passed; "broken" is what went wrong, or nothing."""
    total, base, broken, memory = round(hours * 3600e6 / PERIOD), 0, "", 0
    with tempfile.TemporaryDirectory(prefix="stepmap-soak-") as folder:
        board = Soak(library(Path(folder), march), seed)
        begun, counts = time.process_time(), Counts()
        while not broken and counts.ticks < total:
            for _ in range(20):
                broken = broken or board.run()
            counts, digest = board.told()
            memory = resident()
            base = base or memory
            if counts.runs % 2000 < 20:
                print(f"{counts.ticks} of {total} ticks, {counts.runs} runs, {memory >> 20} MB", flush=True)
    if not broken and memory > base + GROWTH:
        broken = f"memory grew from {base} to {memory} bytes"
    if not broken and not all(getattr(counts, name) for name in WRAPS):
        broken = "nothing wrapped"
    cost = {"memory_mb": [base >> 20, memory >> 20], "cpu_s": round(time.process_time() - begun)}
    asked = {"hours": hours, "seed": seed, "march": march}
    return asked | cost | named(counts) | {"broken": broken, "digest": digest}


def main(words: Sequence[str]) -> int:
    asked = argparse.ArgumentParser("python -m tests.firmware.soak")
    asked.add_argument("hours", type=float, nargs="?", default=1.0)
    asked.add_argument("seed", type=int, nargs="?", default=1)
    given = asked.parse_args(words)
    told = [soak(given.hours, given.seed, march) for march in machines()]
    print(json.dumps(told[-1], indent=1))
    JSON.parent.mkdir(parents=True, exist_ok=True)
    JSON.write_text(json.dumps(told, indent=1) + "\n")
    digests = [run["digest"] for run in told]
    print(*digests, sep="\n")
    return 1 if any(run["broken"] for run in told) or len(set(digests)) > 1 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
