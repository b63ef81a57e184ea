"""Results have the same bits whatever processor the C is compiled for: steps, derivatives, rollouts and searches."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import stepmap as sm
from stepmap.arrays import product, solved
from stepmap.graph import compiler
from stepmap.optimal import riccati
from stepmap.steps.kernels.compiled import CompiledKernel

MACHINES = ("x86-64", "x86-64-v3", "native")  # of vectors of two, four and as many numbers as there are here
SYSTEMS = {"suspended_mass": "x_r", "cart_pendulum": None, "planar_arm": None}
STEPS = 30

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for x86-64 processors"),
    pytest.mark.skipif(compiler.find() is None, reason="no C compiler"),
]


@pytest.fixture
def fresh() -> Iterator[None]:
    """The recursions are loaded once per process: those of another processor must not stay."""
    riccati.recursions.cache_clear()
    yield
    riccati.recursions.cache_clear()


def results(name: str) -> dict[str, list[np.ndarray]]:
    """What a system's map and searches on it give, in libraries made for $STEPMAP_MARCH."""
    system = sm.systems.get(name)
    step = sm.discretize(system, 0.01)
    assert isinstance(step.kernel, CompiledKernel)
    pose = system.satisfy_constraints(sm.systems.example(name), fixed=[c.name for c in system.kinematic])
    x = step.rest(pose)
    hold = step.layout.hold(x)
    U = np.tile(hold, (STEPS, 1))
    U[:, 0] += 0.05 * np.linspace(0.0, 1.0, STEPS) ** 2
    path = step.rollout(x, U)
    z = np.linspace(-1.0, 1.0, step.ndx)
    starts = x + 1e-3 * np.random.default_rng(1).normal(size=(9, step.nx)) * (np.arange(step.nx) >= step.layout.nq)
    assert (
        step.kernel.lanes is not None
    )  # from here on many points go in lanes, as many as the processor's vectors have
    many = step.rollout_many(starts, U)
    weights = np.eye(step.ndx), 0.1 * np.eye(step.nu)
    cost = sm.TrackingCost(*weights, weights[0], np.tile(x, (STEPS + 1, 1)), U)
    found = sm.optimize(sm.Problem(step, cost, start=path.x[5], guess=sm.Trajectory(path.t, path.x, U)))
    runs = np.repeat(system.readings(step.layout.pose(path.x[1:]))[None] + 1e-3, 3, axis=0)
    ekf = sm.ExtendedKalmanFilter(step, 1e-6 * weights[0], 1e-4 * np.eye(runs.shape[-1]))
    filtered = ekf.run(ekf.start(x, 1e-6 * weights[0]), U, runs)
    assert ekf._compiled is not None
    return {
        "filter": list(filtered[:2]),
        "step": list(step.step(path.x[-1], hold)[:2]),
        "A and B": list(step.linearize(path.x[-1], hold)),
        "curvature": list(step.curvature(path.x[-1], hold, z)),
        "rollout": [path.x, path.multipliers],
        "many": [many.x, many.multipliers, *step.linearize_many(starts, U[: len(starts)])],
        "A and B along": list(step.linearize_along(path)),
        "gains": [sm.lqr(step, path, *weights, weights[0])],
        "search": [found.trajectory.x, found.trajectory.u, found.gains, np.array(found.cost)],
    }


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", SYSTEMS)
def test_bits_do_not_depend_on_the_processor_compiled_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for machine in MACHINES:
        monkeypatch.setenv("STEPMAP_MARCH", machine)
        riccati.recursions.cache_clear()
        found[machine] = {
            what: hashlib.sha256(b"".join(np.ascontiguousarray(e).tobytes() for e in arrays)).hexdigest()
            for what, arrays in results(name).items()
        }
    for machine in MACHINES[1:]:
        assert found[machine] == found[MACHINES[0]], machine


REGULATOR = """
import hashlib
import numpy as np
from stepmap.optimal.lqr import riccati
rng = np.random.default_rng(0)
A, B = np.eye(9) + 0.05 * rng.normal(size=(9, 9)), rng.normal(size=(9, 2))
print(hashlib.sha256(riccati(A, B, np.eye(9), np.eye(2)).tobytes()).hexdigest())
"""


def test_regulators_do_not_depend_on_the_processor_that_openblas_takes_for_its_own() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-c", REGULATOR],
            env={**os.environ, "OPENBLAS_CORETYPE": core},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for core in ("Prescott", "Haswell")
    ]
    assert told[0] == told[1] != ""


def test_products_and_solutions_are_those_of_numpy() -> None:
    rng = np.random.default_rng(1)
    A, B, C = rng.normal(size=(6, 6)), rng.normal(size=(6, 4)), rng.normal(size=(4, 3))
    np.testing.assert_allclose(product(A, B, C), A @ B @ C, rtol=0, atol=1e-13)
    A[0, 0] = 0.0  # rows have to change places
    np.testing.assert_allclose(solved(A, B), np.linalg.solve(A, B), rtol=0, atol=1e-11)
    with pytest.raises(np.linalg.LinAlgError):
        solved(np.zeros((2, 2)), np.eye(2))


def test_the_processor_is_part_of_a_library_s_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    for machine in MACHINES:
        monkeypatch.setenv("STEPMAP_MARCH", machine)
        names.add(compiler.identity())
    assert len(names) == len(MACHINES)
