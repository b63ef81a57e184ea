"""Imitation of dances that nothing was tuned for: two motions, four ways to look, mirrored, other units and rates.

    python tests/bench/dances.py [FILE.bvh ...]

Recordings of one's own may be named, too. Writes build/bench/dances.json; exit code 1 where a search does not converge
in 20 iterations or takes more than 4 s of CPU time per 300 steps, or where a string pushes.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # a script finds only what is beside it

from stepmap import jobs  # noqa: E402
from stepmap.errors import ConvergenceError  # noqa: E402
from stepmap.files import write_whole  # noqa: E402
from stepmap.jobs.imitate.job import ImitationJob  # noqa: E402
from stepmap.simulation import Simulation  # noqa: E402
from tests import dancers  # noqa: E402

ITERATIONS, SECONDS = 20, 4.0  # what is asked; seconds per 300 steps
MOVES = {"wave": dancers.angles, "steps": dancers.stroll, "turning hips": dancers.turning}
Row = dict[str, Any]


def main() -> int:
    rows = []
    for name, text, facing in (*variants(), *given(sys.argv[1:])):
        rows.append(measured(name, text, facing))
        print(line(rows[-1]), flush=True)
    write_whole(ROOT / "build" / "bench" / "dances.json", (json.dumps(rows, indent=1) + "\n").encode())
    return 0 if all(map(good, rows)) else 1


def variants() -> Iterator[tuple[str, str, str]]:
    """Name, recording and facing of each dance."""
    for name, moves in MOVES.items():
        yield name, dancers.bvh(5.0, moves=moves), ""
        yield f"{name}, mirrored", dancers.bvh(5.0, moves=dancers.mirrored(moves)), ""
        yield f"{name}, 60 per second, in inches", dancers.bvh(5.0, rate=60.0, unit=39.37, moves=moves), ""
        yield f"{name}, 120 per second, in cm", dancers.bvh(5.0, rate=120.0, unit=100.0, moves=moves), ""
    for name in ("wave", "steps"):
        yield from looking(name, dancers.bvh(5.0, moves=MOVES[name]))


def given(files: list[str]) -> Iterator[tuple[str, str, str]]:
    for file in map(Path, files):
        text = file.read_text(encoding="utf-8")
        yield file.stem, text, ""
        yield from looking(file.stem, text)


def looking(name: str, text: str) -> Iterator[tuple[str, str, str]]:
    """Facing four ways."""
    for degrees in (0, 90, 180, 270):
        a = np.radians(degrees)
        yield f"{name}, facing {degrees}°", text, f"facing = [{np.cos(a):.6f}, {np.sin(a):.6f}, 0.0]"


def measured(name: str, text: str, facing: str) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "dance.bvh").write_text(text, encoding="utf-8")
        file = Path(folder) / "dance.toml"
        file.write_text(
            f'job.kind = "imitate"\nsystem.name = "marionette"\n[imitate]\nmotion = "dance.bvh"\n{facing}\n'
        )
        begin = time.process_time()
        job = jobs.load(file)
        poses = time.process_time() - begin
    assert isinstance(job, ImitationJob)
    job.step.rollout(job.start, job.held[None])  # compiles
    begin = time.process_time()
    row: Row = {"dance": name, "steps": job.steps, "poses_s": poses}
    try:
        found = job.solve()
    except ConvergenceError as error:
        return row | {"status": str(error), "search_s": time.process_time() - begin}
    row["search_s"] = time.process_time() - begin
    forces: NDArray[np.float64] = np.asarray(Simulation(job.step, found.trajectory).multipliers)
    return row | {
        "status": found.status.name,
        "iterations": sum(entry.length > 0 for entry in found.history),
        "low_N": float(forces.min()),
        "high_N": float(forces.max()),
        "marker_rms_mm": 1e3 * job.told(found)["imitation"]["marker_rms"],
    }


def good(row: Row) -> bool:
    quick = row["search_s"] <= SECONDS * max(1.0, row["steps"] / 300)
    return bool(row["status"] == "CONVERGED" and row["iterations"] <= ITERATIONS and quick and row["low_N"] >= 0)


def line(row: Row) -> str:
    if "iterations" not in row:
        return f"| {row['dance']} | {row['status']} | | |"
    ended = "" if row["status"] == "CONVERGED" else f", {row['status'].lower()}"
    forces = f"{row['low_N']:.2g} to {row['high_N']:.3g} N"
    return (
        f"| {row['dance']} | {row['iterations']}{ended}, {row['search_s']:.1f} s | {forces} | "
        f"{row['marker_rms_mm']:.0f} mm |"
    )


if __name__ == "__main__":
    sys.exit(main())
