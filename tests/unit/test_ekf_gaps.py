"""The Kalman filter of a mass on a string: estimates beside the string are pulled back, and modes are told."""

from __future__ import annotations

import numpy as np
import pytest

import stepmap as sm

DT, STEPS, NOISE = 0.02, 120, 2e-3


def setting() -> tuple[sm.VariationalStep, sm.ExtendedKalmanFilter]:
    step = sm.discretize(sm.systems.get("suspended_mass_string"), DT)
    channels = len(step.system.sensor_channels)
    process = np.diag([1e-4, 1e-4, 1e-5, 1e-5, 1e-3, 1e-3, 1e-3, 1e-3]) ** 2
    return step, sm.ExtendedKalmanFilter(step, process, NOISE**2 * np.eye(channels))


def dropped(step: sm.VariationalStep) -> sm.Trajectory:
    """The string is let out at 3 m/s for 0.16 s: it goes slack, and the mass falls into it."""
    k = np.arange(1, STEPS + 1)[:, None]
    length = 0.5 + 3.0 * DT * np.clip(k - 20, 0, 8)
    return step.rollout(
        step.rest({"xm": 0.1, "ym": 1 - np.sqrt(0.24), "xr": 0.0, "r": 0.5}), np.hstack([0 * length, length])
    )


def test_estimates_beyond_a_string_are_pulled_to_it() -> None:
    step, ekf = setting()
    taut = step.rest({"xm": 0.0, "ym": 0.5, "xr": 0.0, "r": 0.5})
    slack = step.rest({"xm": 0.0, "ym": 0.6, "xr": 0.0, "r": 0.5})
    P = np.diag([1e-2] * 8) ** 2
    readings = step.system.readings(taut[:4])
    away = np.zeros(len(readings))
    away[1] = 0.01
    for x, z, closed, height in (
        (taut, readings - away, True, 0.5),  # it would be 10 mm too low
        (taut, readings + away, True, 0.5),  # noise does not open a string
        (slack, readings + 10 * away, False, 0.6),
        (slack, readings - away, True, 0.5),  # passed, though it was open
    ):
        belief, innovation = ekf.update(ekf.start(x, P), z)
        gap = step.system.gaps(belief.x[:4])[0]
        assert innovation.closed is not None
        assert bool(innovation.closed[0]) is closed
        assert gap <= 1e-9
        assert bool(gap >= -1e-9) is closed
        assert belief.x[1] == pytest.approx(height, abs=6e-3)
        step.step(belief.x, step.layout.hold(belief.x))  # a state that the step accepts


def test_a_fall_into_the_string_is_followed() -> None:
    """The error stays within a few times the noise, through release and impact; modes are those of the truth."""
    step, ekf = setting()
    truth = dropped(step)
    assert {event.kind for event in truth.events} == {"release", "impact"}
    rng = np.random.default_rng(5)
    belief = ekf.start(truth.x[0], np.diag([1e-3, 1e-3, 1e-4, 1e-4, 1e-3, 1e-3, 1e-3, 1e-3]) ** 2)
    errors, same = [], 0
    for k in range(STEPS):
        belief = ekf.predict(belief, truth.u[k])
        z = step.system.readings(truth.x[k + 1, :4])
        belief, innovation = ekf.update(belief, z + NOISE * rng.normal(size=z.shape))
        assert innovation.closed is not None
        same += ("string" in truth.modes[k]) == bool(innovation.closed[0])
        errors.append(np.linalg.norm(belief.x[:2] - truth.x[k + 1, :2]))
    assert np.sqrt(np.mean(np.square(errors))) < 2 * NOISE
    assert same >= 0.9 * STEPS


def test_maps_without_gaps_tell_no_modes() -> None:
    step = sm.discretize(sm.systems.get("suspended_mass"), DT)
    ekf = sm.ExtendedKalmanFilter(step, 1e-6 * np.eye(8), NOISE**2 * np.eye(len(step.system.sensor_channels)))
    x = step.rest({})
    assert ekf.update(ekf.start(x, 1e-4 * np.eye(8)), step.system.readings(x[:4]))[1].closed is None
