"""Planning in two scenes from 20 seeds each: how many reach their goals, CPU time, and the rate of extensions.

    python tests/bench/planner.py

Clearances are judged by coal. Exit code 1 where a figure misses what is asked.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.scenes import planar, spatial

SEEDS = 20


def main() -> int:
    good = True
    for make in (planar, spatial):
        scene, times, rates, reached, room = make(), [], [], 0, np.inf
        scene.plan(99)  # compiles
        for seed in range(SEEDS):
            begin = time.process_time()
            found = scene.plan(seed)
            times.append(time.process_time() - begin)
            rates.append(found.extensions / times[-1])
            reached += found.status.ok
            room = min(room, scene.room(found.trajectory.x))
        print(
            f"{make.__name__}: {reached} of {SEEDS} reached, median {np.median(times):.3f} s, worst {max(times):.3f} s "
            f"of CPU, {np.median(rates):.0f} extensions per second, least distance {1e3 * room:.1f} mm",
            flush=True,
        )
        good &= reached == SEEDS and np.median(times) <= 0.3 and max(times) <= 1.0 and room >= 0
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
