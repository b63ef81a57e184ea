"""The particle filter: resampling as filterpy does, a linear case as Kalman does, views that do not tell the side."""

from __future__ import annotations

import filterpy.monte_carlo
import numpy as np
import pytest

import stepmap as sm
from stepmap.estimate.particle import systematic

DT = 1 / 30


@pytest.mark.parametrize("seed", range(4))
def test_resampling_is_that_of_filterpy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.random(257) ** 4
    weights /= weights.sum()
    offset = rng.random()
    monkeypatch.setattr("filterpy.monte_carlo.resampling.random", lambda: offset)
    assert np.array_equal(systematic(weights, offset), filterpy.monte_carlo.systematic_resample(weights))


def seen_from_above() -> sm.System:
    """The suspended mass of which only the height and the robot's encoders are seen: left and right look the same."""
    b = sm.Builder("height_only")
    x, y = b.coordinate("x", unit="m"), b.coordinate("y", unit="m")
    robot = b.coordinate("robot", unit="m", kinematic=True)
    length = b.coordinate("length", unit="m", kinematic=True, start=1.0)
    mass, hook = b.world.tx(x).ty(y, name="mass"), b.world.tx(robot).ty(1.0, name="hook")
    b.mass(mass, 0.1)
    b.gravity((0, -9.81, 0))
    b.distance(hook, mass, length)
    b.marker(mass, axes="y")
    b.encoder(robot)
    b.encoder(length)
    return b.build()


Q = np.diag([0, 0, 1e-6, 1e-6, 4e-6, 4e-6, 1e-8, 1e-8])
R = np.diag([1e-4, 1e-6, 1e-6])
P0 = np.diag([0.25, 0.02, 1e-6, 1e-6, 4e-4, 4e-4, 1e-6, 1e-6])


@pytest.fixture(scope="module")
def step() -> sm.VariationalStep:
    return sm.discretize(seen_from_above(), DT)


def lost(step: sm.VariationalStep, make: type, runs: int, **options: int) -> int:
    """Runs after which the estimate is 0.1 m or more off, while the robot moves to and fro."""
    N, count, system = 150, 0, step.system
    for run in range(runs):
        rng = np.random.default_rng(run)
        angle = rng.uniform(0.15, 0.6) * rng.choice([-1, 1])
        x = step.rest({"x": np.sin(angle), "y": 1 - np.cos(angle)})
        U = np.tile(step.layout.hold(x), (N, 1))
        t = DT * np.arange(N)
        U[:, 0] += 0.15 * np.sin(2 * t + rng.uniform(0, 6)) * np.minimum(1, t)
        made = make(step, Q, R, **options)
        belief = made.start(step.rest({}), P0)
        for u in U:
            x[4:6] += rng.normal(0, 2e-3, 2)
            x = step.step(x, u).x
            z = system.readings(x[:4]) + rng.normal(0, np.sqrt(np.diag(R)))
            belief, _ = made.update(made.predict(belief, u), z)
        count += abs(made.estimate(belief).x[0] - x[0]) >= 0.1
    return count


def test_it_is_not_lost_where_a_kalman_filter_chooses_a_side(step: sm.VariationalStep) -> None:
    """The first runs of the campaign of 60 (`python tests/bench/particles.py`)."""
    assert lost(step, sm.ParticleFilter, 6, particles=300) <= 1
    assert lost(step, sm.ExtendedKalmanFilter, 6) >= 2


def test_particles_stay_on_the_wire(step: sm.VariationalStep) -> None:
    made = sm.ParticleFilter(step, Q, R, particles=50)
    belief = made.start(step.rest({}), P0)
    for _ in range(20):
        belief = made.predict(belief, step.layout.hold(step.rest({})))
    # Projected twice by least squares from 0.5 m off at the start, solved to rounding by the map afterwards.
    assert np.abs(step.system.gaps(belief.x[:, :4])).max() < 1e-13
    assert np.ptp(belief.x[:, 0]) > 0.1


def test_a_linear_system_is_estimated_as_by_a_kalman_filter() -> None:
    """A cart with an encoder: means and variances agree within the sampling error of 4000 particles, 1/√4000."""
    b = sm.Builder("cart")
    x = b.coordinate("x", unit="m")
    b.mass(b.world.tx(x, name="cart"), 1.0)
    b.drive(x, b.input("force", unit="N"))
    b.encoder(x)
    step = sm.discretize(b.build(), 0.1)
    noise = np.diag([1e-6, 1e-4]), np.array([[1e-4]])
    kalman, sampled = sm.ExtendedKalmanFilter(step, *noise), sm.ParticleFilter(step, *noise, particles=4000)
    rng, start = np.random.default_rng(2), (np.zeros(2), 1e-3 * np.eye(2))
    exact, cloud, truth = kalman.start(*start), sampled.start(*start), np.zeros(2)
    for _ in range(25):
        truth = step.step(truth, [0.3]).x + rng.multivariate_normal(np.zeros(2), noise[0])
        z = truth[:1] + rng.normal(0, 1e-2, 1)
        exact, _ = kalman.update(kalman.predict(exact, [0.3]), z)
        cloud, _ = sampled.update(sampled.predict(cloud, [0.3]), z)
    found = sampled.estimate(cloud)
    sigma = np.sqrt(np.diagonal(exact.P))
    assert np.abs((found.x - exact.x) / sigma).max() < 0.2
    assert np.sqrt(np.diagonal(found.P)) == pytest.approx(sigma, rel=0.15)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"particles": 1}, "particles: "), ({"resample": 0.0}, "resample: "), ({"gate": -1.0}, "gate: ")],
)
def test_options_are_checked(step: sm.VariationalStep, options: dict, message: str) -> None:
    with pytest.raises(sm.ModelError, match=message):
        sm.ParticleFilter(step, Q, R, **options)
