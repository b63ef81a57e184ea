"""Every mechanism of examples/mechanisms on a process and on an emulated STM32F405, its plant 10 % off the model.

    python tests/bench/mechanisms.py [--only furuta,crane] [--boards native,stm32f405] [--docs]

writes build/bench/mechanisms.json, a list of rows

    mechanism, board, ended        "done"
    closed_mm, open_mm, ticks      RMS distance of the masses from the plan, with and without feedback from the same
                                   start and over the same ticks, up to where the open loop left its ranges
    ratio                          open_mm / closed_mm
    instructions, flash_bytes      per tick; of the image
    bit_exact                      with the integer model
    held, held_mm                  of swing-ups: in all of the 30 s after the plan the masses were nearer to its end
                                   than a quarter of the way up; their largest distance (RMS of the masses)

and prints them as a table; --docs puts the table into docs/mechanisms.md. Rows of an earlier run that are not measured
again are kept. Acrobot and Furuta pendulum stay up on both boards, the other swing-ups on the first: a tick of the
emulated chip takes tens of milliseconds, and its bits are the same. Ends with exit code 1 where a run ended early, bits
differ, feedback is less than three times better, or a swing-up fell.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # a script finds only what is beside it

from stepmap.files import write_whole  # noqa: E402
from stepmap_hil.runs.log import errors  # noqa: E402
from stepmap_hil.runs.recording import read_run  # noqa: E402

FOLDER = ROOT / "examples" / "mechanisms"
OUTPUT = ROOT / "build" / "bench"
BUILD = OUTPUT / "mechanisms"
PAGE = ROOT / "docs" / "mechanisms.md"
BOARDS = ("native", "stm32f405")
HELD_ON = {"acrobot": BOARDS, "furuta": BOARDS, "pendubot": BOARDS[:1], "reaction_wheel": BOARDS[:1]}
AFTER = 30.0  # s after the plan
FALLEN = 0.25  # of the way up
BETTER = 3.0
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
Row = dict[str, Any]


def main() -> int:
    options, file = arguments(), OUTPUT / "mechanisms.json"
    names = options.only.split(",") if options.only else sorted(path.stem for path in FOLDER.glob("*.toml"))
    kept = {(row["mechanism"], row["board"]): row for row in json.loads(file.read_text())} if file.exists() else {}
    for name in names:
        for board in options.boards.split(","):
            kept[name, board] = measure(name, board)
            print(line(kept[name, board]), flush=True)
            write_whole(file, (json.dumps(list(kept.values()), indent=1) + "\n").encode())
    rows = [kept[key] for key in sorted(kept)]
    print(table(rows))
    if options.docs:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        write_whole(PAGE, (head + BEGIN + "\n" + table(rows) + "\n" + END + rest.partition(END)[2]).encode())
    return 0 if all(good(row) for row in rows) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="Names of mechanisms, with commas.")
    parser.add_argument("--boards", default=",".join(BOARDS))
    parser.add_argument("--docs", action="store_true", help="Put the table into docs/mechanisms.md.")
    return parser.parse_args()


def measure(name: str, board: str) -> Row:
    """A run of the plan beside its open loop, and of a swing-up another one that goes on for 30 s."""
    found = bench(name, board)
    closed, opened = found["closed_loop_rms_m"], found["open_loop_rms_m"]
    row = {
        "mechanism": name,
        "board": board,
        "ended": found["ended"],
        "closed_mm": 1e3 * closed,
        "open_mm": 1e3 * opened,
        "ticks": found["compared_ticks"],
        "ratio": opened / closed,
        "instructions": found["instructions_per_tick"],
        "flash_bytes": found["flash_bytes"],
        "bit_exact": found["bit_exact_with_host"],
    }
    return row | (hold(name, board) if board in HELD_ON.get(name, ()) else dict.fromkeys(("held", "held_mm")))


def bench(name: str, board: str, *options: str) -> Row:
    """The summary of a run through the command line, as users start it; one that ended early has one too."""
    words = ["bench", str(FOLDER / f"{name}.toml"), "--board", board, "--build", str(BUILD), *options]
    done = subprocess.run([sys.executable, "-m", "stepmap.cli", *words], capture_output=True, text=True)
    summary = BUILD / name / "runs" / "latest" / "summary.json"
    if done.returncode not in (0, 1) or not summary.exists() or "report  " not in done.stdout:
        raise SystemExit(f"{name} on {board}:\n{done.stdout}{done.stderr}")
    found: Row = json.loads(summary.read_text())
    return found


def hold(name: str, board: str) -> Row:
    """How far a swing-up is from the plan's end, at most, in the time after it."""
    planned = json.loads((BUILD / name / "optimize" / "summary.json").read_text())
    length = planned["dt"] * planned["steps"]
    found = bench(name, board, "--no-open-loop", "--seconds", f"{length + AFTER:.9g}")
    run = read_run(BUILD / name / "runs" / "latest" / "run.mcap", FOLDER / f"{name}.py")
    with np.load(BUILD / name / "optimize" / "solution.npz") as plan:
        x = plan["x"]
    after = [row.coordinates for row in run.closed.rows if row.running and row.tick >= planned["steps"]]
    poses = np.array([*after, x[0, : len(after[0])]]) if after else x[:1]
    *off, way = errors(run.controller, poses, np.tile(x[-1, : poses.shape[1]], (len(poses), 1)))
    most = max(off, default=np.inf)
    held = found["ended"] == "done" and len(off) * planned["dt"] > AFTER - 1 and most < FALLEN * way
    return {"held": bool(held), "held_mm": 1e3 * float(most)}


def good(row: Row) -> bool:
    return bool(row["ended"] == "done" and row["bit_exact"] and row["ratio"] >= BETTER and row["held"] is not False)


def cells(row: Row) -> list[str]:
    held = "" if row["held"] is None else f"{'yes' if row['held'] else 'no'}, {row['held_mm']:.2g} mm"
    return [
        row["mechanism"],
        row["board"],
        *(
            f"{value:.3g}" if value < 1e3 else f"{value:.0f}"
            for value in (row["closed_mm"], row["open_mm"], row["ratio"])
        ),
        str(row["ticks"]),
        "" if row["instructions"] is None else str(row["instructions"]),
        str(row["flash_bytes"]),
        "yes" if row["bit_exact"] else "no",
        held if row["ended"] == "done" else row["ended"],
    ]


def line(row: Row) -> str:
    return "| " + " | ".join(cells(row)) + " |"


def table(rows: list[Row]) -> str:
    names = ["mechanism", "board", "closed loop, mm", "open loop, mm", "times better", "ticks"]
    names += ["instructions per tick", "flash, bytes", "bit-exact", "stays up for 30 s"]
    return "\n".join(["| " + " | ".join(names) + " |", "|---" * len(names) + "|", *map(line, rows)]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
