"""Limit cycles of machines that walk down a slope, at their published places."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stepmap as sm
from tests import walkers

PUBLISHED = np.array([0.2187, -0.3234, -1.0918, -0.3772])  # Goswami, Thuilot & Espiau 1998, slope 3°
LENGTHS = (0.02, 0.005)
SLOPE = math.radians(3.0)


@pytest.fixture(scope="module")
def compass() -> walkers.Stride:
    return walkers.cycle(walkers.continuous(), PUBLISHED)


def test_the_compass_in_continuous_time_is_the_published_one(compass: walkers.Stride) -> None:
    np.testing.assert_allclose(compass.state, PUBLISHED, atol=5e-5)


def test_the_compass_walks_its_cycle_at_order_2(compass: walkers.Stride) -> None:
    errors = []
    for dt in LENGTHS:
        found = walkers.cycle(walkers.mapped(dt), PUBLISHED)
        errors.append([np.abs(found.state - compass.state).max(), abs(found.time - compass.time)])
    orders = np.log(np.array(errors[0]) / errors[1]) / math.log(LENGTHS[0] / LENGTHS[1])
    assert orders.min() >= 1.8
    assert errors[1][0] <= 5e-5


def test_the_compass_s_multipliers(compass: walkers.Stride) -> None:
    """The cycle attracts at 3°; at 4.37° it doubles its period, by the literature: a multiplier near −1."""
    stride = walkers.mapped(LENGTHS[1])
    gentle = walkers.Return(stride, SLOPE).multipliers(walkers.cycle(stride, PUBLISHED).state)
    true = walkers.Return(walkers.continuous(), SLOPE).multipliers(compass.state)
    np.testing.assert_allclose(np.sort_complex(gentle), np.sort_complex(true), atol=1e-3)
    reduced = PUBLISHED[[0, 2, 3]]
    for slope in np.radians([3.4, 3.8, 4.1, 4.37]):
        steep = walkers.Return(walkers.mapped(LENGTHS[1], slope), slope)
        reduced = steep.fixed(reduced)
    assert np.linalg.eigvals(steep.jacobian(reduced)).real.min() == pytest.approx(-1.0, abs=0.05)


def test_the_rimless_wheel_rolls_its_gait_at_order_2() -> None:
    wheel, errors = walkers.Wheel(), []
    for dt in LENGTHS:
        squares = wheel.rolled(dt)
        limit = squares[-5:].mean()
        errors.append(abs(math.sqrt(limit) - wheel.speed))
        assert (squares[1] - limit) / (squares[0] - limit) == pytest.approx(wheel.kept**2, abs=5e-4)
    assert math.log(errors[0] / errors[1]) / math.log(LENGTHS[0] / LENGTHS[1]) >= 1.8
    assert errors[1] <= 5e-5


def test_a_foot_that_is_not_in_the_map_may_be_in_the_ground() -> None:
    system = sm.systems.get("compass_walker")
    pose, velocity = walkers.full(np.array([0.2, 0.0, -1.0, 1.0]))
    step = sm.discretize(system, 0.01, contacts=("left_foot",))
    assert step.from_velocity(pose, velocity, instant=True)[:4] == pytest.approx(pose)
    with pytest.raises(sm.ModelError, match="beyond gap 'right_foot'"):
        sm.discretize(system, 0.01).from_velocity(pose, velocity, instant=True)
