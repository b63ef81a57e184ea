"""The mass on a string at 30 Hz: the figures that make a variational step worth having."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import stepmap as sm
from tests.mechanisms import in_motion

DT = 1 / 30
MASS, GRAVITY = 0.1, 9.81
SWING = {"xm": 0.6, "ym": 0.2}  # 37° from hanging straight down from (0, 1) on a string of 1 m


@pytest.fixture(scope="module")
def step() -> sm.VariationalStep:
    return sm.discretize(sm.systems.get("suspended_mass", mass=MASS, gravity=GRAVITY), DT)


@pytest.fixture(scope="module")
def long_run(step: sm.VariationalStep) -> np.ndarray:
    """1e5 steps, almost an hour, with the robot standing still."""
    return step.rollout(step.rest(SWING), np.tile([0.0, 1.0], (100_000, 1))).x


def test_constraint_holds_for_an_hour(step: sm.VariationalStep, long_run: np.ndarray) -> None:
    xm, ym, xr, r = long_run[:, :4].T
    assert np.abs((xm - xr) ** 2 + (ym - 1) ** 2 - r**2).max() <= 1e-14
    assert np.abs(step.system.gaps(long_run[:, :4])).max() <= 1e-14


def test_energy_does_not_drift_for_an_hour(long_run: np.ndarray) -> None:
    energy = pendulum_energy(long_run)
    window = np.hanning(5000) / np.hanning(5000).sum()  # smooth, so that it matters little where in a period it begins
    early, late = window @ energy[:5000], window @ energy[-5000:]
    # Rounding of 1e-16 a step, always of one sign, would reach 1e-11; the window leaves some 1e-10 of the oscillation.
    assert abs(late - early) <= 1e-8 * early
    assert np.ptp(energy) < 5e-3 * early  # the oscillation, second order in dt


def pendulum_energy(x: np.ndarray) -> np.ndarray:
    """½ m v² + m g y with v from p along the circle: across it p carries the string's impulse."""
    xm, ym, px, py = x[:, 0], x[:, 1], x[:, 4], x[:, 5]
    speed = (px * (1 - ym) + py * xm) / MASS
    return MASS * speed**2 / 2 + MASS * GRAVITY * ym


def test_energy_is_that_of_a_pendulum(step: sm.VariationalStep, long_run: np.ndarray) -> None:
    ours = [step.energy(x) for x in long_run[:50]]
    np.testing.assert_allclose(ours, pendulum_energy(long_run[:50]), rtol=1e-13)


def test_convergence_is_of_second_order(step: sm.VariationalStep) -> None:
    """Against θ̈ = −g/r sin θ, solved to 1e-13."""
    angle, rate, end = np.arctan2(0.6, 0.8), 0.7, 2.0
    fine = solve_ivp(
        lambda _, y: [y[1], -GRAVITY * np.sin(y[0])], (0, end), [angle, rate], method="DOP853", rtol=1e-13, atol=1e-13
    )
    exact = [np.sin(fine.y[0, -1]), 1 - np.cos(fine.y[0, -1])]
    errors = []
    for n in (60, 120, 240, 480):
        halved = sm.discretize(step.system, end / n)
        x = halved.from_velocity(SWING, {"xm": 0.8 * rate, "ym": 0.6 * rate}, instant=True)
        after = halved.rollout(x, np.tile([0.0, 1.0], (n, 1))).x[-1]
        errors.append(np.abs(after[:2] - exact).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert ((orders > 1.9) & (orders < 2.1)).all(), orders


def test_derivatives_agree_with_sixth_order_differences(step: sm.VariationalStep) -> None:
    x, u = in_motion(step, step.system.configuration(SWING))
    h = 3e-3
    spacing = np.array([h] * 4 + [MASS * h] * 2 + [h] * 4)
    for seed in range(5):
        errors = sm.check_derivatives(step, x, u, np.random.default_rng(seed).normal(size=8), spacing)
        # Rounding of 1e-16 over a spacing of 3e-4 in p, and second derivatives in p of the size (dt/m)² to scale it.
        assert max(errors.A, errors.B) <= 1e-10, errors
        assert max(errors.xx, errors.xu, errors.uu) <= 1e-9, errors


def test_derivatives_are_tangent_to_the_circle(step: sm.VariationalStep) -> None:
    x, u = in_motion(step, step.system.configuration(SWING))
    at = step.linearize(x, u)
    xm, ym, xr, r = at.x[:4]
    slope = 2 * np.array([xm - xr, ym - 1, xr - xm, -r])  # of (xm − xr)² + (ym − 1)² − r²
    assert np.abs(slope @ at.A[:4]).max() <= 1e-14
    assert np.abs(slope @ at.B[:4]).max() <= 1e-14


def test_next_pose_of_the_robot_is_all_input(step: sm.VariationalStep) -> None:
    """The rows of rho in A are zero: A has no inverse, and nothing may need one."""
    x, u = in_motion(step, step.system.configuration(SWING))
    at = step.linearize(x, u)
    np.testing.assert_array_equal(at.A[2:4], 0.0)
    np.testing.assert_array_equal(at.B[2:4], np.eye(2))
    np.testing.assert_allclose(at.A[6:, 2:4], -np.eye(2) / DT, rtol=1e-15)
    np.testing.assert_allclose(at.B[6:], np.eye(2) / DT, rtol=1e-15)
