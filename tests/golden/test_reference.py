"""Steps and derivatives against figures of an independent library (data/reference/README.md).

Its Newton solver stopped at a residual of 1e-10, in N s for the momentum equation and m² for the string. A step is
then off by up to 1e-10 divided by the smallest slope: dt/m ≈ 0.8 for the light mass, 1/(2 r) for the string. The
tolerances allow this to add up over a run.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepmap as sm

DATA = Path(__file__).parents[1] / "data" / "reference"
CATALOG: dict[str, Callable[[], sm.System]] = {
    "cart_pendulum": lambda: sm.systems.get("cart_pendulum"),
    "double_pendulum": lambda: sm.systems.get("double_pendulum", actuated=False),
    "planar_mass_dt0.1": lambda: sm.systems.get("suspended_mass", mass=0.1244, damping=0.05),
}
COMPARED = {"cart_pendulum": 1000, "double_pendulum": 200, "planar_mass_dt0.1": 100}  # steps


@dataclass(frozen=True, eq=False)
class Run:
    """A reference run and the step that should repeat it."""

    step: sm.VariationalStep
    steps: int  # that can be compared as one trajectory
    q: np.ndarray
    p: np.ndarray
    u: np.ndarray
    impulses: np.ndarray
    samples: list[dict[str, Any]]

    @property
    def nq(self) -> int:
        return self.step.nd + self.step.nk

    def state(self, q: Any, p: Any) -> np.ndarray:
        """The step does not read v."""
        return self.step.pack(q[: self.step.nd], q[self.step.nd :], p)

    def repeated(self) -> sm.Trajectory:
        return self.step.rollout(self.step.rest(self.q[0]), self.u[: self.steps])


@functools.cache
def load(name: str, source: str) -> Run:
    data = json.loads((DATA / f"{name}.json").read_text())
    system = sm.from_tree(DATA / f"{name}.tree.json") if source == "tree" else CATALOG[name]()
    assert [c.name for c in system.coordinates] == data["configs"]
    q, p, u1, k2, impulses = (np.array(data[key], dtype=float) for key in ("q", "p", "u1", "k2", "lambda1"))
    step = sm.discretize(system, data["dt"], forces="left")
    return Run(step, COMPARED[name], q, p, np.hstack([u1, k2]), impulses, data["samples"])


@pytest.fixture(params=[(name, source) for name in CATALOG for source in ("tree", "catalog")], ids="-".join)
def run(request: pytest.FixtureRequest) -> Run:
    return load(*request.param)


def test_trajectory_from_rest(run: Run) -> None:
    path, last = run.repeated(), run.steps + 1
    np.testing.assert_allclose(path.x[:, : run.nq], run.q[:last], rtol=0, atol=1e-8)
    # A residual of 1e-10 N s a step, in the worst case all of one sign over 1000 steps.
    momentum = path.x[:, run.nq : run.nq + run.step.nd]
    np.testing.assert_allclose(momentum, run.p[:last], rtol=0, atol=1e-7)


def test_every_single_step(run: Run) -> None:
    """From each reference state one step, so that errors do not add up; all steps, also the chaotic ones."""
    for k, u in enumerate(run.u):
        after = run.step.step(run.state(run.q[k], run.p[k]), u).x
        np.testing.assert_allclose(after[: run.nq], run.q[k + 1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("source", ["tree", "catalog"])
def test_multipliers_are_the_string_tension(source: str) -> None:
    """tension = 2 r λ/dt, with the impulse λ of h = d² − r² and r at the start of the step."""
    run = load("planar_mass_dt0.1", source)
    tension = 2 * run.q[:-1, 3:] * run.impulses / run.step.dt
    # λ is off by 1e-10 and, like p, by m/dt ≈ 1.2 times the error of q, 1e-9; 2 r/dt is about 20/s.
    np.testing.assert_allclose(run.repeated().multipliers, tension, rtol=0, atol=3e-8)


def test_first_derivatives(run: Run) -> None:
    blocks, columns = outputs(run), inputs(run)
    for sample in run.samples:
        at = run.step.linearize(*point(run, sample))
        ours = np.hstack([at.A, at.B])
        for out, rows in blocks.items():
            theirs = {name: np.array(sample["deriv1"][f"{out}_d{name}"], dtype=float) for name in columns}
            scale = max(np.abs(block).max(initial=0.0) for block in theirs.values())
            for name, block in theirs.items():
                mine = ours[rows, columns[name]]
                np.testing.assert_allclose(mine, block.reshape(mine.shape), rtol=0, atol=1e-7 * scale)


def test_contracted_second_derivatives(run: Run) -> None:
    blocks, columns = outputs(run), inputs(run)
    for seed, sample in enumerate(run.samples):
        x, u = point(run, sample)
        z = np.random.default_rng(seed).normal(size=run.step.nx)
        z[run.step.nd : run.nq] = z[run.nq + run.step.nd :] = 0.0  # rho₂ and v₂ are linear
        bend = run.step.curvature(x, u, z)
        ours = np.block([[bend.xx, bend.xu], [bend.xu.T, bend.uu]])
        pairs = [(a, b) for i, a in enumerate(columns) for b in list(columns)[i:]]
        theirs = {pair: contracted(sample, blocks, z, *pair) for pair in pairs}
        scale = max(np.abs(block).max(initial=0.0) for block in theirs.values())
        for (a, b), block in theirs.items():
            mine = ours[columns[a], columns[b]]
            np.testing.assert_allclose(mine, block.reshape(mine.shape), rtol=0, atol=1e-6 * scale)


def contracted(sample: dict[str, Any], blocks: dict[str, slice], z: np.ndarray, a: str, b: str) -> np.ndarray:
    total = 0.0
    for out, rows in blocks.items():
        tensor = np.array(sample["deriv2"][f"{out}_d{a}d{b}"], dtype=float)
        if not tensor.size:
            return np.zeros(0)
        total = total + tensor @ z[rows]
    return np.asarray(total)


def outputs(run: Run) -> dict[str, slice]:
    return {"q2": slice(0, run.step.nd), "p2": slice(run.nq, run.nq + run.step.nd)}


def inputs(run: Run) -> dict[str, slice]:
    """Columns of [A B] by the names the data use."""
    nx, forces = run.step.nx, len(run.step.system.inputs)
    return {
        "q1": slice(0, run.nq),
        "p1": slice(run.nq, run.nq + run.step.nd),
        "u1": slice(nx, nx + forces),
        "k2": slice(nx + forces, nx + run.step.nu),
    }


def point(run: Run, sample: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    u = np.concatenate([np.array(sample["u1"], dtype=float), sample["q2"][run.step.nd :]])
    return run.state(sample["q1"], sample["p1"]), u


# the marionette -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def puppets() -> tuple[sm.System, sm.System]:
    return sm.systems.get("marionette"), sm.from_tree(DATA / "puppet.tree.json")


def test_marionette_of_the_catalog_is_the_one_of_the_data(puppets: tuple[sm.System, sm.System]) -> None:
    ours, theirs = puppets
    assert [(c.name, c.kinematic) for c in ours.coordinates] == [(c.name, c.kinematic) for c in theirs.coordinates]
    assert ours.constraint_names == theirs.constraint_names
    rng = np.random.default_rng(0)
    q, v = rng.uniform(-1, 1, (2, 5, len(ours.coordinates)))
    # Sums of some ten terms of up to 100 J in another order.
    for ask in ("mass_matrix", "potential_energy", "gaps"):
        np.testing.assert_allclose(getattr(ours, ask)(q), getattr(theirs, ask)(q), rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.kinetic_energy(q, v), theirs.kinetic_energy(q, v), rtol=1e-13)


def test_marionette_hangs_as_described(puppets: tuple[sm.System, sm.System]) -> None:
    """Each robot straight above its hook in the plane z = 2, the string as long as that asks for."""
    ours, theirs = puppets
    pose = {c.name: c.start for c in ours.coordinates}
    start = {"torso_rx": -0.05, "torso_tz": 0.0, "lelbow_rx": 1.57, "relbow_rx": 1.57}
    start |= dict.fromkeys(("lhip_rx", "rhip_rx"), math.pi / 2 - 0.6)
    start |= dict.fromkeys(("lknee_rx", "rknee_rx"), -math.pi / 2 + 0.6)
    for name in (c.name for c in ours.dynamic):
        assert pose[name] == start.get(name, 0.0)
    where = dict(zip(theirs.frame_names, theirs.positions(theirs.configuration(pose)), strict=True))
    for string in ours.constraint_names:
        hook = where[f"{string}_hook"]
        hung = [pose[f"{string}-{what}"] for what in ("x", "y", "length")]
        np.testing.assert_allclose(hung, [hook[0], hook[1], 2.0 - hook[2]], rtol=0, atol=1e-15)


def test_both_marionettes_move_alike(puppets: tuple[sm.System, sm.System]) -> None:
    ours, theirs = (sm.discretize(system, 0.01) for system in puppets)
    pose = puppets[0].configuration({})
    x = ours.rest(pose)
    lift = np.tile(pose[ours.nd :], (50, 1))
    lift[:, 2::3] -= 0.02 * np.sin(np.linspace(0.0, 1.0, 50))[:, None]  # all strings wound up a little
    # Rounding, carried along for 50 steps of a damped mechanism.
    np.testing.assert_allclose(ours.rollout(x, lift).x, theirs.rollout(theirs.rest(pose), lift).x, rtol=0, atol=1e-10)
