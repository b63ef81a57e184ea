"""What campaigns cost and find: ten thousand filtered runs, and runs on the bench.

    python -m tests.bench.campaign [--docs] [NAME ...]

Each command begins with an empty build folder, in a process of its own; CPU time is that of all it started. Rows go to
build/bench/campaign.json; --docs puts the tables into docs/campaigns.md. Ends with exit code 1 where ten thousand
trials take more than 40 s of CPU time, 20 s on two processors, or where a trial failed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stepmap.campaigns import load
from stepmap.campaigns.table import columns_of
from tests.pages import ROOT

OUT = ROOT / "build" / "bench" / "campaign.json"
BUILD = ROOT / "build" / "bench" / "campaign"
PAGE = ROOT / "docs" / "campaigns.md"
MOST_S = 40.0
SUBREAPER = 36  # of prctl: processes whose parent is gone become ours, with their CPU time


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--docs", action="store_true", help="put the tables into docs/campaigns.md")
    parser.add_argument("names", nargs="*", default=["filter_noise", "bench_faults"], help="campaigns of the examples")
    asked = parser.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    rows = [measured(name) for name in asked.names]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1) + "\n")
    print(json.dumps(rows, indent=1))
    if asked.docs:
        for row in rows:
            what, table = TABLES[row["campaign"]]
            fill(what, table(row["points"]))
        fill("times", times_table(rows))
    bad = [row["campaign"] for row in rows if row["failed"]]
    slow = any(row["campaign"] == "filter_noise" and row["cpu_s"] > MOST_S for row in rows)
    return 1 if bad or slow else 0


def measured(name: str) -> dict[str, Any]:
    """A campaign of the examples, run by its command."""
    file = ROOT / "examples" / "campaigns" / f"{name}.toml"
    shutil.rmtree(BUILD / name, ignore_errors=True)
    before = _cpu()
    words = [sys.executable, "-m", "stepmap.cli", "campaign", str(file), "--build", str(BUILD / name), "--jobs", "2"]
    subprocess.run(words, cwd=ROOT, check=True)
    while True:  # the server that starts processes ends with the command, and is ours then
        try:
            os.wait()
        except ChildProcessError:
            break
    seconds = _cpu() - before
    campaign = load(file)
    folder = campaign.folder(BUILD / name)
    (session,) = folder.sessions()
    import pyarrow.parquet as pq

    columns = columns_of(pq.read_table(folder.table))
    shown = [c.name for c in campaign.study.columns if c.shown]
    points = []
    for number, point in enumerate(campaign.varied.points):
        here = (columns["point"] == number) & columns["ok"]
        means = {c: float(np.mean(columns[c][here].astype(float))) for c in shown}
        points.append({**point, **means, "trials": int(here.sum())})
        if "verdict" in columns:
            points[-1]["passed"] = int((columns["verdict"][here] == "passed").sum())
    return {
        "campaign": name,
        "trials": len(campaign),
        "failed": int((~columns["ok"].astype(bool)).sum()),
        "cpu_s": round(seconds, 1),
        "cpu_of_trials_s": session["cpu_s"],
        "bytes": folder.table.stat().st_size,
        "points": points,
    }


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def filter_table(points: Sequence[dict[str, Any]]) -> list[str]:
    out = ["| noise of q per step [mm] | NEES | NIS | error of xm, ym [mm] |", "|---|---|---|---|"]
    for p in points:
        error = f"{1e3 * p['rms_xm']:.2f}, {1e3 * p['rms_ym']:.2f}"
        out.append(f"| {1e3 * p['noise.process.q']:g} | {p['nees']:.2f} | {p['nis']:.2f} | {error} |")
    return out


def bench_table(points: Sequence[dict[str, Any]]) -> list[str]:
    out = ["| faults | mass [kg] | passed | tracking [mm] | largest [mm] |", "|---|---|---|---|---|"]
    for p in points:
        fault, mass = Path(p["faults"]).stem.replace("_", " "), p["bench.plant.system.mass"]
        passed = f"{p['passed']} of {p['trials']}"
        out.append(f"| {fault} | {mass:g} | {passed} | {1e3 * p['tracking_rms']:.1f} | {1e3 * p['tracking_max']:.1f} |")
    return out


TABLES = {"filter_noise": ("filter", filter_table), "bench_faults": ("bench", bench_table)}


def times_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    out = ["| campaign | trials | CPU time [s] | of it trials [s] | table [kB] |", "|---|---|---|---|---|"]
    for row in rows:
        cpu = f"{row['cpu_s']:.1f} | {row['cpu_of_trials_s']:.1f}"
        out.append(f"| `{row['campaign']}` | {row['trials']} | {cpu} | {row['bytes'] / 1e3:.0f} |")
    told = "`make bench-campaign` measures them with two processes, plan, controller and firmware included."
    return [*out, "", told]


def fill(what: str, lines: Sequence[str]) -> None:
    """Puts a table between its marks."""
    begin, end = f"<!-- {what} -->\n", f"<!-- end of {what} -->\n"
    text = PAGE.read_text()
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    body = "\n".join(lines)
    PAGE.write_text(f"{head}{begin}\n{body}\n\n{end}{tail}")


if __name__ == "__main__":
    sys.exit(main())
