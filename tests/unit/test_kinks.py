"""Searches through events: feedback where the events of two trajectories differ, and ends on kinks."""

from __future__ import annotations

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal import Status

DT, STEPS, GRAVITY = 0.01, 80, 9.81


def ball(restitution: float) -> sm.System:
    """A mass of 1 kg above a floor, pushed by forces."""
    b = sm.Builder("ball")
    x, z = (b.coordinate(name, unit="m") for name in "xz")
    point = b.world.tx(x).tz(z, name="point")
    b.mass(point, 1.0)
    b.gravity((0, 0, -GRAVITY))
    for coordinate, name in ((x, "push"), (z, "lift")):
        b.drive(coordinate, b.input(name, unit="N"))
    b.contact(point, b.world, restitution=restitution, name="floor")
    return b.build()


def thrown(step: sm.VariationalStep, height: float = 0.5) -> np.ndarray:
    return step.from_velocity({"x": 0.0, "z": height}, {"x": 1.0, "z": 0.0}, instant=True)


@pytest.mark.parametrize("restitution", [0.8, 0.0])
def test_feedback_is_off_where_events_differ(restitution: float) -> None:
    """A ball that falls from lower strikes first; until the reference has struck too, its inputs are those of that."""
    step, steps = sm.discretize(ball(restitution), DT), 60  # before a second bounce
    reference = step.rollout(thrown(step), np.zeros((steps, 2)))
    K = np.random.default_rng(1).normal(size=(steps, 2, 4))
    path = step.follow(thrown(step, 0.45), reference, 1e-3 * K)
    (early, *_), (late, *_) = path.events, reference.events
    assert early.time == pytest.approx(np.sqrt(2 * 0.45 / GRAVITY), abs=1e-3)
    assert late.time == pytest.approx(np.sqrt(2 * 0.5 / GRAVITY), abs=1e-3)
    differ = np.zeros(steps, dtype=bool)
    differ[early.step + 1 : late.step + 1] = True
    dx = path.x[:-1] - reference.x[:-1]
    wanted = reference.u - 1e-3 * np.einsum("kij,kj->ki", K, dx)
    np.testing.assert_array_equal(path.u[differ], reference.u[differ])
    np.testing.assert_allclose(path.u[~differ], wanted[~differ], atol=1e-15)
    assert 1 <= differ.sum() <= 3


def test_a_gap_that_closed_and_opened_again_leaves_no_trace() -> None:
    """A string that only one of two swings pulls taut for a while: feedback is back as soon as both are slack."""
    b = sm.Builder("hung")
    z = b.coordinate("z", unit="m")
    point = b.world.tz(z, name="point")
    b.mass(point, 1.0)
    b.gravity((0, 0, -GRAVITY))
    b.drive(z, b.input("lift", unit="N"))
    b.string(point, b.world.tz(1.0, name="hook"), 1.0, name="line")  # taut at z = 0
    step = sm.discretize(b.build(), DT)
    lift = np.zeros((40, 1))
    lift[10:, 0] = 2.5 * GRAVITY
    low, high = (step.rest({"z": height}) for height in (0.02, 0.2))
    reference = step.rollout(high, lift)  # turns before the string is taut
    assert reference.events == ()
    path = step.follow(low, reference, np.full((40, 1, 2), 1e-2))
    assert [event.kind for event in path.events] == ["impact", "release"]
    impact, release = (event.step for event in path.events)
    on = np.abs(path.u - reference.u)[:, 0] > 0
    assert on[: impact + 1].all()
    assert not on[impact + 1 : release + 1].any()
    assert on[release + 1 :].all()


def test_references_without_events_are_followed_as_ever() -> None:
    """Those of a user have none: nothing can be compared."""
    step = sm.discretize(ball(0.8), DT)
    rolled = step.rollout(thrown(step), np.zeros((STEPS, 2)))
    plain = sm.Trajectory(rolled.t, rolled.x, rolled.u)
    K = np.full((STEPS, 2, 4), 1e-3)
    path = step.follow(thrown(step, 0.45), plain, K)
    np.testing.assert_allclose(path.u, -np.einsum("kij,kj->ki", K, path.x[:-1] - plain.x[:-1]), atol=1e-15)


def target(step: sm.VariationalStep) -> sm.Problem:
    """To be somewhere after the bounce, with small forces."""
    x_ref = np.tile([1.2, 0.6, 0.0, 0.0], (STEPS + 1, 1))
    cost = sm.TrackingCost(np.zeros((4, 4)), 1e-3 * np.eye(2), np.diag([100, 100, 0, 0]), x_ref, np.zeros((STEPS, 2)))
    weights = np.eye(4), np.eye(2), np.eye(4)
    guess = step.rollout(thrown(step), np.zeros((STEPS, 2)))
    return sm.Problem(step, cost, thrown(step), guess, regulator=weights)


def test_a_search_that_ends_on_a_kink_names_the_event() -> None:
    """The forces jump at the bounce, so the least cost has the bounce at a node; nothing descends from there."""
    step = sm.discretize(ball(0.8), DT)
    found = sm.optimize(target(step), method="gauss-newton")
    assert found.status is Status.KINK
    assert found.kink is not None
    assert (found.kink.name, found.kink.kind) == ("floor", "impact")
    node = found.kink.time / DT
    assert node == pytest.approx(round(node), abs=1e-4)
    assert "impact of 'floor' at" in found.advice
    with pytest.raises(sm.ConvergenceError, match=r"kink.*relaxed gaps.*impact of 'floor' at 0\.3"):
        found.require()


def test_newton_through_a_bounce_converges_quadratically() -> None:
    """A ball is pushed for 0.1 s, and then flies and bounces to a target: three steps, by exact second derivatives.

    From the last push on its way is two parabolas, and a speed that is turned and multiplied by 0.8.
    """
    step, pushed = sm.discretize(ball(0.8), DT), 10
    start, aim = thrown(step), np.array([1.2, 0.3, 0.0, 0.0])
    R = np.tile(1e6 * np.eye(2), (STEPS, 1, 1))
    R[:pushed] = 1e-3 * np.eye(2)
    x_ref, free = np.tile(aim, (STEPS + 1, 1)), np.zeros((STEPS, 2))
    cost = sm.TrackingCost(np.zeros((4, 4)), DT * R, np.diag([1, 1, 0, 0]), x_ref, free)
    weights = np.eye(4), np.eye(2), np.eye(4)
    found = sm.optimize(sm.Problem(step, cost, start, step.rollout(start, free), regulator=weights))
    assert found.status is Status.CONVERGED
    assert len(found.history) - 1 <= 4
    slopes = [abs(entry.slope) for entry in found.history[1:]]
    assert slopes[2] < 1e-3 * slopes[1] < 1e-6 * slopes[0]
    x, z, vx, vz = found.trajectory.x[pushed]  # of a mass of 1 kg: p is its velocity
    left = (STEPS - pushed) * DT
    fall = (vz + np.sqrt(vz**2 + 2 * GRAVITY * z)) / GRAVITY
    after, flight = 0.8 * (GRAVITY * fall - vz), left - fall
    np.testing.assert_allclose(
        found.trajectory.x[-1, :2], [x + vx * left, after * flight - GRAVITY * flight**2 / 2], atol=1e-6
    )
    assert np.linalg.norm(found.trajectory.x[-1, :2] - aim[:2]) < 0.06  # effort has its price


def test_smooth_searches_have_no_kink() -> None:
    found = sm.optimize(target(sm.discretize(ball(0.8), DT)), method="gauss-newton", max_iterations=1)
    assert found.status is Status.ITERATIONS
    assert found.kink is None
