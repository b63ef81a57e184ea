"""Identification through events: strings that go slack and are caught again, and a ball that bounces."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import stepmap as sm
from stepmap.identification.begins import CLOSE, begin
from stepmap.identification.identify import prepare
from stepmap.steps.check import difference
from tests.recordings import FINER, held, job_of

BEFORE = np.array([0.0, 0.6])  # robot and length of the string


@pytest.fixture(scope="module")
def job() -> SimpleNamespace:
    step = sm.discretize(sm.systems.get("suspended_mass_string"), 1 / 30)
    first = [0.03, 0.03, 0.005, 0.005, 0.01, 0.01, 0.05, 0.05]
    return job_of(step, [0.0018, 0.0018, 0.0012, 0.0022], first, [2e-4, 2e-4, 1e-3, 1e-3, 2e-4, 2e-4, 0.05, 0.05])


def dropped(job: SimpleNamespace, seed: int, **truth: float) -> tuple[sm.Observed, sm.Trajectory]:
    """Five seconds of a fine plant whose winch lets the mass fall twice, faster than it can."""
    step: sm.VariationalStep = job.step
    t = step.dt * np.arange(1, 151)
    length = 0.6 + 0.15 * np.clip((t - 1.5) / 0.09, 0, 1) + 0.1 * np.clip((t - 3) / 0.06, 0, 1)
    U = np.column_stack([0.15 * np.sin(3.5 * t), length])
    system = step.system.with_parameters(**truth)
    fine = sm.discretize(system, step.dt / FINER)
    pose = {"xm": 0.02, "xr": BEFORE[0], "r": BEFORE[1], "ym": 0.4}
    path = fine.rollout(fine.rest(system.satisfy_constraints(pose, ["xr", "r"])), held(U, BEFORE, 0.0, step.dt))
    Z = np.asarray(system.readings(path.x[::FINER, :4]))
    Z = Z + np.random.default_rng(seed).normal(size=Z.shape) * job.noise.measurement
    guess = step.rest(step.system.satisfy_constraints(pose, ["xr", "r"]))
    return sm.Observed(step.dt, U, Z, before=BEFORE, guess=guess, name=f"drop {seed}"), path


def test_residuals_have_exact_derivatives_through_slack_and_catch(job: SimpleNamespace) -> None:
    run, path = dropped(job, 1, damping=0.02)
    assert {event.kind for event in path.events} == {"release", "impact"}
    task, _, _ = prepare(job, run, ["damping", "height", "delay"], {}, 60)
    assert len(task.segments) == 3
    point = task.start + 0.05 * np.random.default_rng(2).normal(size=task.count)
    exact, numeric = task.jacobian(point), difference(task.residual, point, np.full(len(point), 1e-6))
    # Differences of residuals up to 700 have rounding of 700 · 2e-16 / 1e-6.
    np.testing.assert_allclose(exact, numeric, rtol=0, atol=1e-8 * np.abs(exact).max())


def test_drag_is_found_from_a_string_that_goes_slack(job: SimpleNamespace) -> None:
    """On a string as on a wire only damping/mass can be told, and slack phases change nothing in that."""
    run, _ = dropped(job, 3, damping=0.02)
    fit = sm.identify(job, run, ["mass", "damping", "height", "delay"])
    assert [one.ratio for one in fit.untold] == ["damping/mass"]
    assert abs(fit.values["damping"] - 0.02) < 3 * fit.sigma["damping"] < 0.003
    assert abs(fit.values["height"] - 1.0) < 0.002
    assert abs(fit.values["delay"]) < 0.003  # a release is told at a tick: the map's drops are late by a part of one
    assert fit.status == "converged"


def test_noise_of_a_string_is_found(job: SimpleNamespace) -> None:
    run, _ = dropped(job, 4, damping=0.02)
    noise = sm.identify(job, run, ["damping", "delay"], noise=True).noise
    assert noise is not None
    # Where a motor stands does not last from tick to tick: its process noise is that of its reading.
    np.testing.assert_allclose(noise.measurement[:2], job.noise.measurement[:2], rtol=0.25)


def test_first_states_stay_on_closed_gaps(job: SimpleNamespace) -> None:
    """A guess that is moved off a taut string comes back along it; a slack one stays where it was put."""
    step = job.step
    par, move = step.system.parameter_values, 1e-3 * np.random.default_rng(5).normal(size=step.ndx)
    x = step.rest({"xm": 0.05, "ym": 0.4, "xr": 0.05, "r": 0.6})
    at = begin(step, par, x, move)
    assert abs(step.system.gaps(step.layout.pose(at.x))[0]) < 1e-12
    by_move = difference(lambda d: begin(step, par, x, d).x, move, np.full(step.ndx, 1e-4))
    by_parameters = difference(lambda p: begin(step, p, x, move).x, par, 1e-5 * np.maximum(np.abs(par), 0.1))
    np.testing.assert_allclose(at.by_move, by_move, rtol=0, atol=1e-8)
    np.testing.assert_allclose(at.by_parameters, by_parameters, rtol=0, atol=1e-8)
    slack = step.rest({"xm": 0.05, "ym": 0.4 + 20 * CLOSE, "xr": 0.05, "r": 0.6})
    np.testing.assert_array_equal(begin(step, par, slack, 0 * move).x, slack)


def test_a_restitution_is_found() -> None:
    b = sm.Builder("ball")
    x, z, table = b.coordinate("x", unit="m"), b.coordinate("z", unit="m"), b.coordinate("table", kinematic=True)
    ball = b.world.tx(x).tz(z, name="ball")
    b.mass(ball, 0.2)
    b.gravity((0, 0, -9.81))
    b.contact(ball, b.world.tz(table), restitution=0.6, name="floor")
    b.marker(ball, axes="xz")
    step = sm.discretize(b.build(), 0.02)
    job = job_of(step, [0.002, 0.002], [0.01] * 6, [1e-4] * 6)
    whole = step.parameter_values.copy()
    whole[-1] = 0.75  # the restitution of the last row
    U = 0.02 * np.sin(9 * step.dt * np.arange(1, 61))[:, None]
    first = step.from_velocity({"x": 0.0, "z": 0.4}, {"x": 0.3})
    info, X, _ = step.kernel.rollout(whole, np.array([step.dt]), first, U)
    assert not info.status
    Z = np.asarray(step.system.readings(step.layout.pose(X)))
    Z = Z + np.random.default_rng(1).normal(size=Z.shape) * job.noise.measurement
    fit = sm.identify(job, sm.Observed(step.dt, U, Z, guess=first), ["restitution.floor"])
    assert abs(fit.values["restitution.floor"] - 0.75) < 3 * fit.sigma["restitution.floor"] < 0.02
    assert 0.7 < fit.chi2 < 1.3
