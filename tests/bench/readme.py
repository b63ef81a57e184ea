"""Speeds in the README, from the last run of the benchmarks.

    python tests/bench/readme.py        writes what stands between the marks of README.md

Reads build/bench/{core,optimal,commands}.json: ``make bench bench-readme`` measures and fills it. Rows that were not
measured are an error: nothing is written then.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "build" / "bench"
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
SYSTEMS = {
    "suspended_mass": "suspended mass",
    "pendulum_chain_20": "chain of 20 links",
    "marionette": "marionette, 22 + 18 coordinates, 6 strings",
}
WORK = ("step", "linearize", "curvature", "rollout", "rollout_many")
PROBLEMS = {
    "pend_swingup": ("pendulum swing-up of the reference data", "trep"),
    "figure_eight": ("suspended mass, an abrupt and tight figure of eight (not the job above), 300 steps", "IPOPT"),
    "cart_swing_up": ("cart swing-up from hanging, 300 steps", "IPOPT"),
    "marionette_tracking": (
        "marionette tracking its own motion, 1001 steps",
        "trep, another motion of the same length",
    ),
}
TEXT = """
`make bench` measures it on your machine. On two cores of an AMD EPYC that were busy with other work; trep 1.0, the
library of the papers, was measured on a Xeon of the 2020s:

| | step | with A, B | with contracted Hessian | rollout, per step | many rollouts, per step |
|---|---|---|---|---|---|
{calls}

| optimization | iterations | CPU time | compare |
|---|---|---|---|
{searches}

In brackets: trep, µs. Calls go through Python, a rollout is one compiled call. Along a trajectory the marionette's A, B
take {slopes}, its curvature {along}. In the same run on the same tree: MuJoCo's steps with soft strings {euler} (Euler)
and {implicit} (implicit), its derivatives by differences {differences}; Pinocchio's forward dynamics without strings
{forward}, their derivatives {derivatives}. A marionette is built with {built:.0f} s of CPU, once, and then loads in
{loaded:.2f} s.
"""
Row = dict[str, Any]


def main() -> None:
    try:
        rows = {name: json.loads((BENCH / f"{name}.json").read_text()) for name in ("core", "optimal", "commands")}
        made = text(rows["core"], rows["optimal"], rows["commands"])
    except (OSError, KeyError) as missing:
        sys.exit(f"{missing}: not measured; run make bench first")
    page = ROOT / "README.md"
    head, _, rest = page.read_text().partition(BEGIN)
    page.write_text(head + BEGIN + made + END + rest.partition(END)[2])


def text(core: list[Row], optimal: list[Row], commands: list[Row]) -> str:
    """What stands between the marks."""
    calls = {(row["system"], row["work"]): row for row in core}
    searches = {row["problem"]: row for row in optimal}
    cpu = {row["what"]: row["cpu_s"] for row in commands}
    rollout, slopes = (calls["marionette", work] for work in ("rollout", "linearize_along"))
    return TEXT.format(
        calls="\n".join(line(calls, *system) for system in SYSTEMS.items()),
        searches="\n".join(search(searches[name], *said) for name, said in PROBLEMS.items()),
        along=micro(calls["marionette", "curvature_along"]["us"]),
        euler=peer(rollout, "MuJoCo Euler"),
        implicit=peer(rollout, "MuJoCo implicit"),
        forward=peer(rollout, "Pinocchio"),
        slopes=micro(slopes["us"]),
        differences=peer(slopes, "MuJoCo"),
        derivatives=peer(slopes, "Pinocchio"),
        built=cpu["marionette, cold build"],
        loaded=calls["marionette", "build_cached"]["us"] / 1e6,
    )


def line(calls: dict[tuple[str, str], Row], system: str, name: str) -> str:
    cells = []
    for work in WORK:
        row = calls[system, work]
        known = work in WORK[:3] and row["reference_us"] is not None
        cells.append(micro(row["us"]) + (f" ({plain(row['reference_us'])})" if known else ""))
    return f"| {name} | {' | '.join(cells)} |"


def search(row: Row, name: str, peer: str) -> str:
    other = seconds(row["reference_cpu_s"])
    same = "" if peer != "IPOPT" else f", the same cost to {abs(row['cost'] / row['reference_cost'] - 1):.0e}"
    return f"| {name} | {row['iterations']} | {seconds(row['cpu_s'])} | {other} ({peer}){same.replace('e-0', 'e-')} |"


def peer(row: Row, begin: str) -> str:
    """Time of the first peer whose name begins so."""
    found = [us for name, us in (row["peers"] or {}).items() if name.startswith(begin)]
    if not found:
        raise KeyError(begin)
    return micro(found[0])


def micro(us: float) -> str:
    return f"{us:.{2 if us < 1 else 1 if us < 100 else 0}f} µs"


def plain(us: float) -> str:
    return f"{us:.1f}" if us < 100 else f"{us:.0f}" if us < 10000 else f"{us:,.0f}".replace(",", " ")


def seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 10 else f"{value:.2f} s" if value >= 0.5 else milli(1e3 * value)


def milli(value: float) -> str:
    return f"{value:.{1 if value < 10 else 0}f} ms"


if __name__ == "__main__":
    main()
