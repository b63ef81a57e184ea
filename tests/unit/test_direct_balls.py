"""Direct optimal control of what turns freely: a helicopter with a tilted rotor, a ball joint, goals as attitudes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import stepmap as sm

MASS, GRAVITY = 11.0, 9.81


def helicopter() -> sm.System:
    """Lift along a rotor's axis that tilts, a tail rotor on a boom (after Kobilarov et al.)."""
    b = sm.Builder("helicopter")
    body = b.world.free("body")
    b.mass(body, MASS, inertia=(0.25, 0.5, 0.4))
    b.gravity((0, 0, -GRAVITY))
    lift, tail = b.input("lift", low=0.0, high=250.0), b.input("tail", low=-20.0, high=20.0)
    pitch, roll = b.input("pitch", low=-0.3, high=0.3), b.input("roll", low=-0.3, high=0.3)
    upward = lift * sm.cos(pitch) * sm.cos(roll)
    b.wrench(body.tz(0.3, name="rotor"), force=(lift * sm.sin(pitch) * sm.cos(roll), -lift * sm.sin(roll), upward))
    b.wrench(body.tx(-0.9, name="boom"), force=(0, tail, 0))
    return b.build()


def yaw(angle: float) -> tuple[float, ...]:
    return math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2)


FLIGHT: Any = {
    "start": {"body": (0, 0, 0, *yaw(0.0))},
    "goal": {"body": (6, 4, 2, *yaw(1.0))},
    "running": f"1e-3*((lift - {MASS * GRAVITY})**2 + tail**2) + 2*(pitch**2 + roll**2)",
}


@pytest.fixture(scope="module")
def flight() -> sm.DirectSolution:
    return sm.direct(helicopter(), steps=64, time=4.0, **FLIGHT).require()


def test_plans_lie_on_the_map_of_free_bodies(flight: sm.DirectSolution) -> None:
    path, step = flight.trajectory, flight.step
    ends = [step.step(x, u).x for x, u in zip(path.x[:-1], path.u, strict=True)]
    assert max(np.abs(step.layout.difference(a, b)).max() for a, b in zip(ends, path.x[1:], strict=True)) < 1e-9
    assert np.abs(np.linalg.norm(path.x[:, 3:7], axis=1) - 1).max() < 1e-9


def test_goals_are_attitudes_at_rest(flight: sm.DirectSolution) -> None:
    last = flight.trajectory.x[-1]
    np.testing.assert_allclose(last[:3], [6, 4, 2], atol=1e-9)
    assert abs(np.dot(last[3:7], yaw(1.0))) == pytest.approx(1.0, abs=1e-12)  # of either sign
    np.testing.assert_allclose(last[7:], 0, atol=1e-9)


def test_gains_bring_a_flight_back(flight: sm.DirectSolution) -> None:
    step, plan = flight.step, flight.plan
    assert plan.gains.shape == (64, 4, 12)
    off = np.zeros(12)
    off[:6] = 0.2, 0.0, 0.0, 0.15, 0.0, 0.0  # m, rad
    closed = step.follow(step.layout.retract(plan.trajectory.x[0], off), plan.trajectory, plan.gains)
    assert np.abs(step.layout.difference(plan.trajectory.x[-1], closed.x[-1])[:6]).max() < 0.01


def test_costs_of_flights_converge_with_order_two(flight: sm.DirectSolution) -> None:
    costs = [sm.direct(helicopter(), steps=n, time=4.0, guess=flight, **FLIGHT).require().cost for n in (64, 128, 256)]
    # Differences of an error of order 2 fall by 4; inputs touch no limit here.
    assert (costs[0] - costs[1]) / (costs[1] - costs[2]) == pytest.approx(4.0, abs=0.3)


def test_rates_of_turns_are_limited_by_name() -> None:
    # Turned by 2 rad within 2 s, no faster than 1.3 rad/s.
    given = FLIGHT | {"goal": {"body": (0, 0, 0, *yaw(2.0))}}
    found = sm.direct(helicopter(), steps=32, time=2.0, limits={"v_body.rz": (-1.3, 1.3)}, **given).require()
    turns = found.step.layout.difference(found.trajectory.x[:-1], found.trajectory.x[1:])[:, 5] / found.step.dt
    assert np.abs(turns).max() <= 1.3 + 1e-6


def test_what_is_no_attitude_is_refused() -> None:
    with pytest.raises(sm.ModelError, match="the quaternion"):
        sm.direct(helicopter(), **(FLIGHT | {"goal": {"body": (0, 0, 0, 2, 0, 0, 0)}}))
    with pytest.raises(sm.ModelError, match="expected 7 numbers"):
        sm.direct(helicopter(), **(FLIGHT | {"goal": {"body": (0, 0, 0)}}))
