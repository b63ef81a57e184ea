"""How well 30 Hz are held by the clock: a minute of the main job for each board and sensor.

    python tests/bench/realtime.py [SECONDS]        writes build/bench/realtime.json

A list of rows

    board, sensor, seconds
    ended                      "done"
    ticks, deadline_misses     commands that came later than a period after their frame, or not at all
    latency_ms                 from the frame to the command: p50, p99, max; a rendered Kinect's frame is rendered,
                               goes through libfreenect and is read within that time
    jitter_ms                  how late frames were looked at: p50, p99, max
    tracking_rms_m

Ends with exit code 1 where a run ended early, or the 99th percentile of its latency is a period or more. Nothing else
should run meanwhile. An emulated chip and a rendered Kinect together want more than two cores: they are measured, and
may fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # a script finds only what is beside it

from stepmap.files import write_whole  # noqa: E402

OUTPUT = ROOT / "build" / "bench"
JOB = ROOT / "examples" / "suspended_mass.toml"
PERIOD_MS = 1e3 / 30
RUNS = (("native", "gaussian"), ("native", "kinect"), ("stm32f405", "gaussian"), ("stm32f405", "kinect"))
MAY_FAIL = ("stm32f405", "kinect")
KEPT = ("ended", "ticks", "deadline_misses", "latency_ms", "jitter_ms", "tracking_rms_m")
Row = dict[str, Any]


def main(seconds: float = 60.0) -> int:
    rows = [measure(board, sensor, seconds) for board, sensor in RUNS]
    write_whole(OUTPUT / "realtime.json", (json.dumps(rows, indent=1) + "\n").encode())
    Console(width=120).print(table(rows))
    return 0 if all(held(row) for row in rows if (row["board"], row["sensor"]) != MAY_FAIL) else 1


def held(row: Row) -> bool:
    return bool(row["ended"] == "done" and row["latency_ms"]["p99"] < PERIOD_MS)


def measure(board: str, sensor: str, seconds: float) -> Row:
    """One run through the command line, as users start it."""
    build = OUTPUT / "realtime"
    options = ("--board", board, "--sensor", sensor, "--seconds", str(seconds), "--build", str(build))
    words = [sys.executable, "-m", "stepmap.cli", "bench", str(JOB), "--mode", "realtime", "--no-open-loop", *options]
    subprocess.run(words, check=False, stdout=subprocess.DEVNULL)  # a run that ends early leaves its summary, too
    summary = json.loads((build / "suspended_mass" / "bench" / "summary.json").read_text())
    return {"board": board, "sensor": sensor, "seconds": seconds, **{name: summary[name] for name in KEPT}}


def table(rows: list[Row]) -> Table:
    out = Table("board", "sensor", "ended", "ticks", "missed", "latency p50", "p99", "max [ms]", "jitter p99 [ms]")
    for row in rows:
        times = [f"{row['latency_ms'][name]:.1f}" for name in ("p50", "p99", "max")]
        numbers = (row["ticks"], row["deadline_misses"], *times, f"{row['jitter_ms']['p99']:.1f}")
        out.add_row(row["board"], row["sensor"], row["ended"].partition(":")[0], *(str(number) for number in numbers))
    return out


if __name__ == "__main__":
    sys.exit(main(*(float(word) for word in sys.argv[1:])))
