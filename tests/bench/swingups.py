"""Swing-ups from a lazy guess with hard limits: held, iterations, CPU time; then with torque that is not as planned.

    python tests/bench/swingups.py [--starts 20] [--only acrobot,furuta] [--quick]

Every start is hanging, each angle off by 0.1 rad (standard deviation). *Held*: from the plan's last state the steady
regulator, clamped to the motor's limit, is within 0.01 of the goal after 10 s. The second table has IPOPT, from the
result, beside the search. The last one runs each plan with the torque 5 and 10 % too weak and too strong from starts
0.02 rad off, 40 runs, under the plan's gains and the motor's clamp.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # a script finds only what is beside it

import stepmap as sm
from stepmap.optimal.goals.natural import natural_weights
from stepmap.optimal.goals.reach import NUDGE, Task, reach
from stepmap.optimal.goals.standing import holds, standing
from stepmap.steps.limits import InputBounds
from tests import nlp
from tests.swingups import CASES, SwingUp

AWAY, PUSHED = 0.1, 0.02  # rad, standard deviations of starts
GAINS = (0.9, 0.95, 1.05, 1.1)
AFTER = 10.0  # s after the plan's end
USES = (1.0, 0.9, 0.75)  # of the limit, by a plan


def task_of(case: SwingUp, pose: np.ndarray, use: float = 1.0) -> Task:
    """From rest at a pose to the goal, the plan using a part of the motor's limit."""
    step = case.step
    goal = standing(step, case.goal)
    limits = sm.InputLimits(-use * case.limit, use * case.limit)
    weights = natural_weights(step, *goal, limits.on(step), case.steps * case.dt)
    return Task(step, step.rest(pose), goal, weights, case.steps, limits)


def motor(case: SwingUp) -> InputBounds:
    """All that there is, which a law may use."""
    return sm.InputLimits(-case.limit, case.limit).on(case.step)


def starts(case: SwingUp, count: int, sigma: float = AWAY) -> np.ndarray:
    poses = sigma * np.random.default_rng(1).normal(size=(count, case.step.nd))
    poses[0] = 0.0
    return poses


def campaign(case: SwingUp, count: int) -> str:
    """One row of the first table."""
    held, stretched, cpu, iterations, worst = 0, 0, [], [], 0.0
    for pose in starts(case, count):
        task = task_of(case, pose)
        begun = time.process_time()
        found = reach(task)
        cpu.append(time.process_time() - begun)
        iterations.append(sum(entry.length > 0 for entry in found.history))
        bounds = motor(case)
        good = found.status.ok and holds(task.step, found.trajectory.x[-1], task.goal, task.law, bounds)
        held += good
        stretched += found.trajectory.steps > case.steps
        worst = max(worst, float(np.abs(found.trajectory.u).max() / case.limit - 1))
    middle = float(np.median(cpu))
    return (
        f"{case.name:16s} {held:3d}/{count:<3d} {np.median(iterations):6.0f} {max(iterations):6d} {middle:8.2f}"
        f" {max(cpu):8.2f} {stretched:6d} {worst:10.1e}"
    )


def beside_ipopt(case: SwingUp) -> str:
    """One row of the table of optima: the search without the end as a condition, and IPOPT from its result."""
    task = task_of(case, np.zeros(case.step.nd))
    held = np.full((case.steps, case.step.nu), NUDGE * case.limit)
    still = sm.Trajectory(case.dt * np.arange(case.steps + 1), np.tile(task.start, (case.steps + 1, 1)), held)
    problem = task.problem(case.steps, still)
    found = sm.optimize(problem, max_iterations=500)
    at = int((np.abs(found.trajectory.u) == case.limit).sum())
    taken = sum(entry.length > 0 for entry in found.history)
    theirs = nlp.solve(problem, found.trajectory)
    slopes = " ".join(f"{-entry.slope:8.0e}" for entry in found.history[-4:])
    return f"{case.name:16s} {taken:6d} {at:6d} {found.cost:12.6f} {theirs.cost / found.cost - 1:10.1e}  {slopes}"


def wrong_torque(case: SwingUp, use: float, runs: int = 40) -> int:
    """Runs of the plan that are up and held, its torque wrong by each of GAINS in turn."""
    task = task_of(case, np.zeros(case.step.nd), use)
    plan = reach(task).plan
    step, bounds = task.step, motor(case)
    poses = starts(case, runs, PUSHED)
    return sum(_runs(step, plan, task, GAINS[i % len(GAINS)], poses[i], bounds) for i in range(runs))


def _runs(
    step: sm.VariationalStep, plan: sm.Plan, task: Task, gain: float, pose: np.ndarray, bounds: InputBounds
) -> bool:
    """Whether it is at the goal some time after the plan's end, the last row kept."""
    x, found = step.rest(pose), plan.trajectory
    for k in range(found.steps + int(AFTER / step.dt)):
        i = min(k, found.steps - 1)
        at = found.x[k] if k <= found.steps else found.x[-1]
        u = bounds.clamp(found.u[i] - plan.gains[i] @ (x - at), x)
        try:
            x = step.step(x, gain * u).x
        except sm.ConvergenceError:
            return False
        if not np.abs(x).max() < 1e6:
            return False
    return bool(np.abs(step.layout.pose(x - task.goal.x)).max() < 0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--quick", action="store_true", help="Leave out the second table.")
    options = parser.parse_args()
    names = options.only.split(",")
    print("system           held     median   most   CPU s     most  longer   over limit")
    for name in names:
        case = CASES[name]
        case.step.curvature(case.step.rest({}), np.zeros(case.step.nu), np.zeros(case.step.nx))  # compiled
        print(campaign(case, options.starts), flush=True)
    print("\nfrom hanging      steps  at limit       cost      IPOPT  last slopes")
    for name in names:
        print(beside_ipopt(CASES[name]), flush=True)
    if options.quick:
        return
    print("\nup and held of 40 runs, torque 5 and 10 % off\nplan uses         " + " ".join(f"{u:>6.0%}" for u in USES))
    for name in names:
        print(f"{name:16s}  " + " ".join(f"{wrong_torque(CASES[name], use):6d}" for use in USES), flush=True)


if __name__ == "__main__":
    main()
