"""Filters over whole runs: the two calls over and over, and the same bits alone, in a batch and in threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap.estimate import Belief, FilterRuns
from stepmap.graph import compiler
from stepmap.steps.kernels import shares

STEPS = 40
needs_compiler = pytest.mark.skipif(compiler.find() is None, reason="no C compiler")


def study(name: str, runs: int, **options: Any) -> tuple[sm.ExtendedKalmanFilter, Belief, np.ndarray, np.ndarray]:
    """A filter, first beliefs, inputs, and measurements some of which are missing or far off."""
    system = sm.systems.get(name)
    step = sm.VariationalStep(system, 1 / 30)
    rng = np.random.default_rng(3)
    pose = system.satisfy_constraints(sm.systems.example(name), fixed=[c.name for c in system.kinematic])
    x = step.rest(pose)
    U = np.tile(step.layout.hold(x), (STEPS, 1))
    U[:, 0] += 0.02 * np.sin(0.3 * np.arange(STEPS))
    path = step.rollout(x, U)
    channels = len(system.sensor_channels)
    Z = system.readings(step.layout.pose(path.x[1:])) + 5e-3 * rng.normal(size=(runs, STEPS, channels))
    Z[rng.random(Z.shape) < 0.1] = np.nan
    Z[rng.random(Z.shape) < 0.02] += 0.5
    B = step.linearize(x, U[0]).B
    Q = 1e-6 * B @ B.T + 1e-9 * np.eye(step.ndx)
    ekf = sm.ExtendedKalmanFilter(step, Q, np.diag(np.linspace(1e-5, 3e-5, channels)), gate=4.0, **options)
    return ekf, ekf.start(np.tile(x, (runs, 1)), 1e-6 * np.eye(step.ndx)), U, Z


def arrays(found: FilterRuns) -> list[np.ndarray]:
    assert found.innovation is not None
    return [found.x, found.P, *found.innovation[:4]]


@needs_compiler
@pytest.mark.parametrize("name", ["suspended_mass", "cart_pendulum"])
def test_compiled_runs_are_the_two_calls_over_and_over(name: str) -> None:
    ekf, first, U, Z = study(name, 5)
    assert ekf._compiled is not None
    ours = arrays(ekf.run(first, U, Z, covariances=True, innovations=True))
    theirs = arrays(ekf._looped_run(first.x, first.P, U, Z, True, True))
    for one, other in zip(ours[:4], theirs[:4], strict=True):
        # The same operations in another order: some rounding errors of 40 steps, relative to the largest entry.
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11 * np.abs(other).max())
    for one, other in zip(ours[4:], theirs[4:], strict=True):
        assert (one == other).all()
    assert ours[5].any()  # something was outside the gate
    assert not ours[4].all()


@needs_compiler
def test_a_run_has_the_same_bits_alone_in_a_batch_and_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    ekf, first, U, Z = study("suspended_mass", 11)
    batch = ekf.run(first, U, Z, covariances=True, innovations=True)
    for i in (0, 7, 10):
        alone = ekf.run(Belief(first.x[i], first.P[i]), U, Z[i], covariances=True, innovations=True)
        for one, other in zip(arrays(alone), arrays(batch), strict=True):
            assert one.tobytes() == other[i].tobytes()
    monkeypatch.setattr(shares, "WORTH", 1)
    shares.threads.cache_clear()
    monkeypatch.setenv("STEPMAP_THREADS", "3")
    own = np.repeat(U[None], 11, axis=0)  # inputs of each run's own
    threads = ekf.run(first, own, Z, covariances=True, innovations=True)
    shares.threads.cache_clear()
    for one, other in zip(arrays(threads), arrays(batch), strict=True):
        assert one.tobytes() == other.tobytes()
    assert ekf.run(first, U, Z).P.tobytes() == batch.P[:, -1].tobytes()
    assert first.x.tobytes() == np.tile(first.x[0], (11, 1)).tobytes()  # what was given stays as it was


@pytest.mark.parametrize("options", [{"joseph": True}, {"constraint_projection": False}])
def test_what_is_not_compiled_is_looped(options: dict[str, bool]) -> None:
    ekf, first, U, Z = study("suspended_mass", 3, **options)
    full = replace(ekf, measurement=ekf.measurement + 1e-7)
    for one in (ekf, full):
        assert (one._compiled is None) == (one is full or "joseph" in options)
        found = one.run(first, U, Z)
        belief = first
        for k in range(STEPS):
            belief, _ = one.update(one.predict(belief, U[k]), Z[:, k])
        np.testing.assert_allclose(found.x[:, -1], belief.x, rtol=0, atol=1e-11)
        np.testing.assert_allclose(found.P, belief.P, rtol=0, atol=1e-14)


def test_shapes_that_do_not_go_together_are_refused() -> None:
    ekf, first, U, Z = study("cart_pendulum", 2)
    for u, z in ((U[:-1], Z), (U, Z[..., :-1]), (U, np.zeros((5, STEPS, Z.shape[-1]))), (U[0], Z[0, 0])):
        with pytest.raises(sm.ShapeError, match="z"):
            ekf.run(first, u, z)
