"""Planning in two scenes from 20 seeds each: how many reach their goals, CPU time, extensions per second.

    python tests/bench/planner.py

CPU time is that of the whole plan: the tree, smoothing to rest, and gains. Clearances are judged by coal, and stored
inputs are run again. Beside it the expansive-space tree of OMPL on the same model and the same test of validity, with
a propagator in Python, where OMPL is installed (pip install ompl). Writes build/bench/planner.json; exit code 1 where a
figure misses what is asked.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from stepmap.optimal.planner.tree import Tree
from tests.scenes import Scene, planar, spatial

ROOT = Path(__file__).resolve().parents[2]
SEEDS, ASIDE, SECONDS = 20, 100_000, 3.0
RATE, RATIO, MEDIAN, WORST = 20_000, 7.0, 0.3, 1.0  # what is asked


def main() -> int:
    rows = [measured(make()) | {"scene": make.__name__} for make in (planar, spatial)]
    for row in rows:
        print(
            f"{row['scene']}: {row['reached']} of {SEEDS} reached, {row['resting']} end at rest, plan with gains "
            f"median {row['median_s']:.3f} s, worst {row['worst_s']:.3f} s of CPU, its tree {row['tree_s']:.2f} s, "
            f"least distance {row['room_mm']:.1f} mm (coal), inputs {'replay' if row['replays'] else 'DO NOT REPLAY'}\n"
            f"  {row['rate']:.0f} extensions per second, {_beside(row)}",
            flush=True,
        )
    out = ROOT / "build" / "bench" / "planner.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0 if all(map(good, rows)) else 1


def good(row: dict[str, Any]) -> bool:
    quick = row["median_s"] <= MEDIAN and row["worst_s"] <= WORST and row["rate"] >= RATE
    faster = row["ompl_rate"] is None or row["rate"] >= RATIO * row["ompl_rate"]
    return bool(row["reached"] == SEEDS and quick and faster and row["replays"] and row["room_mm"] >= 0)


def measured(scene: Scene) -> dict[str, Any]:
    times, trees, reached, resting, room, replays = [], [], 0, 0, np.inf, True
    assert scene.plan(99).plan.trajectory.steps  # compiles
    for seed in range(SEEDS):
        begin = time.process_time()
        found = scene.plan(seed)
        trees.append(time.process_time() - begin)
        smooth = found.plan.trajectory
        times.append(time.process_time() - begin)
        ends = [found.task.reached(path.x[-1]) for path in (found.trajectory, smooth)]
        reached += bool(found.status.ok and all(ends))
        resting += found.rest
        for path in (found.trajectory, smooth):
            room = min(room, scene.room(path.x))
            again = scene.step.rollout(path.x[0], path.u)
            replays &= bool(np.array_equal(again.x, path.x))
    return {
        "reached": reached,
        "resting": resting,
        "median_s": float(np.median(times)),
        "worst_s": max(times),
        "tree_s": float(np.median(trees)),
        "room_mm": 1e3 * room,
        "replays": replays,
        "rate": own_rate(scene),
        "ompl_rate": ompl_rate(scene) if importlib.util.find_spec("ompl") else None,
    }


def endless(scene: Scene) -> Tree:
    """A tree whose goal is hardly ever reached, so that rates are those of long searches."""
    return Tree(scene.task(tolerance=1e-9), np.random.default_rng(0))


def own_rate(scene: Scene) -> float:
    tree = endless(scene)
    begin = time.process_time()
    while time.process_time() - begin < SECONDS / 2 and tree.extensions < ASIDE:
        tree.extend()
    return tree.extensions / (time.process_time() - begin)


def ompl_rate(scene: Scene) -> float:
    """Extensions per second of OMPL's EST with the same extensions and the same test of validity."""
    from ompl import base, control, util

    util.setLogLevel(util.LogLevel.LOG_WARN)
    tree = endless(scene)
    task, step = tree.task, tree.task.step
    n, nk, count = step.nx, step.nk, 0
    states = base.RealVectorStateSpace(n)
    states.setBounds(_bounds(base, n, -20.0, 20.0))
    controls = control.RealVectorControlSpace(states, nk)
    limits = base.RealVectorBounds(nk)
    for i, rate in enumerate(task.rate):
        limits.setLow(i, -float(rate))
        limits.setHigh(i, float(rate))
    controls.setBounds(limits)
    setup = control.SimpleSetup(controls)

    def propagate(state: Any, wanted: Any, duration: float, result: Any) -> None:
        nonlocal count
        count += 1
        x = np.array([[state[i] for i in range(n)]])
        U = tree.inputs_of(x, np.array([[wanted[i] for i in range(nk)]]), np.zeros((1, 0)))
        found = step.rollout_many(x, U, strict=False)
        valid = found.steps[0] == U.shape[1] and task.valid(found.x[:, 1:], found.multipliers)[0]
        for i, value in enumerate(found.x[0, -1] if valid else np.full(n, 1e3)):
            result[i] = float(value)

    setup.setStatePropagator(propagate)
    information = setup.getSpaceInformation()
    setup.setStateValidityChecker(lambda state: abs(state[0]) < 100.0)
    information.setPropagationStepSize(10 * step.dt)
    information.setMinMaxControlDuration(1, 1)
    begin_at, goal = states.allocState(), states.allocState()
    target = np.array(task.start)
    target[task.places] = task.goal
    for i in range(n):
        begin_at[i], goal[i] = float(task.start[i]), float(target[i])
    setup.setStartAndGoalStates(begin_at, goal, 1e-6)
    setup.setPlanner(control.EST(information))
    begin = time.process_time()
    setup.solve(SECONDS)
    return count / (time.process_time() - begin)


def _bounds(base: Any, n: int, low: float, high: float) -> Any:
    made = base.RealVectorBounds(n)
    made.setLow(low)
    made.setHigh(high)
    return made


def _beside(row: dict[str, Any]) -> str:
    if row["ompl_rate"] is None:
        return "OMPL is not installed (pip install ompl)"
    return f"OMPL {row['ompl_rate']:.0f}, {row['rate'] / row['ompl_rate']:.1f} times as many"


if __name__ == "__main__":
    sys.exit(main())
