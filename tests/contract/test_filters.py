"""Every registered filter, and one from outside, is held to the same laws: on mechanisms and on a circle."""

from __future__ import annotations

import functools
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import stepmap as sm
from stepmap.estimate import Belief, Filter, Innovation, registry
from stepmap.estimate.measurement import measurement_model
from tests.mechanisms import case, furuta, in_motion
from tests.rotor import Rotor, direction

SCENES = ("suspended_mass", "cart_pendulum", "euler", "furuta", "rotor")


class FadingMemory:
    """A filter from outside: older measurements count less, since P grows by a part in every prediction."""

    def __init__(self, step: Any, process: np.ndarray, measurement: np.ndarray, *, gate: float | None = None) -> None:
        self.inner = sm.ExtendedKalmanFilter(step, process, measurement, gate=gate)

    def start(self, x: ArrayLike, P: ArrayLike) -> tuple[np.ndarray, np.ndarray, int]:
        return *self.inner.start(x, P), 0

    def predict(self, belief: tuple[np.ndarray, np.ndarray, int], u: ArrayLike) -> tuple[np.ndarray, np.ndarray, int]:
        x, P, age = belief
        after, spread = self.inner.predict(Belief(x, P), u)
        return after, 1.02 * spread, age + 1

    def update(
        self, belief: tuple[np.ndarray, np.ndarray, int], z: ArrayLike, valid: ArrayLike | None = None
    ) -> tuple[tuple[np.ndarray, np.ndarray, int], Innovation]:
        x, P, age = belief
        after, seen = self.inner.update(Belief(x, P), z, valid)
        return (*after, age), seen

    def estimate(self, belief: tuple[np.ndarray, np.ndarray, int]) -> Belief:
        return Belief(*belief[:2])


FROM_OUTSIDE: dict[str, Any] = {"fading_memory": FadingMemory}


SAMPLED = "particle"  # means and covariances of a cloud are those asked for within sampling errors
PARTICLES = 100


def maker(name: str) -> Any:
    if name == SAMPLED:
        return functools.partial(registry.maker(name), particles=PARTICLES)
    return FROM_OUTSIDE.get(name) or registry.maker(name)


@dataclass(frozen=True, eq=False)
class Scene:
    """A step map with a state in motion, an input, and noise."""

    step: Any
    x: np.ndarray
    u: np.ndarray

    @property
    def P(self) -> np.ndarray:
        return 1e-4 * np.eye(self.step.ndx)

    @functools.cached_property
    def z(self) -> np.ndarray:
        return measurement_model(self.step).readings(self.x)

    @functools.cached_property
    def noise(self) -> tuple[np.ndarray, np.ndarray]:
        return 1e-6 * np.eye(self.step.ndx), 1e-4 * np.eye(len(self.z))

    def filter(self, name: str, **options: Any) -> Filter[Any]:
        return maker(name)(self.step, *self.noise, **options)

    def batch(self, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Estimates, inputs and measurements that all differ."""
        rng = np.random.default_rng(seed)
        x = self.step.layout.retract(self.x, 1e-4 * rng.standard_normal((n, self.step.ndx)))
        # Kinematic coordinates keep their next values: a string of another length would ask for another pose.
        u = np.tile(self.u, (n, 1))
        return x, u, self.z + 1e-3 * rng.standard_normal((n, len(self.z)))


@functools.cache
def scene(name: str) -> Scene:
    if name == "rotor":
        return Scene(Rotor(), direction(3.1), np.array([0.1]))
    if name == "furuta":
        step = sm.discretize(furuta(), 0.01)
        return Scene(step, *in_motion(step, np.array([0.2, 0.5])))
    if name == "euler":
        made = case("cart_pendulum")
        return Scene(made.euler, *made.euler_point)
    made = case(name)
    return Scene(made.midpoint, made.x, made.u)


@pytest.fixture(params=SCENES)
def given(request: pytest.FixtureRequest) -> Scene:
    return scene(request.param)


@pytest.fixture(params=[*registry.names(), *FROM_OUTSIDE])
def name(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


def leaves(value: Any) -> list[np.ndarray]:
    """All arrays of a belief, whatever it is made of."""
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value)]


def same(a: Any, b: Any) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(leaves(a), leaves(b), strict=True))


def test_calls_are_pure_bit_for_bit(name: str, given: Scene) -> None:
    """The same arguments give the same result, and stay as they are, in any order of calls."""
    made = given.filter(name)
    start = made.start(given.x, given.P)
    kept = pickle.loads(pickle.dumps(start))
    predicted = made.predict(start, given.u)
    updated, seen = made.update(predicted, given.z)
    made.update(start, given.z + 1.0)
    again = made.predict(start, given.u)
    assert same(start, kept)
    assert same(predicted, again)
    other, saw = made.update(again, given.z)
    assert same(updated, other)
    assert same(seen, saw)


def test_shapes_are_those_of_the_map(name: str, given: Scene) -> None:
    made, nx, n, nz = given.filter(name), given.step.nx, given.step.ndx, len(given.z)
    for lead in ((), (3,), (2, 3)):
        belief = made.start(np.broadcast_to(given.x, (*lead, nx)), given.P)
        for _ in range(2):
            belief = made.predict(belief, given.u)
            belief, seen = made.update(belief, given.z)
        x, P = made.estimate(belief)
        assert (x.shape, P.shape) == ((*lead, nx), (*lead, n, n))
        assert isinstance(seen, Innovation)
        assert all(part.shape == (*lead, nz) for part in seen[:-1])
        assert seen.nis.shape == lead


def test_covariances_stay_symmetric_and_positive(name: str, given: Scene) -> None:
    """Over 200 ticks; rounding may leave an eigenvalue below zero by 1e-12 of the largest."""
    made, rng = given.filter(name), np.random.default_rng(3)
    belief = made.start(given.x, given.P)
    for _ in range(200):
        after, _ = made.update(belief, given.z + 1e-3 * rng.standard_normal(len(given.z)))
        P = made.estimate(after).P
        assert np.abs(P - P.T).max() <= 1e-12 * np.abs(P).max()
        assert np.linalg.eigvalsh(P).min() >= -1e-12 * np.abs(P).max()
        helps = np.diagonal(P) <= np.diagonal(made.estimate(belief).P) * (1 + 1e-12)
        assert helps.all() or name == SAMPLED  # on average a measurement helps
        predicted = made.predict(after, given.u)
        P = made.estimate(predicted).P
        assert np.linalg.eigvalsh(P).min() >= -1e-12 * np.abs(P).max()
        belief = made.start(given.x, P)  # the same place again: what is tested is P


def test_a_batch_is_each_of_it(name: str, given: Scene) -> None:
    made = given.filter(name, gate=3.0)
    X, U, Z = given.batch(5)
    flags = np.random.default_rng(1).random(Z.shape) < 0.8
    belief, seen = made.update(made.predict(made.start(X, given.P), U), Z, flags)
    x, P = made.estimate(belief)
    for i in range(5):
        one, saw = made.update(made.predict(made.start(X[i], given.P), U[i]), Z[i], flags[i])
        alone = made.estimate(one)
        assert alone.x == pytest.approx(x[i], rel=1e-12, abs=1e-13)
        assert pytest.approx(P[i], rel=1e-12, abs=1e-15) == alone.P
        assert saw.used.tolist() == seen.used[i].tolist()


def test_what_is_not_measured_changes_nothing(name: str, given: Scene) -> None:
    """Channels that are missing or not valid: the belief stays, but for constraints that are projected on."""
    made = given.filter(name)
    start = made.start(given.x, given.P)
    missing, seen = made.update(start, np.full_like(given.z, np.nan))
    unused, _ = made.update(start, given.z + 1.0, np.zeros(len(given.z), bool))
    assert not seen.used.any()
    assert seen.nis == 0.0
    for belief in (missing, unused):
        x, P = made.estimate(belief)
        # A cloud that is projected onto curved constraints has its mean off by about its variance, 1e-4.
        assert x == pytest.approx(given.x, abs=1e-3 if name == SAMPLED else 1e-12)
        assert pytest.approx(made.estimate(start).P, rel=1e-12) == P


def test_measurements_pull_the_estimate(name: str, given: Scene) -> None:
    """From a state that is off, perfect measurements lead the readings back to what is measured."""
    if name == SAMPLED:
        pytest.skip("a cloud that no prediction moves has no states but those it began with; see unit/test_particle.py")
    made = given.filter(name)
    x0 = given.step.layout.retract(given.x, np.eye(given.step.ndx)[0] * 0.01)
    model = measurement_model(given.step)
    belief = made.start(x0, 1e-2 * np.eye(given.step.ndx))
    for _ in range(30):
        belief, _ = made.update(belief, given.z)
    off = np.abs(model.readings(made.estimate(belief).x) - given.z).max()
    assert off < 0.05 * np.abs(model.readings(x0) - given.z).max()


def test_wrong_shapes_are_refused(name: str, given: Scene) -> None:
    made, n, nz = given.filter(name), given.step.ndx, len(given.z)
    Q, R = given.noise
    belief, pair = made.start(given.x, given.P), made.start(np.tile(given.x, (2, 1)), given.P)
    for call in (
        lambda: made.start(given.x[1:], given.P),
        lambda: made.start(given.x, np.eye(n + 1)),
        lambda: made.predict(belief, np.zeros(len(given.u) + 1)),
        lambda: made.update(belief, np.zeros(nz + 1)),
        lambda: made.update(belief, given.z, [True] * (nz + 1)),
        lambda: made.predict(pair, np.zeros((3, len(given.u)))),
        lambda: made.update(pair, np.zeros((3, nz))),
        lambda: maker(name)(given.step, np.eye(n + 1), R),
        lambda: maker(name)(given.step, Q, np.eye(nz + 1)),
    ):
        with pytest.raises(sm.ShapeError):
            call()
    with pytest.raises(sm.ModelError):
        made.start(given.x, -np.eye(n))


def test_a_pickled_filter_goes_on(name: str, given: Scene) -> None:
    made = given.filter(name)
    belief = made.predict(made.start(given.x, given.P), given.u)
    other, copied = pickle.loads(pickle.dumps((made, belief)))
    assert same(made.update(belief, given.z), other.update(copied, given.z))
