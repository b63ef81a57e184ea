"""What rerun reads of a recording: transforms, the log, points as its own; the scene as a message.

    python tests/bench/viewers.py RERUN [RUN.mcap]

RERUN is rerun's program; `make bench-viewers` installs it beside the project, 0.8 GB with what it needs. Without a
recording a run of three seconds is made on the native board with the rendered Kinect. Exit code 1 where something is
not found.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "bench" / "viewers"
WANTED = {
    "/tf": "Transform3D:translation",
    "/log": "TextLog:text",
    "/points": "Points3D:positions",
    "/scene": "foxglove.SceneUpdate:message",
    "/estimate": "McapMessage:data",
    "/sigma": "McapMessage:data",
}


def recording() -> Path:
    """A run of three seconds, whose camera's points are recorded."""
    words = ["--seconds", "3", "--no-open-loop", "--build", str(OUT / "build"), "--runs", str(OUT / "runs")]
    job = ROOT / "examples" / "suspended_mass.toml"
    subprocess.run([sys.executable, "-m", "stepmap.cli", "bench", str(job), *words], check=True)
    return sorted((OUT / "runs").glob("2*"))[-1] / "run.mcap"


def found(rerun: str, run: Path) -> dict[str, str]:
    """What rerun makes of each topic: names of its components."""
    OUT.mkdir(parents=True, exist_ok=True)
    converted = OUT / "run.rrd"
    subprocess.run([rerun, "mcap", "convert", str(run), "-o", str(converted)], check=True, capture_output=True)
    told = subprocess.run([rerun, "rrd", "print", str(converted)], check=True, capture_output=True, text=True).stdout
    made: dict[str, str] = {}
    for topic, columns in re.findall(r"KiB\) - (/\S+) - data columns: \[(.*?)\]", told):
        made[topic] = f"{made.get(topic, '')} {columns}".strip()
    return made


def main() -> int:
    rerun = sys.argv[1]
    version = subprocess.run([rerun, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    told = found(rerun, Path(sys.argv[2]) if len(sys.argv) > 2 else recording())
    print(version)
    missing = 0
    for topic, component in WANTED.items():
        there = component in told.get(topic, "")
        missing += not there
        print(f"  {topic:<10} {component:<30} {'read' if there else 'MISSING'}")
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
