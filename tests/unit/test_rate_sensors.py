"""Gyros and directions: what they read, how readings change with the state, and the filter with them."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import stepmap as sm
from stepmap import jobs
from stepmap.estimate.consistency import consistency, nees
from stepmap.estimate.measurement import measurement_model
from stepmap.steps.check import difference
from tests.pages import ROOT


@functools.cache
def arm() -> sm.VariationalStep:
    """A link on a ball under a cart, a second one on a hinge whose end a wire holds: p has impulses of the wire."""
    b = sm.Builder("arm")
    hub = b.world.tx(b.coordinate("s", kinematic=True)).ball("hub")
    b.mass(hub, 2.0, inertia=(0.3, 0.4, 0.5))
    b.drive(hub, (b.input("torque"), 0, 0))
    link = hub.tz(0.4).rx(b.coordinate("a"), name="link")
    tip = link.tz(0.3, name="tip")
    b.mass(tip, 1.0, inertia=(0.01, 0.01, 0.01))
    b.gravity((0, 0, -9.81))
    b.distance(tip, b.world.tx(1.5, name="hook"), 1.7)
    b.gyro(link, name="gyro")
    b.direction(hub, (0.0, 0.0, -9.81), name="down")
    b.marker(tip)
    return sm.discretize(b.build(), 0.02)


def moving() -> np.ndarray:
    step = arm()
    pose = step.system.satisfy_constraints({"a": 0.3, "s": 0.1})
    return step.from_velocity(pose, {"hub": (0.1, 0.2, 0.3), "a": 0.5, "s": 0.2})


def test_a_gyro_reads_the_turn_of_its_frame() -> None:
    """ω = vee(Rᵀ Ṙ) with R of a chain of turns about x, then z, by differences of matrices from scipy."""
    b = sm.Builder("gimbal")
    ring = b.world.rx(b.coordinate("phi", unit="rad"))
    rotor = ring.rz(b.coordinate("psi", unit="rad"), name="rotor")
    for frame in (ring, rotor):
        b.mass(frame, 1.0, inertia=(0.1, 0.1, 0.1))
    b.gyro(rotor)
    b.direction(rotor, (0.2, -0.4, 0.9), name="field")
    system = b.build()
    assert system.sensor_channels[:3] == tuple((f"rotor_gyro.{axis}", "rad/s") for axis in "xyz")
    assert system.senses_rates
    q, v = np.array([0.7, -1.1]), np.array([0.4, 2.3])

    def turned(t: float) -> Rotation:
        phi, psi = q + t * v
        return Rotation.from_euler("x", phi) * Rotation.from_euler("z", psi)

    h = 1e-4
    rate = (turned(-h).inv() * turned(h)).as_rotvec() / (2 * h)  # error h² |ω|³ ≈ 1e-7
    z = system.readings(q, v)
    np.testing.assert_allclose(z[:3], rate, atol=1e-6)
    np.testing.assert_allclose(z[3:], turned(0.0).inv().apply([0.2, -0.4, 0.9]), atol=1e-14)
    np.testing.assert_allclose(system.readings(q)[:3], 0.0)  # at rest without a velocity


def test_readings_of_a_state_are_those_of_its_velocity() -> None:
    step, x = arm(), moving()
    model = measurement_model(step)
    expected = step.system.readings(step.layout.pose(x), step.velocity(x))
    np.testing.assert_allclose(model.readings(x), expected, rtol=0, atol=1e-13)
    many = np.stack([x, step.step(x, [0.3, 0.11]).x])
    assert model.readings(many).shape == (2, 9)
    np.testing.assert_array_equal(model.readings(many)[0], model.readings(x))


def test_slopes_of_readings_are_those_of_differences() -> None:
    step, x = arm(), moving()
    model = measurement_model(step)
    slope = difference(
        lambda dx: model.readings(step.layout.retract(x, dx)), np.zeros(step.ndx), np.full(step.ndx, 1e-3)
    )
    # sixth-order differences: 1e-18 f⁽⁷⁾, rounding 1e-16/1e-3 of readings around 10
    np.testing.assert_allclose(model.readings_slope(x), slope, rtol=0, atol=1e-10)


def test_euler_states_store_rates() -> None:
    b = sm.Builder("wheel")
    wheel = b.world.rz(b.coordinate("phi", unit="rad"), name="wheel")
    b.mass(wheel, 1.0, inertia=(0, 0, 0.2))
    b.gyro(wheel)
    step = sm.euler(b.build(), 0.01)
    model = measurement_model(step)
    x = step.pack([0.3], [1.7])
    np.testing.assert_allclose(model.readings(x), [0.0, 0.0, 1.7], atol=1e-15)
    np.testing.assert_allclose(model.readings_slope(x), [[0, 0], [0, 0], [0, 1]], atol=1e-15)


def test_filter_of_a_satellite_is_consistent() -> None:
    """NEES of 200 runs in its 95 % band at the end: 6 dimensions, gyro and two directions, the plant disturbed."""
    step = jobs.load(ROOT / "examples" / "turning" / "satellite.toml").step
    rng, runs = np.random.default_rng(5), 200
    process, first = np.repeat([2e-3, 1e-3], 3), np.repeat([0.1, 0.02], 3)
    sigma = np.repeat([0.01, 0.02, 0.02], 3)
    ekf = sm.ExtendedKalmanFilter(step, np.diag(process**2), np.diag(sigma**2))
    model = measurement_model(step)
    truth = np.tile(step.from_velocity({}, {"hub": (0.2, -0.1, 0.3)}), (runs, 1))
    belief = ekf.start(step.layout.retract(truth, first * rng.standard_normal((runs, 6))), np.diag(first**2))
    for k in range(40):
        u = 0.05 * np.array([np.sin(k / 5), np.cos(k / 7), -np.sin(k / 3)])
        truth, _, _ = step.linearize_many(truth, np.tile(u, (runs, 1)))
        truth = step.layout.retract(truth, process * rng.standard_normal((runs, 6)))
        belief = ekf.predict(belief, u)
        belief, _ = ekf.update(belief, model.readings(truth) + sigma * rng.standard_normal((runs, 9)))
    found = consistency(nees(step.layout.difference(belief.x, truth), belief.P), 6)
    assert found.ok, str(found)
    np.testing.assert_allclose(np.linalg.norm(belief.x[:, :4], axis=1), 1.0, atol=1e-14)


def test_what_these_sensors_refuse() -> None:
    b = sm.Builder("refused")
    body = b.world.tx(b.coordinate("x")).rz(b.coordinate("turn"), name="body")
    b.mass(body, 1.0, inertia=(0, 0, 0.1))
    with pytest.raises(sm.ModelError, match="direction: vector must not be zero"):
        b.direction(body, (0, 0, 0))
    with pytest.raises(sm.ModelError, match="direction vector: expected three entries"):
        b.direction(body, (0, 1))
    b.gyro(body, name="imu")
    with pytest.raises(sm.ModelError, match="a sensor called 'imu' exists already"):
        b.direction(body, (0, 0, 1), name="imu")
    b.string(body, b.world.tx(2.0, name="wall"), 3.0)
    with pytest.raises(sm.ModelError, match="a sensor of rates needs the velocity at a node"):
        measurement_model(sm.discretize(b.build(), 0.01))
