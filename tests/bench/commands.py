"""What people wait for: CPU seconds of commands, and of a cold build.

    python tests/bench/commands.py        writes build/bench/commands.json

Rows are {what, cpu_s, goal_s}: processor time of the command and of all it starts, the best of three; a cold build
once. The job is examples/suspended_mass.toml. ``bench`` is that of the board as a process, its firmware built before.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build" / "bench" / "commands.json"
JOB = str(ROOT / "examples" / "suspended_mass.toml")
MARIONETTE = """
import numpy as np, stepmap as sm
step = sm.discretize(sm.systems.get("marionette"), 0.01)
x = step.rest({})
step.curvature(x, x[step.layout["rho"]], np.ones(step.ndx))
"""
STEPMAP = (sys.executable, "-m", "stepmap.cli")
COMMANDS: dict[str, tuple[tuple[str, ...], float, int]] = {  # words, goal [s], rounds
    "stepmap --help": ((*STEPMAP, "--help"), 0.3, 3),
    "stepmap optimize": ((*STEPMAP, "optimize", JOB, "--build", "BUILD", "--force"), 1.0, 3),
    "stepmap generate": ((*STEPMAP, "generate", JOB, "--build", "BUILD", "--force"), 1.2, 3),
    "stepmap bench, nothing changed": ((*STEPMAP, "bench", JOB, "--board", "native", "--build", "BUILD"), 12.0, 3),
    "marionette, cold build": ((sys.executable, "-c", MARIONETTE), 8.0, 1),
}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="stepmap-bench-") as folder:
        rows = [row(Path(folder), what) for what in track(COMMANDS, "measuring", console=Console(stderr=True))]
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")
    table = Table(title="commands", caption="CPU time with all that a command starts", caption_justify="left")
    table.add_column("what", no_wrap=True)
    for name in ("time", "goal"):
        table.add_column(name, justify="right")
    for made in rows:
        colour = "green" if made["cpu_s"] <= made["goal_s"] else "red"
        table.add_row(str(made["what"]), f"{made['cpu_s']:.2f} s", f"[{colour}]≤ {made['goal_s']:g} s[/]")
    Console().print(table)


def row(folder: Path, what: str) -> dict[str, str | float]:
    words, goal, rounds = COMMANDS[what]
    cold = rounds == 1
    environment = os.environ | ({"STEPMAP_CACHE": str(folder / "cache")} if cold else {})
    # As users have it: modules are compiled once, also where this process is told to keep nothing of it.
    environment = {**environment, "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    command = [str(folder / "build") if word == "BUILD" else word for word in words]
    cpu_s((*STEPMAP, "systems") if cold else command, environment)  # builds what is built once
    return {"what": what, "cpu_s": round(min(cpu_s(command, environment) for _ in range(rounds)), 2), "goal_s": goal}


def cpu_s(command: list[str], environment: dict[str, str]) -> float:
    """CPU time [s] of a process and of those it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
