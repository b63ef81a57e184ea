"""NEES and NIS: bands against scipy's chi-square, and filters that are as sure as they may be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.stats

import stepmap as sm
from stepmap.estimate import Consistency, consistency, nees
from stepmap.estimate.consistency import chi_square_band
from tests.unit.test_ekf import rail

RUNS, TICKS = 200, 60


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("degrees", "runs"), [(1, 30), (2, 50), (4, 200), (8, 200), (6, 1000), (2, 12000)])
def test_band_is_the_chi_square_s(degrees: int, runs: int, confidence: float) -> None:
    """The mean of n chi-square variables is one of n times the degrees, over n; the approximation is as it promises."""
    exact = np.array(scipy.stats.chi2.interval(confidence, degrees * runs)) / runs
    promised = 1e-3 if confidence <= 0.95 else 4e-3
    np.testing.assert_allclose(chi_square_band(degrees, runs, confidence), exact, rtol=promised)


def test_band_narrows_around_the_degrees() -> None:
    widths = []
    for runs in (10, 100, 1000):
        low, high = chi_square_band(4, runs)
        assert low < 4 < high
        widths.append(high - low)
    # √runs, up to the asymmetry at few runs
    np.testing.assert_allclose(np.array(widths[:-1]) / widths[1:], np.sqrt(10), rtol=0.02)


def test_nees_is_the_squared_distance_in_standard_deviations() -> None:
    assert nees([3.0, 0.0], np.diag([1.0, 4.0])) == pytest.approx(9.0)
    assert nees([0.0, 4.0], np.diag([1.0, 4.0])) == pytest.approx(4.0)
    rng = np.random.default_rng(0)
    half, e = rng.normal(size=(5, 3, 3)), rng.normal(size=(5, 3))
    P = half @ np.swapaxes(half, 1, 2) + np.eye(3)
    expected = [e[i] @ np.linalg.solve(P[i], e[i]) for i in range(5)]
    np.testing.assert_allclose(nees(e, P), expected, rtol=1e-12)
    np.testing.assert_allclose(nees(e, P[0]), [v @ np.linalg.solve(P[0], v) for v in e], rtol=1e-12)


def test_directions_without_uncertainty_are_left_out() -> None:
    """Across a constraint P is zero; an error there is rounding and must not count."""
    direction = np.array([0.6, 0.8])
    P = 4.0 * np.outer(direction, direction)
    assert nees(2.0 * direction + 1e-9 * np.array([0.8, -0.6]), P) == pytest.approx(1.0, rel=1e-8)


def test_nees_of_gaussian_errors_is_chi_square() -> None:
    """Kolmogorov–Smirnov, at a level of one in a thousand."""
    rng = np.random.default_rng(1)
    half = rng.normal(size=(4, 4))
    P = half @ half.T
    values = nees(rng.multivariate_normal(np.zeros(4), P, 5000), P)
    assert scipy.stats.kstest(values, scipy.stats.chi2(4).cdf).pvalue > 1e-3


@pytest.mark.parametrize(("mean", "words"), [(4.0, "consistent"), (5.0, "overconfident"), (3.0, "too cautious")])
def test_verdict_tells_which_way_to_go(mean: float, words: str) -> None:
    verdict = Consistency(mean, 3.6, 4.4)
    assert verdict.ok == (words == "consistent")
    assert words in str(verdict)
    assert str(verdict).startswith(f"{mean:.3f} in [3.600, 4.400]")


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [np.inf]])
def test_statistics_that_are_none_are_refused(values: list[float]) -> None:
    with pytest.raises(sm.ShapeError, match="values: expected at least one, all finite"):
        consistency(values, 4)


def test_covariances_of_another_size_are_refused() -> None:
    with pytest.raises(sm.ShapeError, match="P: expected"):
        nees(np.zeros((5, 3)), np.eye(4))


# Monte Carlo --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Study:
    """NEES and NIS of every tick and run, (TICKS, RUNS)."""

    nees: np.ndarray
    nis: np.ndarray


@functools.cache
def linear_study(believed: float = 1.0) -> Study:
    """A linear-Gaussian system: two masses on springs, encoders with correlated noise, full process noise.

    ``believed`` times the true standard deviations of all noise is what the filter is told.
    """
    step = rail()
    rng = np.random.default_rng(0)
    half = rng.normal(size=(4, 4))
    Q, P0 = 1e-4 * (half @ half.T / 4 + 0.1 * np.eye(4)), 1e-2 * np.eye(4)
    R = np.array([[4e-4, 1e-4], [1e-4, 1e-4]])
    ekf = sm.ExtendedKalmanFilter(step, believed**2 * Q, believed**2 * R)
    mean = step.from_velocity([0.2, -0.1], [0.0, 0.3])
    truth = rng.multivariate_normal(mean, P0, RUNS)
    belief, errors, innovations = ekf.start(np.tile(mean, (RUNS, 1)), believed**2 * P0), [], []
    for k in range(TICKS):
        u = [np.sin(0.3 * k)]
        truth = step.linearize_many(truth, np.tile(u, (RUNS, 1)))[0] + rng.multivariate_normal(np.zeros(4), Q, RUNS)
        z = truth[:, :2] + rng.multivariate_normal(np.zeros(2), R, RUNS)
        belief, seen = ekf.update(ekf.predict(belief, u), z)
        errors.append(nees(truth - belief.x, belief.P))
        innovations.append(seen.nis)
    return Study(np.array(errors), np.array(innovations))


def test_linear_filter_is_consistent_over_200_runs() -> None:
    """The mean NEES at the last tick, and at most ticks: each has one chance in twenty to be outside its band."""
    study = linear_study()
    last = consistency(study.nees[-1], 4)
    assert last.ok, str(last)
    # Neighbouring ticks share errors, so that some 60/5 of them are independent: twice the binomial's 5 % is likely.
    assert np.mean([consistency(tick, 4).ok for tick in study.nees]) >= 0.85


def test_innovations_of_a_linear_filter_are_consistent() -> None:
    """Innovations are white, so all ticks and runs count at once: 12000 of them, a band of 2 %."""
    study = linear_study()
    assert consistency(study.nis[-1], 2).ok
    together = consistency(study.nis, 2)
    assert together.high - together.low < 0.08
    assert together.ok, str(together)
    assert scipy.stats.kstest(study.nis.ravel(), scipy.stats.chi2(2).cdf).pvalue > 1e-3


@pytest.mark.parametrize(("believed", "words"), [(0.7, "overconfident"), (1.4, "too cautious")])
def test_wrong_noise_is_noticed(believed: float, words: str) -> None:
    """All covariances scale alike, so that gains stay and NEES is 4 over the square of what is believed."""
    study = linear_study(believed)
    for values, degrees in ((study.nees[-1], 4), (study.nis, 2)):
        verdict = consistency(values, degrees)
        assert words in str(verdict)
        assert verdict.mean == pytest.approx(degrees / believed**2, rel=0.1)


@pytest.mark.parametrize("swing", [0.0, 0.3])
def test_nonlinear_filter_is_nearly_consistent(swing: float, record_property: Callable[[str, object], None]) -> None:
    """A mass on a string, its robot and winch off by 1 mm a step: NEES is reported, not claimed to be chi-square.

    Process noise enters through the inputs, so P has rank 6 of 8: one direction is across the string in q, another in
    p. Q is the one at rest all the time, which is wrong while the mass swings, and the filter is an extended one. So
    the band is not asserted; the bounds are 6 ± 20 %, far from what a mistake in A, H or Q would do.
    """
    system = sm.systems.get("suspended_mass")
    step, sigma_u, sigma_z, runs, ticks = sm.discretize(system, 1 / 30), 1e-3, 5e-3, 200, 150
    rng = np.random.default_rng(1)
    t = step.dt * np.arange(1, ticks + 1)
    grow = swing * (1 - np.exp(-t))
    U = np.stack([grow * np.sin(2 * t), 1 + 0.6 * grow * np.sin(1.3 * t)], axis=1)
    x0 = step.rest({})
    B = step.linearize(x0, U[0]).B
    ekf = sm.ExtendedKalmanFilter(step, sigma_u**2 * B @ B.T, sigma_z**2 * np.eye(4))
    truth, truths, measured = np.tile(x0, (runs, 1)), [], []
    for u in U:
        truth = step.step_many(truth, u + sigma_u * rng.normal(size=(runs, 2))).x
        truths.append(truth)
        measured.append(system.readings(truth[:, :4]) + sigma_z * rng.normal(size=(runs, 4)))
    first = ekf.start(np.tile(x0, (runs, 1)), np.zeros((8, 8)))
    found = ekf.run(first, U, np.stack(measured, axis=1), covariances=True, innovations=True)
    errors = nees(np.stack(truths, axis=1) - found.x, found.P).T
    innovations = found.innovation.nis.T
    values = np.linalg.eigvalsh(found.P[:, -1])
    assert ((values > 1e-12 * values[:, -1:]).sum(axis=1) == 6).all()
    mean, nis = float(np.mean(errors[20:])), float(np.mean(innovations[20:]))
    print(f"suspended mass, swing {swing} m: NEES {mean:.3f} of 6, {consistency(errors[-1], 6)}; NIS {nis:.3f} of 4")
    record_property("nees", mean)
    record_property("nis", nis)
    assert 4.8 < mean < 7.2
    assert 3.2 < nis < 4.8
