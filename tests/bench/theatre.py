"""Plays and imitated dances on boards, and how soon a changed play is solved again.

    python tests/bench/theatre.py [--boards native,stm32f405] [--docs]

runs examples/scripts and examples/imitation through ``stepmap bench`` in lock-step, their plants 10 % off the model, on
a process and on an emulated STM32F405 where the schedule fits; the largest of them in real time on a process, too. The
controller of a whole marionette is compared, tick by tick, with its program in float64. It then changes
examples/scripts/wave.toml and solves it anew and from the old solution. Rows go to build/bench/theatre.json and are
printed; --docs puts them into docs/choreography.md and docs/imitation.md. Ends with exit code 1 where a run ended early
or is no better than its open loop, bits differ, an act is missing among the events, a deadline was missed, float32 is
further from float64 than FAR, or a changed play took a second.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # a script finds only what is beside it

from stepmap import jobs  # noqa: E402
from stepmap.files import write_whole  # noqa: E402
from stepmap.jobs import optimize as optimum  # noqa: E402
from stepmap.jobs.script import ScriptJob  # noqa: E402
from stepmap_codegen import Controller, generate  # noqa: E402
from stepmap_codegen.emit.c_text import field_order  # noqa: E402
from stepmap_codegen.model.float_machine import FloatMachine  # noqa: E402
from stepmap_codegen.model.program import Role  # noqa: E402
from stepmap_hil.firmware.instruction_count import instructions  # noqa: E402
from stepmap_hil.runs.log import Row as LoggedRow  # noqa: E402
from stepmap_hil.runs.recording import RecordedRun, read_run  # noqa: E402
from tests.sil.controllers import library  # noqa: E402

EXAMPLES = ROOT / "examples"
OUTPUT = ROOT / "build" / "bench"
BUILD = OUTPUT / "theatre"
BOARDS = ("native", "stm32f405")
F405 = BOARDS[1]
JOBS = {  # page, and on which boards
    "scripts/wave": ("choreography", BOARDS),
    "scripts/puppet": ("choreography", BOARDS),
    "imitation/greeting": ("imitation", BOARDS),
    "imitation/two_arms": ("imitation", BOARDS[:1]),
    "imitation/whole": ("imitation", BOARDS[:1]),
}
WHOLE = "imitation/whole"
FAR = 1e-3  # m, rad, kg m/s, m/s: of estimates in float32 from those in float64, over a whole run
REAL = ("imitation/two_arms", WHOLE)
CHANGES: dict[str, dict[str, str]] = {
    "nothing": {},
    "a wave ten percent wider": {"0.2*sin(3*t)": "0.22*sin(3*t)"},
    "the last act 0.3 s later": {"at = 4.0": "at = 4.3"},
    "changes of 0.7 s": {"blend = 0.6": "blend = 0.7"},
    "a second more at the end": {"duration = 6.0": "duration = 7.0"},
}
Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", default=",".join(BOARDS))
    parser.add_argument("--docs", action="store_true", help="Put the tables into the docs.")
    options = parser.parse_args()
    asked = options.boards.split(",")
    rows = []
    for name, (_, possible) in JOBS.items():
        for board in (board for board in possible if board in asked):
            rows.append(measure(name, board))
            print(line(rows[-1]), flush=True)
    if "native" in asked:
        for name in REAL:
            rows.append(measure(name, "native", "--mode", "realtime"))
            print(line(rows[-1]), flush=True)
    changes = [changed(what, edits) for what, edits in CHANGES.items()]
    print(again(changes))
    whole = marionette() if "native" in asked else None
    print(whole)
    told = {"runs": rows, "changes": changes, "whole": whole}
    write_whole(OUTPUT / "theatre.json", (json.dumps(told, indent=1) + "\n").encode())
    if options.docs:
        for page in ("choreography", "imitation"):
            put(page, "runs", table([row for row in rows if row["page"] == page]))
        put("choreography", "changes", again(changes))
        if whole is not None:
            put("imitation", "whole", compared(whole))
    near = whole is None or whole["off"] <= FAR
    return 0 if near and all(map(good, rows)) and all(row["again_s"] < 1 for row in changes) else 1


def measure(name: str, board: str, *more: str) -> Row:
    """A run beside its open loop, through the command line."""
    file = EXAMPLES / f"{name}.toml"
    words = ["bench", str(file), "--board", board, "--build", str(BUILD), *more]
    done = subprocess.run([sys.executable, "-m", "stepmap.cli", *words], capture_output=True, text=True)
    folder = BUILD / file.stem / "runs" / "latest"
    if done.returncode not in (0, 1) or "report  " not in done.stdout:
        raise SystemExit(f"{name} on {board}:\n{done.stdout}{done.stderr}")
    found: Row = json.loads((folder / "summary.json").read_text())
    run = read_run(folder / "run.mcap", file.with_suffix(".py") if file.with_suffix(".py").exists() else None)
    late = found["latency_ms"]
    return {
        "job": name,
        "page": JOBS[name][0],
        "board": f"{board}, {found['mode']}" if found["mode"] == "realtime" else board,
        "ended": found["ended"],
        "ticks": found["ticks"],
        "closed_mm": 1e3 * found["closed_loop_rms_m"],
        "open_mm": 1e3 * found["open_loop_rms_m"],
        "instructions": found["instructions_per_tick"] or counted(file),
        "flash_bytes": found["flash_bytes"],
        "ram_bytes": found["ram_bytes"],
        "fixed": generate.choices_in(jobs.load(file).root).options.scalar.value == "fixed32",
        "bit_exact": found["bit_exact_with_host"],
        "misses": found["deadline_misses"],
        "latency_ms": None if late is None else late["max"],
        "acts": [act["name"] for act in found.get("acts", ())],
        "events": [text.removeprefix("act: ") for _, text in run.closed.events if text.startswith("act: ")],
    }


def counted(file: Path) -> int | None:
    """Instructions of a tick on the F405's processor, of a controller that runs on a process."""
    made = jobs.for_board(jobs.load(file))
    choices = generate.choices_in(made.root)
    stage = generate.stage(made, optimum.stage(made, BUILD), choices, BUILD)
    with tempfile.TemporaryDirectory() as folder:
        return instructions(generate.load(stage, made, choices), F405, Path(folder))


def changed(what: str, edits: dict[str, str]) -> Row:
    """A changed play, solved anew and from the old solution: iterations, and CPU seconds, best of three."""
    file = EXAMPLES / "scripts" / "wave.toml"
    old, text = jobs.load(file).solve().require(), file.read_text()
    for before, after in edits.items():
        assert before in text
        text = text.replace(before, after)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / file.name).write_text(text)
        job = jobs.load(Path(folder) / file.name)
    assert isinstance(job, ScriptJob)
    job.build()
    row: Row = {"change": what}
    for kind, guess in (("anew", None), ("again", job.resumed(old.plan))):
        seconds = []
        for _ in range(3):
            begin = time.process_time()
            found = job.solve(guess=guess).require()
            seconds.append(time.process_time() - begin)
        row |= {f"{kind}_iterations": found.iterations, f"{kind}_s": min(seconds), f"{kind}_cost": found.cost}
    return row


def marionette() -> Row:
    """The controller of a whole marionette in C beside its program in float64, along the lock-step run's measurements:
    how far estimates and commands are apart at most, and CPU time of a tick and of its compilation.
    """
    file = EXAMPLES / f"{WHOLE}.toml"
    job = jobs.for_board(jobs.load(file))
    choices = generate.choices_in(job.root)
    stage = generate.stage(job, optimum.stage(job, BUILD), choices, BUILD)
    made = generate.load(stage, job, choices)
    rows = [row for row in lockstep().closed.rows if row.running]
    with tempfile.TemporaryDirectory() as folder:
        begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        loaded = library(made, Path(folder), ["-O1"])
        compiling = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin
        off, tick = apart(made, loaded, rows)
    return {
        "operations": sum(made.program.counts().values()),
        "straight": sum(sum(block.counts().values()) for block in made.program.tapes),
        "fields": len(made.program.fields),
        "ticks": len(rows),
        "off": off,
        "tick_us": 1e6 * tick,
        "compile_s": compiling,
    }


def lockstep() -> RecordedRun:
    """The latest run in lock-step of the whole marionette."""
    for folder in sorted((BUILD / "whole" / "runs").iterdir(), reverse=True):
        summary = folder / "summary.json"
        if not folder.is_symlink() and summary.exists() and json.loads(summary.read_text())["mode"] == "lockstep":
            return read_run(folder / "run.mcap")
    raise SystemExit("the whole marionette was not run in lock-step")


def apart(made: Controller, loaded: ctypes.CDLL, rows: Sequence[LoggedRow]) -> tuple[float, float]:
    """How far estimates and commands of the C are from float64 at most, told the same; and a tick's CPU time [s]."""
    program, order = made.program, field_order(made.program)
    place = {field: k for k, field in enumerate(order)}
    states, commands, channels = (program.of(role) for role in (Role.STATE, Role.COMMAND, Role.MEASUREMENT))
    schedule, planned = program.of(Role.SCHEDULE), made.schedule.values()
    memory = np.zeros(len(order) + 1, dtype=np.float32)
    address = memory.ctypes.data_as(ctypes.c_void_p)
    assert loaded.sm_self_test(address) == 0
    machine = FloatMachine(program, made.output.start[:, None])
    off = took = 0.0
    for k, row in enumerate(rows):
        z, planned_row = np.asarray(row.z), planned[min(k, len(planned) - 1)]
        machine.load(channels, z[:, None])
        machine.load(schedule, planned_row[:, None])
        memory[[place[i] for i in channels]], memory[[place[i] for i in schedule]] = z, planned_row
        begin = time.process_time()
        loaded.sm_update(address, ctypes.c_uint32(row.valid))
        loaded.sm_state_feedback(address)
        middle = time.process_time() - begin
        for number, block in enumerate(program.blocks[:-1]):
            if block.channel is None or row.valid >> block.channel & 1:
                machine.run(number)
        told = [*states, *commands]
        off = max(off, float(np.abs(memory[[place[i] for i in told]] - machine.fields[told, 0]).max()))
        begin = time.process_time()
        loaded.sm_predict(address)
        took += middle + time.process_time() - begin
        machine.run(len(program.blocks) - 1)
    return off, took / len(rows)


def compared(row: Row) -> str:
    """What the page says of the whole marionette."""
    return (
        f"A tick of the whole marionette has {row['operations']} operations: {row['straight']} are written out, the "
        f"rest are in loops. It keeps {row['fields']} numbers. The C compiles in {row['compile_s']:.0f} s of CPU time, "
        f"and a tick takes {row['tick_us'] / 1e3:.2f} ms of it on a busy computer.\n"
        f"Over {row['ticks']} ticks, told the same measurements, estimates and commands in float32 stay within "
        f"{row['off']:.1g} (m, rad, kg m/s, m/s) of the same program in float64."
    )


def good(row: Row) -> bool:
    exact = row["bit_exact"] is True if row["fixed"] else True
    better = row["closed_mm"] < row["open_mm"]
    return bool(row["ended"] == "done" and exact and better and not row["misses"] and row["acts"] == row["events"])


def line(row: Row) -> str:
    exact = "yes" if row["bit_exact"] else "no" if row["fixed"] else "float32"
    late = "" if row["latency_ms"] is None else f", {row['latency_ms']:.0f} ms late at most"
    cells = [
        f"`{row['job']}.toml`",
        row["board"],
        f"{row['ticks']}, {row['misses']} missed{late}",
        f"{row['closed_mm']:.2f} mm, {row['open_mm']:.2f} mm",
        "" if row["instructions"] is None else f"{row['instructions']}",
        f"{row['flash_bytes'] / 1e3:.0f} kB, {row['ram_bytes'] / 1e3:.1f} kB",
        exact if row["ended"] == "done" else row["ended"],
    ]
    return "| " + " | ".join(cells) + " |"


def table(rows: list[Row]) -> str:
    head = "| job | board | ticks | closed, open loop | instructions per tick | flash, RAM | bit-exact |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *map(line, rows)])


def again(rows: list[Row]) -> str:
    head = ["| change of `wave.toml` | anew | from the old solution |", "|---|---|---|"]
    told = [
        f"| {row['change']} | {row['anew_iterations']} iterations, {row['anew_s']:.2f} s | "
        f"{row['again_iterations']}, {row['again_s']:.2f} s |"
        for row in rows
    ]
    return "\n".join([*head, *told])


def put(page: str, what: str, text: str) -> None:
    """Replaces a table between its marks."""
    path = ROOT / "docs" / f"{page}.md"
    begin, end = f"<!-- {what} -->\n", f"<!-- end of {what} -->\n"
    head, _, rest = path.read_text(encoding="utf-8").partition(begin)
    write_whole(path, (head + begin + "\n" + text + "\n\n" + end + rest.partition(end)[2]).encode())


if __name__ == "__main__":
    sys.exit(main())
