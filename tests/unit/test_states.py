"""States: rest, motion, poses on constraints, equilibria."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stepmap as sm
from tests.mechanisms import case

DT = 0.05


@pytest.fixture(scope="module")
def pendulum() -> sm.VariationalStep:
    return sm.discretize(sm.systems.get("pendulum", mass=1.3, length=0.7), DT)


@pytest.fixture(scope="module")
def arm() -> sm.VariationalStep:
    return sm.discretize(sm.systems.get("planar_arm"), DT)


def test_rest_carries_half_a_step_of_the_potential(pendulum: sm.VariationalStep) -> None:
    """p = −dt/2 dV/dθ = −dt/2 m g l sin θ."""
    x = pendulum.rest({"theta": 0.6})
    np.testing.assert_allclose(x, [0.6, -DT / 2 * 1.3 * 9.8 * 0.7 * math.sin(0.6)], rtol=1e-14)


def test_velocity_of_the_last_step_gives_the_state_that_step_ends_in(pendulum: sm.VariationalStep) -> None:
    """From θ to θ + dt v: p = D2 Ld of that very step, and half the impulse of its force."""
    before = pendulum.from_velocity({"theta": 0.3}, {"theta": 1.0})
    after = pendulum.step(before, [0.4]).x
    moved = (after[0] - before[0]) / DT
    np.testing.assert_allclose(pendulum.from_velocity([after[0]], [moved], forces=[0.4]), after, rtol=1e-12)


def test_velocity_of_an_instant_is_the_continuous_momentum(pendulum: sm.VariationalStep) -> None:
    x = pendulum.from_velocity({"theta": 0.3}, {"theta": 2.0}, instant=True)
    np.testing.assert_allclose(x, [0.3, 1.3 * 0.7**2 * 2.0], rtol=1e-14)
    np.testing.assert_allclose(pendulum.velocity(x), [2.0], rtol=1e-14)


def test_kinematic_velocity_goes_into_the_state(arm: sm.VariationalStep) -> None:
    x = arm.from_velocity(arm.system.satisfy_constraints({}), {"x": 0.3, "L": -0.2})
    np.testing.assert_array_equal(arm.unpack(x).v, [0.3, -0.2])


def test_velocity_takes_the_impulse_of_the_constraint_off() -> None:
    """p may carry any multiple of D h: the velocity that belongs to it is the same and tangent."""
    moving = case("suspended_mass")
    step, x = moving.midpoint, moving.x
    xm, ym, xr, _ = x[:4]
    pushed = x + np.array([0, 0, 0, 0, xm - xr, ym - 1, 0, 0])
    np.testing.assert_allclose(step.velocity(pushed), step.velocity(x), rtol=0, atol=1e-14)
    assert abs(step.system.gap_velocities(x[:4], step.velocity(x))[0]) < 1e-15


def test_pose_off_a_constraint_is_refused_by_name(arm: sm.VariationalStep) -> None:
    with pytest.raises(sm.ModelError, match=r"off constraint 'string' by -0\.377 m.*satisfy_constraints"):
        arm.rest({"theta1": 1.0})
    with pytest.raises(sm.ModelError, match="off constraint 'string'"):
        arm.from_velocity({"theta1": 1.0}, {})
    with pytest.raises(sm.ModelError, match="off constraint 'string'"):
        sm.euler(arm.system, DT).rest({"theta1": 1.0})


def test_satisfied_pose_is_the_nearest_one() -> None:
    """The mass at (2, 1) pulled onto the circle about (0, 1) with the robot and the string fixed: along the radius."""
    system = sm.systems.get("suspended_mass")
    pose = system.satisfy_constraints({"xm": 2.0, "ym": 1.0}, fixed=["xr", "r"])
    np.testing.assert_allclose(pose, [1.0, 1.0, 0.0, 1.0], rtol=0, atol=1e-15)


def test_satisfied_pose_keeps_what_is_fixed(arm: sm.VariationalStep) -> None:
    pose = arm.satisfy_constraints({"theta1": 0.4, "theta2": 0.5}, fixed=["theta1", "theta2", "x"])
    np.testing.assert_array_equal(pose[:3], [0.4, 0.5, 0.5])
    assert abs(arm.system.gaps(pose)[0]) < 1e-15
    tip = 0.25 * np.array([math.cos(0.4) + math.cos(0.9), math.sin(0.4) + math.sin(0.9)])
    assert pose[3] == pytest.approx(np.linalg.norm(tip - [0.5, 1.0]), rel=1e-15)


def test_pose_that_cannot_be_reached_says_how_far_it_came(arm: sm.VariationalStep) -> None:
    """The arm reaches 0.5 m; the string's end at (0.5, 1) is 1.118 m away, so 0.1 m of string is too short."""
    with pytest.raises(sm.ConvergenceError, match="no pose near") as caught:
        arm.satisfy_constraints({"L": 0.1}, fixed=["x", "L"])
    nearest = math.hypot(0.5, 1.0) - 0.5
    assert caught.value.iterations > 0
    assert caught.value.residual >= nearest**2 - 0.1**2 - 1e-9
    assert caught.value.x.shape == (4,)


def test_unknown_fixed_coordinate_is_refused(arm: sm.VariationalStep) -> None:
    with pytest.raises(sm.ModelError, match="fixed: no coordinate is called 'z'"):
        arm.satisfy_constraints({}, fixed=["z"])


# equilibria -----------------------------------------------------------------------------------------------------


def test_pendulum_rests_where_its_torque_balances_gravity(pendulum: sm.VariationalStep) -> None:
    x, u = pendulum.equilibrium({"theta": 0.2}, [3.0])
    assert x[0] == pytest.approx(math.asin(3.0 / (1.3 * 9.8 * 0.7)), rel=1e-12)
    np.testing.assert_array_equal(u, [3.0])
    np.testing.assert_allclose(pendulum.step(x, u).x, x, rtol=0, atol=1e-14)


def test_upright_pendulum_is_an_equilibrium_too(pendulum: sm.VariationalStep) -> None:
    x, _ = pendulum.equilibrium({"theta": 3.0})
    assert x[0] == pytest.approx(math.pi, rel=1e-12)


def test_mass_hangs_below_its_spring() -> None:
    b = sm.Builder("spring")
    ball = b.world.ty(b.coordinate("y"))
    b.mass(ball, 2.0)
    b.gravity((0, -9.8, 0))
    b.spring(ball, b.world.ty(1.0), stiffness=50.0, length=0.3)
    step = sm.discretize(b.build(), DT)
    x, _ = step.equilibrium({"y": 0.0})
    assert x[0] == pytest.approx(1.0 - 0.3 - 2.0 * 9.8 / 50.0, rel=1e-12)


def test_mass_on_a_string_hangs_below_the_robot() -> None:
    step = sm.discretize(sm.systems.get("suspended_mass"), DT)
    x, u = step.equilibrium({"xm": 0.1, "ym": 0.1, "xr": 0.3, "r": 0.8})
    np.testing.assert_allclose(x[:4], [0.3, 0.2, 0.3, 0.8], rtol=0, atol=1e-12)
    after = step.step(x, u)
    np.testing.assert_allclose(after.x, x, rtol=0, atol=1e-14)
    np.testing.assert_allclose(after.multipliers, [0.1 * 9.81], rtol=1e-10)


def test_marionette_hangs_in_balance() -> None:
    """Held by its strings, vertical ones, the tensions together carry its weight."""
    step = case("marionette").midpoint
    x, u = step.equilibrium({})
    after = step.step(x, u)
    np.testing.assert_allclose(after.x, x, rtol=0, atol=1e-12)
    q = x[: step.nd + step.nk]
    where = dict(zip(step.system.frame_names, step.system.positions(q), strict=True))
    lift = 0.0
    for name, tension in zip(step.system.constraint_names, after.multipliers, strict=True):
        string = where[f"{name}_control"] - where[f"{name}_hook"]
        lift += tension * string[2] / np.linalg.norm(string)
    weight = 9.8 * (10.0 + 0.75 + 4 * 1.5 + 4 * 0.5)
    assert lift == pytest.approx(weight, rel=1e-9)


def test_torque_beyond_the_weight_has_no_equilibrium(pendulum: sm.VariationalStep) -> None:
    with pytest.raises(sm.ConvergenceError, match="no equilibrium of 'pendulum'") as caught:
        pendulum.equilibrium({"theta": 0.3}, [20.0])
    assert caught.value.residual >= 20.0 - 1.3 * 9.8 * 0.7 - 1e-9
    assert caught.value.x.shape == (1,)


def test_forces_of_a_wrong_size_are_refused(pendulum: sm.VariationalStep) -> None:
    with pytest.raises(sm.ShapeError, match="forces: expected 1"):
        pendulum.equilibrium({}, [1.0, 2.0])
