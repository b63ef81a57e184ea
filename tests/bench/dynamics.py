"""A search along the marionette beside crocoddyl: derivatives and the backward pass, per node.

    python tests/bench/dynamics.py        writes build/bench/dynamics.json

crocoddyl comes with ``pip install "stepmap[bench]"``; where it is missing its row says so. It gets the same tree of 22
joints and inertias through URDF, without the strings, which it does not have in this form: ours are with six strings
and eighteen kinematic coordinates. Rows are {who, work, us}; CPU time, the best of many rounds in turns.

    derivatives    ours: A and B of a step whose next state is known; crocoddyl: calcDiff of dynamics and costs
    curvature      ours: second derivatives contracted with a costate, along a trajectory; crocoddyl has none
    backward       a Riccati recursion: ours with 80 states and 18 inputs, crocoddyl's with 44 and 22
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # a script finds only what is beside it
os.environ["STEPMAP_THREADS"] = "1"

import stepmap as sm  # noqa: E402
from stepmap.optimal.riccati import Quadratic, recursions  # noqa: E402
from stepmap.systems.marionette import Puppet  # noqa: E402
from tests import problems  # noqa: E402

OUTPUT = ROOT / "build" / "bench" / "dynamics.json"
ROUNDS, NODES = 12, 200
Work = tuple[str, str, int, Callable[[], object]]  # who, what, how many of it a call does


def main() -> None:
    works = list(ours())
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        tree = puppet(Path(folder))
        try:
            works += crocoddyl(tree)
        except ImportError as error:
            rows.append({"who": "crocoddyl", "work": f"not installed ({error.name})", "us": None})
    rows = [*measure(works), *rows]
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")
    table = Table(title="a search along the marionette", caption="CPU time per node", caption_justify="left")
    for name in ("who", "work"):
        table.add_column(name, no_wrap=True)
    table.add_column("µs", justify="right")
    for row in rows:
        table.add_row(row["who"], row["work"], "–" if row["us"] is None else f"{row['us']:.1f}")
    Console().print(table)


def measure(works: list[Work]) -> list[dict[str, Any]]:
    """A row for each, the best of all rounds."""
    best = [np.inf] * len(works)
    for _ in range(ROUNDS):
        for i, (_, _, count, call) in enumerate(works):
            begin = time.process_time()
            call()
            best[i] = min(best[i], (time.process_time() - begin) / count)
    return [
        {"who": who, "work": what, "us": round(1e6 * seconds, 2)}
        for (who, what, _, _), seconds in zip(works, best, strict=True)
    ]


def ours() -> Iterator[Work]:
    problem = problems.marionette()
    step, cost = problem.step, problem.cost
    x, u = (rows[: NODES + 1 - i] for i, rows in enumerate(cost.reference))  # type: ignore[attr-defined]
    path = sm.Trajectory(step.dt * np.arange(NODES + 1), x, u)
    z = np.random.default_rng(0).normal(size=(NODES, step.ndx))
    A, B = step.linearize_along(path)
    model = Quadratic(A, B, *cost.weights, copied=step.layout.copied)  # type: ignore[attr-defined]
    yield "stepmap", "derivatives", NODES, lambda: step.linearize_along(path)
    yield "stepmap", "curvature", NODES, lambda: step.curvature_along(path, z)
    yield "stepmap", "backward", NODES, lambda: recursions().backward(model)


def puppet(folder: Path) -> Path:
    """The bodies of the marionette as a URDF."""
    b = sm.Builder("puppet")
    Puppet(b, 0.0).hooks()
    b.gravity((0, 0, -9.8))
    path = folder / "puppet.urdf"
    sm.to_urdf(b.build(), path)
    return path


def crocoddyl(tree: Path) -> Iterator[Work]:
    import crocoddyl as croc
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(tree))
    assert model.nv == 22  # the dynamic coordinates
    state = croc.StateMultibody(model)
    actuation = croc.ActuationModelFull(state)
    costs = croc.CostModelSum(state)
    costs.addCost("x", croc.CostModelResidual(state, croc.ResidualModelState(state, state.zero(), actuation.nu)), 1.0)
    costs.addCost("u", croc.CostModelResidual(state, croc.ResidualModelControl(state, actuation.nu)), 1.0)
    running = croc.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
    node, end = croc.IntegratedActionModelEuler(running, 0.01), croc.IntegratedActionModelEuler(running, 0.0)
    solver = croc.SolverDDP(croc.ShootingProblem(state.zero(), [node] * NODES, end))
    xs, us = [state.zero()] * (NODES + 1), [np.zeros(actuation.nu)] * NODES
    solver.setCandidate(xs, us, False)
    solver.problem.calc(xs, us)
    solver.problem.calcDiff(xs, us)
    yield "crocoddyl", "derivatives", NODES, lambda: solver.problem.calcDiff(xs, us)
    yield "crocoddyl", "backward", NODES, solver.backwardPass


if __name__ == "__main__":
    main()
