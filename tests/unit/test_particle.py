"""The particle filter: resampling as filterpy does, a linear case as Kalman does, views that do not tell the side."""

from __future__ import annotations

from pathlib import Path

import filterpy.monte_carlo
import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.estimate.particle import systematic
from stepmap.figures.particles import DT, LOST, P0, Q, R, run, seen_from_above


@pytest.mark.parametrize("seed", range(4))
def test_resampling_is_that_of_filterpy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.random(257) ** 4
    weights /= weights.sum()
    offset = rng.random()
    monkeypatch.setattr("filterpy.monte_carlo.resampling.random", lambda: offset)
    assert np.array_equal(systematic(weights, offset), filterpy.monte_carlo.systematic_resample(weights))


@pytest.fixture(scope="module")
def step() -> sm.VariationalStep:
    return sm.discretize(seen_from_above(), DT)


def lost(step: sm.VariationalStep, make: type, runs: int, **options: int) -> int:
    """Runs after which the estimate is 0.1 m or more off, while the robot moves to and fro."""
    made = [run(step, make(step, Q, R, **options), number) for number in range(runs)]
    return sum(abs(one.believed[-1] - one.true[-1]) >= LOST for one in made)


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


EXAMPLES = Path(__file__).parents[2] / "examples"
NOISE = {"direct/cart_swingup.toml": "\n[noise.process]\np = 0.01\n[noise.measurement]\nx = 0.01\ntheta = 0.01\n"}
FILTERED = """
[filter]
kind = "particle"
particles = 300
seed = 4
"""


@pytest.mark.parametrize("name", ["suspended_mass.toml", "scripts/wave.toml", "direct/cart_swingup.toml"])
def test_a_job_of_any_kind_names_it(tmp_path: Path, name: str) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    (tmp_path / "job.toml").write_text(text + NOISE.get(name, "") + FILTERED, encoding="utf-8")
    made = jobs.load(tmp_path / "job.toml").filter()
    assert isinstance(made, sm.ParticleFilter)
    assert (made.particles, made.seed) == (300, 4)


@pytest.mark.parametrize(
    ("filtered", "message"),
    [
        ('[filter]\nkind = "particles"', "filter.kind: no filter is called 'particles'"),
        ('[filter]\nkind = "particle"\nparticles = 1', "filter: particles: expected a whole number from 2 on"),
        ('[filter]\nkind = "particle"\nparticles = 10.5', "filter.particles: expected a whole number"),
        ('[filter]\nkind = "particle"\nsamples = 10', "filter.samples: no key is called 'samples'"),
        ("[filter]\nseed = 3", "'kind' is missing"),
    ],
)
def test_mistakes_in_a_job_have_their_line(tmp_path: Path, filtered: str, message: str) -> None:
    text = (EXAMPLES / "scripts" / "wave.toml").read_text(encoding="utf-8")
    (tmp_path / "job.toml").write_text(f"{text}\n{filtered}\n", encoding="utf-8")
    with pytest.raises(sm.JobError, match=message):
        jobs.load(tmp_path / "job.toml")
