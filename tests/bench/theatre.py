"""Plays and imitated dances on boards, and how soon a changed play is solved again.

    python tests/bench/theatre.py [--boards native,stm32f405] [--docs]

runs examples/scripts and examples/imitation through ``stepmap bench`` in lock-step, their plants 10 % off the model, on
a process and on an emulated STM32F405 where the schedule fits; the largest of them in real time on a process, too. It
then changes examples/scripts/wave.toml and solves it anew and from the old solution, and says why a whole marionette
goes to no board. Rows go to build/bench/theatre.json and are printed; --docs puts them into docs/choreography.md and
docs/imitation.md. Ends with exit code 1 where a run ended early, bits differ, an act is missing among the events, a
deadline was missed, or a changed play took a second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # a script finds only what is beside it

from stepmap import jobs  # noqa: E402
from stepmap.errors import ModelError  # noqa: E402
from stepmap.files import write_whole  # noqa: E402
from stepmap.jobs import optimize as optimum  # noqa: E402
from stepmap.jobs.script import ScriptJob  # noqa: E402
from stepmap.toml.tables import parse_text  # noqa: E402
from stepmap_codegen import generate  # noqa: E402
from stepmap_codegen.emit import wire_limits  # noqa: E402
from stepmap_codegen.lower.controller import lower  # noqa: E402
from stepmap_codegen.model.program import Role  # noqa: E402
from stepmap_hil.firmware.instruction_count import instructions  # noqa: E402
from stepmap_hil.runs.recording import read_run  # noqa: E402

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
}
MARIONETTE = b"""
[noise]
[noise.process]
q = 0.0005
rho = 0.0005
p = 0.005
v = 0.01
[noise.start]
q = 0.005
rho = 0.001
p = 0.02
v = 0.05
[noise.measurement]
upper_torso_hook = 0.002
lower_torso_hook = 0.002
left_arm_hook = 0.002
right_arm_hook = 0.002
left_leg_hook = 0.002
right_leg_hook = 0.002
"""
REAL = "imitation/two_arms"
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
        rows.append(measure(REAL, "native", "--mode", "realtime"))
        print(line(rows[-1]), flush=True)
    changes = [changed(what, edits) for what, edits in CHANGES.items()]
    print(again(changes))
    whole = marionette()
    print(whole.pop("refused"), whole)
    told = {"runs": rows, "changes": changes, "marionette": whole}
    write_whole(OUTPUT / "theatre.json", (json.dumps(told, indent=1) + "\n").encode())
    if options.docs:
        for page in ("choreography", "imitation"):
            put(page, "runs", table([row for row in rows if row["page"] == page]))
        put("choreography", "changes", again(changes))
    return 0 if all(map(good, rows)) and all(row["again_s"] < 1 for row in changes) else 1


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
    """Why a whole marionette goes to no board, and what its controller would take: operations, numbers."""
    text = (EXAMPLES / "imitation" / "marionette.toml").read_bytes() + MARIONETTE
    files = {"wave.bvh": (EXAMPLES / "imitation" / "wave.bvh").read_bytes()}
    job = jobs.parse(parse_text(text, "marionette.toml", files), "marionette")
    try:
        wire_limits.require(job.system)
        refused = ""
    except ModelError as error:
        refused = str(error)
    program = lower(generate.plant(job, job.solve().require().plan.gains, 2))
    return {
        "refused": refused,
        "operations": sum(program.counts().values()),
        "kept": len(program.fields),
        "row": len(program.of(Role.SCHEDULE)),
    }


def good(row: Row) -> bool:
    exact = row["bit_exact"] is True if row["fixed"] else True
    return bool(row["ended"] == "done" and exact and not row["misses"] and row["acts"] == row["events"])


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
