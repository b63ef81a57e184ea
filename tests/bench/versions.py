"""Two versions of stepmap side by side: the same benchmarks in turns, and the ratio of their best figures.

    python tests/bench/versions.py OTHER [--rounds 3] [--of core ...]        writes build/bench/versions.json

OTHER is a checkout of the other version with its own .venv (``make setup`` there). In each round every benchmark runs
in both, one after the other, so that a slow moment of the machine hits both alike; a figure counts as its best round.
versions.json is a list of rows {benchmark, row, figure, here, other, ratio}; a ratio above 1 means that this version
needs more. Exit code 1 where a CPU time is more than 5 % above the other's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build" / "bench" / "versions.json"
# Figures of a row that say what something costs; rows are told apart by what is left of them.
COSTS = {"core": ("us",), "optimal": ("cpu_s",), "codegen": ("instructions", "text_bytes", "stack_bytes")}
WALL = ("build", "build_cached")  # wall times of the core: told, but no reason to fail
SLOWER = 1.05
Key = tuple[str, str, str]  # benchmark, row, figure


def main() -> None:
    options = parse()
    trees = {"here": ROOT, "other": options.other}
    best: dict[str, dict[Key, float]] = {name: {} for name in trees}
    turns = [(name, of) for _ in range(options.rounds) for of in options.of for name in trees]
    for name, of in track(turns, "measuring", console=Console(stderr=True)):
        for key, value in figures(trees[name], of).items():
            best[name][key] = min(value, best[name].get(key, value))
    rows = [
        {
            "benchmark": key[0],
            "row": key[1],
            "figure": key[2],
            "here": value,
            "other": best["other"][key],
            "ratio": round(value / best["other"][key], 3) if best["other"][key] else None,
        }
        for key, value in best["here"].items()
        if key in best["other"]
    ]
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")
    Console().print(table(rows))
    slower = [row for row in rows if too_slow(row)]
    for row in slower:
        print(f"slower: {row['row']} {row['figure']}: {row['ratio']} times the other's", file=sys.stderr)
    sys.exit(1 if slower else 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("other", type=Path, help="a checkout of the other version, set up")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--of", nargs="+", choices=sorted(COSTS), default=["core", "optimal"])
    options = parser.parse_args()
    if not (options.other / ".venv" / "bin" / "python").exists():
        parser.error(f"{options.other}: has no .venv; run make setup there")
    options.other = options.other.resolve()
    return options


def figures(tree: Path, of: str) -> dict[Key, float]:
    """Figures of one benchmark, run in a checkout by its own interpreter and its own script."""
    command = [str(tree / ".venv" / "bin" / "python"), str(tree / "tests" / "bench" / f"{of}.py")]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stderr[-2000:]}")
    rows: list[dict[str, Any]] = json.loads((tree / "build" / "bench" / f"{of}.json").read_text())
    return {
        (of, " ".join(value for value in row.values() if isinstance(value, str)), name): float(row[name])
        for row in rows
        for name in COSTS[of]
        if row.get(name) is not None
    }


def too_slow(row: dict[str, Any]) -> bool:
    wall = row["benchmark"] == "core" and row["row"].split()[-1] in WALL
    return row["ratio"] is not None and row["ratio"] > SLOWER and not wall


def table(rows: list[dict[str, Any]]) -> Table:
    out = Table(title="this version beside another")
    for name in ("benchmark", "row", "figure"):
        out.add_column(name, no_wrap=True)
    for name in ("here", "other", "ratio"):
        out.add_column(name, justify="right")
    for row in rows:
        style = "red" if too_slow(row) else ""
        numbers = (f"{row['here']:.4g}", f"{row['other']:.4g}", "" if row["ratio"] is None else f"{row['ratio']:.2f}")
        out.add_row(row["benchmark"], row["row"], row["figure"], *numbers, style=style)
    return out


if __name__ == "__main__":
    main()
