"""A marionette on ball joints beside the one with Euler angles: the same bodies, wires and motion, measured in turns.

    python tests/bench/balls.py

Microseconds of CPU time per call and per step of a rollout, the best of many rounds; medians of the ratios of rounds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

import stepmap as sm
from tests.bench.core import DT, STEPS, Subject, motion, pose

NAMES = ("marionette", "marionette_balls")
SECONDS = 8.0  # of CPU


def calls(name: str) -> dict[str, tuple[int, Callable[[], object]]]:
    """Work by name: how often it is done, and what does it."""
    step = sm.discretize(sm.systems.get(name), DT)
    path = motion(step, step.rest(pose(Subject(name), step.system)))
    x, u = path.x[:-1], path.u
    some = range(STEPS // 4, STEPS, STEPS // 30)
    z = np.linspace(-1.0, 1.0, step.ndx)
    return {
        "step": (len(some), lambda: [step.step(x[k], u[k]) for k in some]),
        "A and B": (len(some), lambda: [step.linearize(x[k], u[k]) for k in some]),
        "curvature": (len(some), lambda: [step.curvature(x[k], u[k], z) for k in some]),
        "step of a rollout": (STEPS, lambda: step.rollout(path.x[0], u)),
        "A and B along a path": (STEPS, lambda: step.linearize_many(x, u)),
    }


def main() -> None:
    both = [calls(name) for name in NAMES]
    times: dict[str, list[tuple[float, ...]]] = {work: [] for work in both[0]}
    begin = time.process_time()
    while time.process_time() - begin < SECONDS:
        for work, rounds in times.items():
            rounds.append(tuple(1e6 * once(made[work][1]) / made[work][0] for made in both))
    print(f"{'CPU µs':22} {'Euler angles':>13} {'balls':>8} {'ratio':>7}")
    for work, rounds in times.items():
        taken = np.array(rounds)
        angles, balls = taken.min(axis=0)
        print(f"{work:22} {angles:13.1f} {balls:8.1f} {np.median(taken[:, 1] / taken[:, 0]):7.2f}")


def once(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


if __name__ == "__main__":
    main()
