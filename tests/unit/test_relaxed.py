"""The step with relaxed gaps: its law, its derivatives, its limit, and what it refuses."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import stepmap as sm
from stepmap.steps.relaxed import OPENING, RelaxedStep

DT, MASS, GRAVITY = 0.01, 0.1, 9.81


def hanging(*, wire: bool = False) -> sm.System:
    """A mass in a plane under a hook, on a string or a wire whose length is an input, as is the hook's place."""
    b = sm.Builder("hanging")
    x, y = (b.coordinate(name, unit="m") for name in "xy")
    place = b.coordinate("place", unit="m", kinematic=True)
    length = b.coordinate("length", unit="m", kinematic=True, start=1.0)
    bob, hook = b.world.tx(x).ty(y, name="bob"), b.world.tx(place, name="hook")
    b.mass(bob, MASS)
    b.gravity((0, -GRAVITY, 0))
    (b.distance if wire else b.string)(hook, bob, length, name="line")
    return b.build()


def ball(**options: object) -> sm.System:
    """A ball over a slope."""
    b = sm.Builder("ball")
    x, z = (b.coordinate(name, unit="m") for name in "xz")
    point = b.world.tx(x).tz(z, name="point")
    b.mass(point, MASS)
    b.gravity((0, 0, -GRAVITY))
    b.contact(point, b.world.ry(0.3, name="slope"), name="slope", **options)  # type: ignore[arg-type]
    return b.build()


def relaxed(system: sm.System, kappa: float) -> RelaxedStep:
    step = sm.discretize(system, DT, gaps="relaxed", kappa=kappa)
    assert isinstance(step, RelaxedStep)
    return step


def jerked(step: sm.VariationalStep, speed: float) -> sm.Trajectory:
    """The mass swings while its string is let out at a speed, and caught."""
    start = step.rest({"x": 0.6, "y": -0.8})
    k = np.arange(1, 81)[:, None]
    return step.rollout(start, np.hstack([0.1 * np.sin(3 * DT * k), 1.0 + speed * DT * np.minimum(k, 15)]))


@pytest.mark.parametrize("kappa", [1e-1, 1e-3, 1e-6])
def test_force_times_opening_is_kappa(kappa: float) -> None:
    """In units of the weight and of 10 mm; h of a string is its opening times the sum of length and distance."""
    step = relaxed(hanging(), kappa)
    path = jerked(step, 4.0)
    assert path.multipliers is not None
    force = path.multipliers[:, 0] / (MASS * GRAVITY)
    length = path.x[1:, 3]
    opening = -step.system.residuals(path.x[1:, :4])[:, 0] / (2 * length * OPENING)
    assert (force > 0).all()
    assert (opening > 0).all()
    np.testing.assert_allclose(force * opening, kappa, rtol=1e-6)
    assert opening.max() > 5  # it was slack by centimetres
    assert force.max() > 2  # and pulled


def test_a_weight_at_rest_hangs_kappa_centimetres_short() -> None:
    step = relaxed(hanging(), 1e-2)
    x = step.rest({"y": -1.0})
    path = step.rollout(x, np.tile(step.layout.hold(x), (3000, 1)))
    assert path.multipliers is not None
    assert path.multipliers[-400:, 0].mean() == pytest.approx(MASS * GRAVITY, rel=1e-3)
    distance = 1.0 - np.mean(path.x[-400:, 1] ** 2)  # h = opening · 2 length
    assert distance == pytest.approx(2e-2 * OPENING, rel=2e-2)


def test_the_limit_is_the_wire_where_it_is_taut_and_a_fall_where_it_is_slack() -> None:
    """A swing is off its wire's by what the string is short, in proportion to κ; a fall is the midpoint rule's own,
    whose momentum at rest has half a step of gravity.
    """

    def swing(step: sm.VariationalStep) -> np.ndarray:
        return step.rollout(step.rest({"x": 0.6, "y": -0.8}), np.tile([0.0, 1.0], (80, 1))).x[:, :2]

    wire = swing(sm.discretize(hanging(wire=True), DT))
    off = [float(np.abs(swing(relaxed(hanging(), kappa)) - wire).max()) for kappa in (1e-3, 1e-4, 1e-5)]
    assert off[0] / off[1] == pytest.approx(10, rel=0.2)
    assert off[1] / off[2] == pytest.approx(10, rel=0.2)
    step = relaxed(hanging(), 1e-8)
    path = step.rollout(step.rest({"y": -1.0}), np.tile([0.0, 2.0], (20, 1)))
    np.testing.assert_allclose(path.x[:, 1], -1.0 - GRAVITY * path.t * (path.t + DT) / 2, atol=2e-8)


@pytest.mark.parametrize("kappa", [1e-1, 1e-3, 1e-5])
def test_derivatives_are_those_of_differences(kappa: float) -> None:
    """At the corner, where force and opening are alike; it is as wide as √κ, and differences must be finer."""
    step = relaxed(hanging(), kappa)
    path = jerked(step, 4.0)
    assert path.multipliers is not None
    force = path.multipliers[:, 0] / (MASS * GRAVITY)
    corner = int(np.argmin(np.abs(np.log(force**2 / kappa))))
    spacing = 1e-2 * math.sqrt(kappa) * OPENING * np.array([1, 1, 1, 1, MASS / DT, MASS / DT, 1, 1, 1, 1])
    for k in (corner, int(np.argmax(force)), int(np.argmin(force))):
        z = np.random.default_rng(k).normal(size=step.nx) * np.where(np.arange(step.nx) < 4, 1.0, 0.1)
        errors = sm.check_derivatives(step, path.x[k], path.u[k], z, spacing)
        assert errors.A < 1e-7
        assert errors.B < 1e-7
        assert max(errors.xx, errors.xu, errors.uu) < 1e-6


def test_compiled_and_evaluated_find_the_same() -> None:
    """Also where damped steps end in a corner, and Newton's method begins again with the corners rounded off."""
    step = relaxed(hanging(), 1e-10)
    k = np.arange(1, 41)[:, None]
    path = step.rollout(step.rest({"y": -1.0}), np.hstack([0.0 * k, 1.0 + 2 * DT * np.minimum(k, 10)]))
    other, par = step.evaluated(), step.parameter_values
    turns = [step.step(x, u).iterations for x, u in zip(path.x[:-1], path.u, strict=True)]
    hardest = int(np.argmax(turns))
    assert turns[hardest] > 20
    for k in (0, 30, hardest):
        info, after, _ = other.step(par, DT, path.x[k], path.u[k])
        assert (info.status, info.iterations) == (0, turns[k])
        np.testing.assert_allclose(after, path.x[k + 1], atol=1e-10)


def test_a_contact_holds_a_ball_on_its_slope() -> None:
    """It comes down 10 cm and slides: acceleration along the slope is g sin 0.3."""
    step = relaxed(ball(), 1e-6)
    path = step.rollout(step.rest({"z": 0.1}), np.zeros((60, 0)))
    height = -step.system.gaps(path.x[:, :2])[:, 0]
    assert height.min() > 0
    assert height[30:].max() < 1e-5
    along = path.x[:, :2] @ [math.cos(0.3), -math.sin(0.3)]
    assert np.diff(along, 2)[30:] / DT**2 == pytest.approx(GRAVITY * math.sin(0.3), rel=1e-4)


def test_gaps_that_are_not_named_do_not_exist() -> None:
    step = sm.discretize(ball(), DT, gaps="relaxed", contacts=())
    path = step.rollout(step.rest({"z": 0.0}), np.zeros((20, 0)))
    assert path.x[-1, 1] == pytest.approx(-GRAVITY * 0.2 * (0.2 + DT) / 2, rel=1e-9)
    np.testing.assert_array_equal(path.multipliers, 0)


def test_another_kappa_shares_what_is_compiled() -> None:
    step = relaxed(hanging(), 1e-2)
    other, fresh = step.with_kappa(1e-4), relaxed(hanging(), 1e-4)
    assert other.kernel is step.kernel
    np.testing.assert_array_equal(jerked(other, 4.0).x, jerked(fresh, 4.0).x)
    again = pickle.loads(pickle.dumps(other))
    assert again.options == fresh.options == {"forces": "held", "kappa": 1e-4, "contacts": None}
    np.testing.assert_array_equal(jerked(again, 4.0).x, jerked(fresh, 4.0).x)


@pytest.mark.parametrize("kappa", [0.0, -1e-3, math.nan, "soft"])
def test_kappa_is_positive(kappa: object) -> None:
    with pytest.raises(sm.ModelError, match="kappa"):
        sm.discretize(hanging(), DT, gaps="relaxed", kappa=kappa)  # type: ignore[arg-type]
    with pytest.raises(sm.ModelError, match="kappa"):
        relaxed(hanging(), 1e-2).with_kappa(kappa)  # type: ignore[arg-type]


def test_what_cannot_be_relaxed_is_refused_in_words() -> None:
    with pytest.raises(sm.ModelError, match=r"contact 'slope' has a restitution of 0.8.*event step.*restitution=0"):
        sm.discretize(ball(restitution=0.8), DT, gaps="relaxed")
    with pytest.raises(sm.ModelError, match=r"contact 'slope' sticks.*event step.*friction=None"):
        sm.discretize(ball(friction=math.inf), DT, gaps="relaxed")
    with pytest.raises(sm.ModelError, match="contacts: no gap is called 'wall'; there are slope"):
        sm.discretize(ball(), DT, gaps="relaxed", contacts=("wall",))
    with pytest.raises(sm.ModelError, match="contacts: expected names of gaps, got 'slope'"):
        sm.discretize(ball(), DT, gaps="relaxed", contacts="slope")
    with pytest.raises(sm.ModelError, match="gaps: expected 'events' or 'relaxed', got 'soft'"):
        sm.discretize(ball(), DT, gaps="soft")  # type: ignore[arg-type]
    with pytest.raises(sm.ModelError, match="kappa: smooths relaxed gaps; give gaps='relaxed'"):
        sm.discretize(sm.systems.get("pendulum"), DT, kappa=1e-3)
