"""Identification: runs of finer plants with known parameters, delays and biases give them back, with honest sigmas."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.identification import check
from stepmap.identification.fit import solve
from stepmap.identification.identify import prepare
from stepmap.steps.check import difference
from tests.pages import ROOT
from tests.recordings import balanced, hanging, job_of

DRAG = {"mass": 0.12, "damping": 0.02}
TRUTH = 0.02 / 0.12  # 1/s
CART = {"cart_mass": 11.0, "mass": 1.2, "length": 1.02, "damping": 0.05}


@pytest.fixture(scope="module")
def job() -> jobs.Job:
    return jobs.load(ROOT / "examples" / "suspended_mass.toml")


@pytest.fixture(scope="module")
def plan(job: jobs.Job) -> sm.Trajectory:
    return job.solve().plan.trajectory


@pytest.fixture(scope="module")
def run(job: jobs.Job, plan: sm.Trajectory) -> sm.Observed:
    return hanging(plan, job, 1, **DRAG)


@pytest.fixture(scope="module")
def cart() -> SimpleNamespace:
    return upright("held")


def upright(forces: Literal["held", "left"]) -> SimpleNamespace:
    """A cart with encoders of 0.1 mm and 0.2 mrad."""
    step = sm.discretize(sm.systems.get("cart_pendulum"), 0.02, forces=forces)
    return job_of(step, [1e-4, 2e-4], [0.02, 0.02, 0.3, 0.1], [1e-5, 1e-5, 1e-4, 1e-4])


def test_what_cannot_be_told_apart_is_said_before_anything_is_solved(job: jobs.Job, run: sm.Observed) -> None:
    """Mass cancels: of mass and drag only their ratio is in the motion."""
    found = check(job, run, ["mass", "damping"])
    assert found.told == ("damping",)
    (one,) = found.untold
    assert one.names == ("mass", "damping")
    assert one.ratio == "damping/mass"
    assert "--hold mass=0.1" in str(one)
    fit = sm.identify(job, run, ["mass", "damping"])
    assert fit.values["mass"] == 0.1
    assert "mass" not in fit.sigma
    value, sigma = fit.ratios["damping/mass"]
    assert abs(value / TRUTH - 1) < 0.05
    assert sigma / TRUTH < 0.03
    with pytest.raises(sm.ModelError, match="only damping/mass"):
        fit.require()
    held = sm.identify(job, run, ["damping"], hold={"mass": 0.12}).require()
    assert abs(held.values["damping"] - 0.02) < 3.5 * held.sigma["damping"]
    assert held.system.parameter_values[:3].tolist() == [0.12, 9.81, held.values["damping"]]


def test_an_input_gain_shares_a_factor_with_masses(cart: SimpleNamespace) -> None:
    run = balanced(cart, 3, **CART)
    found = check(cart, run, ["cart_mass", "mass", "length", "damping", "gain.force"])
    friction, factor = found.untold
    assert friction.names == ("damping",)  # too weak to show in three seconds
    assert set(factor.names) == {"cart_mass", "mass", "gain.force"}
    assert "share a factor" in str(factor)
    assert "gain.force" not in found.told


def test_residuals_have_exact_derivatives(job: jobs.Job, plan: sm.Trajectory) -> None:
    """In one segment and in several, on the map and on one sixteen times finer, for unknowns of every kind."""
    run = hanging(plan, job, 2, steps=40, **DRAG)
    names = ["damping", "height", "delay", "gain.r", "offset.xr", "bias.mass.y"]
    for segments in ("auto", 13):
        task, _, _ = prepare(job, run, names, {}, segments)
        rng = np.random.default_rng(0)
        point = task.start + 0.01 * rng.normal(size=task.count)
        numeric = difference(task.residual, point, np.full(task.count, 1e-3))
        exact = task.jacobian(point)
        assert np.abs(exact - numeric).max() < 1e-9 * np.abs(exact).max() + 1e-8
    fit = sm.identify(job, run, ["damping", "delay"])
    task, point = fit.fine.task, fit.fine.point
    numeric = difference(task.residual, point, np.full(task.count, 1e-3))
    assert np.abs(task.jacobian(point) - numeric).max() < 1e-8 * np.abs(numeric).max()


def test_sigma_is_that_of_many_draws(job: jobs.Job, plan: sm.Trajectory) -> None:
    """16 draws of two numbers: their rms error in sigmas is 1 within three of its own standard deviations, 0.12."""
    off = []
    for seed in range(16):
        fit = sm.identify(job, hanging(plan, job, 100 + seed, **DRAG), ["damping", "delay"], hold={"mass": 0.12})
        truth = {"damping": 0.02, "delay": 0.0}
        off += [(fit.values[name] - truth[name]) / fit.sigma[name] for name in truth]
    assert 0.64 < np.sqrt(np.mean(np.square(off))) < 1.36


def test_outliers_shift_nothing_by_more_than_sigma(job: jobs.Job, run: sm.Observed) -> None:
    clean = sm.identify(job, run, ["damping", "height"])
    rng = np.random.default_rng(5)
    Z = run.Z.copy()
    bad = rng.random(Z.shape) < 0.03
    Z[bad] += rng.choice([-1, 1], bad.sum()) * rng.uniform(0.05, 0.3, bad.sum())
    spoilt = replace(run, Z=Z)
    robust = sm.identify(job, spoilt, ["damping", "height"])
    for name in clean.values:
        assert abs(robust.values[name] - clean.values[name]) < clean.sigma[name]
    squares = sm.identify(job, spoilt, ["damping", "height"], loss="linear")
    assert abs(squares.values["damping"] - clean.values["damping"]) > 5 * clean.sigma["damping"]


def test_a_delay_is_found_from_a_run_that_stopped(job: jobs.Job, plan: sm.Trajectory) -> None:
    run = hanging(plan, job, 7, steps=107, delay=0.012, **DRAG)
    fit = sm.identify(job, run, ["damping", "delay"]).require()
    assert abs(fit.values["delay"] - 0.012) < 1e-3
    assert fit.sigma["delay"] < 1e-3


def test_biases_offsets_and_missing_readings(job: jobs.Job, plan: sm.Trajectory) -> None:
    run = hanging(plan, job, 8, height=1.02, **DRAG)
    valid = np.random.default_rng(1).random(run.Z.shape) > 1 / 3
    biased = replace(run, Z=run.Z + np.array([0.0, 0.0, 0.007, 0.0]), valid=valid)
    fit = sm.identify(job, biased, ["damping", "height", "bias.xr"]).require()
    assert abs(fit.values["height"] - 1.02) < 3.5 * fit.sigma["height"]
    assert abs(fit.values["bias.xr"] - 0.007) < 3.5 * fit.sigma["bias.xr"]
    words = check(job, biased, ["offset.xr", "bias.xr"])
    assert len(words.told) == 2  # the mass shows where the robot is


def test_an_unstable_motion_is_fitted_in_segments(cart: SimpleNamespace) -> None:
    run = balanced(cart, 4, **CART)
    fit = sm.identify(cart, run, ["cart_mass", "mass", "length"], hold={"damping": 0.05}).require()
    assert len(fit.fit.task.segments) > 1
    for name in fit.values:
        assert fit.sigma[name] < 0.04 * CART[name]
        assert abs(fit.values[name] - CART[name]) < 3.5 * fit.sigma[name]
    assert fit.remarks == ()


def test_a_map_with_forces_on_the_left_has_masses_of_its_own(cart: SimpleNamespace) -> None:
    """Half a period of delay in the forces looks like another mass; a finer map shows the plant's."""
    left = upright("left")
    fit = sm.identify(left, balanced(left, 4, **CART), ["cart_mass", "mass", "length"], hold={"damping": 0.05})
    at = fit.told.index("mass")
    assert fit.values["mass"] > 1.5
    assert abs(fit.fine.values[at] - CART["mass"]) < 3.5 * fit.fine.sigma[at]
    assert any("fine plant" in said for said in fit.remarks)


def test_noise_is_that_of_the_readings(job: jobs.Job, plan: sm.Trajectory) -> None:
    fit = sm.identify(job, hanging(plan, job, 1, steps=200, **DRAG), ["damping"], noise=True)
    assert fit.noise is not None
    np.testing.assert_allclose(fit.noise.measurement, job.noise.measurement, rtol=0.2)  # 5 % standard deviation
    assert {"q", "p"} <= set(fit.noise.floored)  # nothing pushes the plant
    assert fit.noise.process[2] < 0.5 * job.noise.process[2]
    assert fit.noise.likelihood > 0


def test_another_run_validates_the_values(job: jobs.Job, plan: sm.Trajectory, run: sm.Observed) -> None:
    fit = sm.identify(job, run, ["damping"])
    before, after = fit.validation(hanging(plan, job, 20, **DRAG))
    assert before > 2
    assert 0.8 < after < 1.2
    assert fit.remarks == ()
    lacking = sm.identify(job, hanging(plan, job, 21, height=1.03, **DRAG), ["damping"])
    assert any("lacks something" in said for said in lacking.remarks)


def test_an_interrupt_keeps_the_best_so_far(job: jobs.Job, run: sm.Observed) -> None:
    def stop(turn: int, value: float) -> None:
        if turn == 4:
            raise KeyboardInterrupt

    fit = sm.identify(job, run, ["damping"], monitor=stop)
    assert fit.status == "interrupted"
    task = replace(fit.fit.task)
    assert np.sum(fit.fit.residual**2) < np.sum(task.residual(task.start) ** 2)
    with pytest.raises(sm.ModelError, match="ended early"):
        fit.require()
    assert solve(task).status == "converged"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ["dampin"]}, "(?s)nothing is called 'dampin'.*damping"),
        ({"names": []}, "none are given"),
        ({"names": ["damping", "damping"]}, "twice"),
        ({"names": ["damping"], "hold": {"damping": 0.1}}, "both looked for and held"),
        ({"names": ["damping"], "hold": {"mass": -0.1}}, "positive"),
        ({"names": ["damping"], "loss": "cubes"}, "loss: expected one of"),
        ({"names": ["damping"], "segments": 1}, "segments"),
        ({"names": ["mass"]}, "none of these can be told"),
    ],
)
def test_wrong_requests_are_refused(job: jobs.Job, run: sm.Observed, change: dict[str, object], message: str) -> None:
    with pytest.raises(sm.ModelError, match=message):
        sm.identify(job, run, **change)  # type: ignore[arg-type]


def test_runs_that_tell_nothing_are_refused(job: jobs.Job, run: sm.Observed, cart: SimpleNamespace) -> None:
    still = replace(run, U=np.tile(run.U[0], (300, 1)), Z=np.tile(run.Z[0], (301, 1)))
    blind = replace(run, valid=np.arange(4) != 1 & np.ones((301, 4), dtype=bool))
    short = sm.Observed(run.dt, run.U[:2], run.Z[:3], before=run.before, guess=run.guess[:3])
    for bad, message in (
        (still, "at rest"),
        (blind, "no reading of channel 'mass.x' is valid|no reading of channel 'mass.y' is valid"),
        (short, "readings, and"),
        (replace(run, dt=0.02), "recorded at dt"),
        (balanced(cart, 1, 20), "recorded at dt|of another job"),
    ):
        with pytest.raises(sm.ModelError, match=message):
            sm.identify(job, bad, ["damping", "height", "delay", "gain.r", "offset.xr"])
    with pytest.raises(sm.ModelError, match="runs: none"):
        sm.identify(job, [], ["damping"])
    with pytest.raises(sm.ModelError, match="fewer than two"):
        sm.Observed(0.1, np.zeros((1, 1)), np.zeros((2, 1)))


def test_a_robot_that_ran_away_is_fitted_in_short_segments() -> None:
    """A Furuta pendulum a tenth heavier and longer turns three times instead of standing up: one trajectory is lost."""
    job = jobs.load(ROOT / "examples" / "mechanisms" / "furuta.toml")
    plan = job.solve().plan
    truth = {p.name: 1.1 * p.value for p in job.system.parameters}
    robot = sm.discretize(job.system.with_parameters(**truth), job.dt)
    path = robot.follow(plan.trajectory.x[0], plan.trajectory, plan.gains)
    assert np.ptp(path.x[:, 0]) > 2 * np.pi
    Z = np.asarray(job.system.readings(job.step.layout.pose(path.x)))
    Z = Z + np.random.default_rng(5).normal(size=Z.shape) * job.noise.measurement
    fit = sm.identify(job, sm.Observed(job.dt, path.u, Z, guess=path.x[0]), list(truth))
    assert fit.fit.far == 0.0
    assert all(abs(fit.values[name] - value) < 4 * fit.sigma[name] for name, value in truth.items())


def test_readings_of_another_motion_are_refused(job: jobs.Job, run: sm.Observed) -> None:
    """A robust loss would take them for outliers and call the rest a good fit."""
    Z = run.Z[:41] + 0.3 * np.cumsum(np.random.default_rng(3).normal(size=run.Z[:41].shape), axis=0)
    other = sm.Observed(run.dt, run.U[:40], Z, before=run.before, guess=np.asarray(run.guess)[:41])
    with pytest.raises(sm.ModelError, match=r"no motion of this model explains them: .* more than 6 σ"):
        sm.identify(job, other, ["height"])
    with pytest.raises(sm.ModelError, match="where the model cannot be"):  # for the filter that guesses states
        sm.identify(job, replace(other, guess=other.guess[0]), ["height"])  # type: ignore[index]
