"""Sixty runs of a mass whose height alone is seen: how many each filter loses, and what a step costs.

    python tests/bench/particles.py

Exit code 1 where the particle filter with 1000 particles loses more than 2, or the Kalman filter no more than 20.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import stepmap as sm
from stepmap.figures.particles import DT, RUNS, STEPS, seen_from_above
from tests.unit.test_particle import lost


def main() -> int:
    step = sm.discretize(seen_from_above(), DT)
    rows = [("extended Kalman filter", sm.ExtendedKalmanFilter, {})]
    rows += [(f"particle filter, {n} particles", sm.ParticleFilter, {"particles": n}) for n in (200, 1000)]
    counts = []
    for name, make, options in rows:
        begin = time.process_time()
        counts.append(lost(step, make, RUNS, **options))
        cost = 1e3 * (time.process_time() - begin) / (RUNS * STEPS)
        print(f"{name:<36} lost {counts[-1]:>2} of {RUNS}, {cost:.2f} ms of CPU per step, plant included", flush=True)
    return 0 if counts[0] > 20 and counts[-1] <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
