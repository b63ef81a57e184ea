"""The marionette beside other libraries: derivatives along a trajectory, curvature, and the backward pass of a search.

    python tests/bench/dynamics.py        writes build/bench/dynamics.json

The peers are MuJoCo, pinocchio and crocoddyl (``pip install "stepmap[bench]"``); where one is missing its rows say so.
They get the same tree of 22 joints and inertias through URDF, without the strings, which they do not have in this form:
what is said for ours includes six strings and eighteen kinematic coordinates. Rows are {who, work, us}; CPU time, the
best of many rounds in turns.

    derivatives    ours: A and B of a step whose next state is known; pinocchio: computeABADerivatives, in continuous
                   time; MuJoCo: mjd_transitionFD, centred differences of its implicit step
    curvature      ours: second derivatives contracted with a costate, along a trajectory; nobody else has them
    backward       a Riccati recursion per node: ours with 80 states and 18 inputs, crocoddyl's with 44 and 22
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
# MuJoCo wants every moving body to have a mass; the tree has joints with nothing between them.
MUJOCO = '<mujoco><compiler boundmass="1e-6" boundinertia="1e-6" balanceinertia="true"/></mujoco>'
Work = tuple[str, str, int, Callable[[], object]]  # who, what, how many of it a call does


def main() -> None:
    works = list(ours())
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        tree = puppet(Path(folder))
        for who, made in (("pinocchio", pinocchio), ("mujoco", mujoco), ("crocoddyl", crocoddyl)):
            try:
                works += made(tree)
            except ImportError as error:
                rows.append({"who": who, "work": f"not installed ({error.name})", "us": None})
    rows = [*measure(works), *rows]
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")
    table = Table(
        title="marionette beside other libraries", caption="CPU time per point or node", caption_justify="left"
    )
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
    yield "stepmap", "rollout", NODES, lambda: step.rollout(x[0], u)
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


def pinocchio(tree: Path) -> Iterator[Work]:
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(tree))
    assert model.nv == 22  # the marionette's dynamic coordinates
    data, rng = model.createData(), np.random.default_rng(0)
    q, v, tau = pin.neutral(model), 0.1 * rng.normal(size=model.nv), np.zeros(model.nv)
    many = range(NODES)
    yield "pinocchio", "forward dynamics", NODES, lambda: [pin.aba(model, data, q, v, tau) for _ in many]
    yield "pinocchio", "derivatives", NODES, lambda: [pin.computeABADerivatives(model, data, q, v, tau) for _ in many]


def mujoco(tree: Path) -> Iterator[Work]:
    import mujoco as mj

    text = tree.read_text().replace("</robot>", f"{MUJOCO}</robot>")
    model = mj.MjModel.from_xml_string(text)
    model.opt.integrator = mj.mjtIntegrator.mjINT_IMPLICIT
    model.opt.timestep = 0.01
    data, count = mj.MjData(model), NODES // 10
    data.qvel[:] = 0.1 * np.random.default_rng(0).normal(size=model.nv)
    A, B = np.zeros((2 * model.nv, 2 * model.nv)), np.zeros((2 * model.nv, model.nu))

    def slopes() -> None:
        for _ in range(count):
            mj.mjd_transitionFD(model, data, 1e-6, True, A, B, None, None)

    yield "mujoco", "implicit step", NODES, lambda: mj.mj_step(model, data, NODES)
    yield "mujoco", "derivatives", count, slopes


def crocoddyl(tree: Path) -> Iterator[Work]:
    import crocoddyl as croc
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(tree))
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
    yield "crocoddyl", "calcDiff", NODES, lambda: solver.problem.calcDiff(xs, us)
    yield "crocoddyl", "backward", NODES, solver.backwardPass


if __name__ == "__main__":
    main()
