"""Forces as expressions of inputs, coordinates, rates and parameters; a moment between two frames."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import casadi as ca
import numpy as np
import pytest
from scipy.optimize import brentq

import stepmap as sm
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.quantity import Coordinate
from tests.mechanisms import generalized_force

RNG = np.random.default_rng(17)
MASS, INERTIA = 1.3, 0.2


def rotor(push: Callable[[sm.Builder, Frame, dict[str, Coordinate]], None]) -> sm.System:
    """A body in a vertical plane with an input ``lift`` and an input ``tilt`` of the rotor."""
    b = sm.Builder("rotor")
    at = {name: b.coordinate(name) for name in ("x", "y", "pitch")}
    body = b.world.tx(at["x"]).ty(at["y"]).rz(at["pitch"], name="body")
    b.mass(body, MASS, inertia=(0, 0, INERTIA))
    b.gravity((0, -9.81, 0))
    push(b, body, at)
    return b.build()


def by_expression(b: sm.Builder, body: Frame, at: dict[str, Coordinate]) -> None:
    lift, tilt = b.input("lift", unit="N", low=0.0, high=30.0), b.input("tilt", unit="rad", low=-0.5, high=0.5)
    arm = b.parameter("arm", 0.4, unit="m")
    b.wrench(body, force=(-lift * sm.sin(tilt), lift * sm.cos(tilt), 0.0), moment=(0.0, 0.0, arm * lift * sm.sin(tilt)))


def test_an_expression_of_inputs_is_its_value() -> None:
    """Force F R(pitch) (−sin tilt, cos tilt) and moment arm F sin tilt, by hand."""
    system = rotor(by_expression)
    q, v, (lift, tilt) = RNG.uniform(-1, 1, 3), RNG.uniform(-1, 1, 3), (11.0, 0.3)
    turned = q[2] + tilt
    expected = [-lift * np.sin(turned), lift * np.cos(turned), 0.4 * lift * np.sin(tilt)]
    np.testing.assert_allclose(generalized_force(system, q, v, [lift, tilt]), expected, rtol=1e-14)
    longer = system.with_parameters(arm=0.8)
    assert generalized_force(longer, q, v, [lift, tilt])[2] == pytest.approx(2 * expected[2], rel=1e-14)


def test_derivatives_of_a_step_with_expressions() -> None:
    step = sm.discretize(rotor(by_expression), 0.02)
    x = step.from_velocity(RNG.uniform(-1, 1, 3), RNG.uniform(-1, 1, 3))
    found = sm.check_derivatives(step, x, np.array([11.0, 0.3]), RNG.uniform(-1, 1, 6))
    assert max(found.A, found.B) <= 1e-9
    assert found.worst <= 1e-7


def test_coordinates_in_expressions_turn_a_force_as_axes_do() -> None:
    """A force along the body's own y is, in the world's axes, (−sin pitch, cos pitch)."""

    def own_axes(b: sm.Builder, body: Frame, at: dict[str, Coordinate]) -> None:
        b.wrench(body, force=(0.0, b.input("lift"), 0.0))

    def world_axes(b: sm.Builder, body: Frame, at: dict[str, Coordinate]) -> None:
        lift, pitch = b.input("lift"), at["pitch"]
        b.wrench(body, force=(-lift * sm.sin(pitch), lift * sm.cos(pitch), 0.0), body=False)

    ends = []
    for push in (own_axes, world_axes):
        step = sm.discretize(rotor(push), 0.01)
        start = step.from_velocity([0.1, 0.2, 0.4], [0.3, 0.0, 1.5])
        ends.append(step.rollout(start, np.full((200, 1), 14.0)).x[-1])
    # 200 steps of Newton's method, each to rounding of numbers around 10
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-11)


def test_a_rate_in_an_expression_is_the_velocity() -> None:
    q, v = RNG.uniform(-1, 1, (2, 3))

    def drag(b: sm.Builder, body: Frame, at: dict[str, Coordinate]) -> None:
        b.drive(at["x"], -0.7 * at["x"].rate)
        b.drive(at["y"], -0.2 * at["y"].rate * sm.sqrt(at["x"].rate ** 2 + at["y"].rate ** 2))

    speed = np.hypot(v[0], v[1])
    np.testing.assert_allclose(
        generalized_force(rotor(drag), q, v), [-0.7 * v[0], -0.2 * v[1] * speed, 0.0], rtol=1e-14
    )


def test_arithmetic_is_that_of_numbers() -> None:
    b = sm.Builder("numbers")
    x, force = b.coordinate("x"), b.input("force")
    made = [
        (3 + x, 3.5), (x + 3, 3.5), (3 - x, 2.5), (x - 3, -2.5), (2 * x, 1.0), (x * 2, 1.0),
        (1 / x, 2.0), (x / 2, 0.25),
        (x**2, 0.25), (2**x, 2**0.5), (-x, -0.5), (+x, 0.5), (abs(-x), 0.5),
        (np.float64(2.0) * x, 1.0), (x * force, 2.0),
        (sm.sqrt(x) * sm.exp(x) + sm.log(x) - sm.tanh(x), 0.5**0.5 * np.exp(0.5) + np.log(0.5) - np.tanh(0.5)),
        (sm.sin(x) + sm.cos(x) * sm.tan(x), 2 * np.sin(0.5)),
        (sm.asin(x) + sm.acos(x) + sm.atan(x), np.pi / 2 + np.arctan(0.5)),
        (sm.atan2(x, force), np.arctan2(0.5, 4.0)),
        (b.parameter("two", 2.0) * x, None),
    ]  # fmt: skip
    for expression, value in made[:-1]:
        found = ca.Function("f", [x.symbol, force.symbol], [expression])(0.5, 4.0)
        assert float(found) == pytest.approx(value, rel=1e-14)
    assert isinstance(made[-1][0], ca.SX)  # a parameter from the left
    assert float(sm.sin(0.5)) == pytest.approx(np.sin(0.5), rel=1e-15)


def test_a_moment_between_frames_is_a_moment_with_its_reaction() -> None:
    """In a chain of three turns, the moment on the last link and its reaction on the first, as two wrenches."""

    def arm(act: Callable[[sm.Builder, Frame, Frame], None]) -> sm.System:
        b = sm.Builder("arm")
        frame = first = b.world
        for kind in ("rx", "ry", "rz"):
            frame = getattr(frame, kind)(b.coordinate(kind)).tz(0.3)
            b.mass(frame, 1.0, inertia=(0.1, 0.1, 0.1))
            first = frame if first is b.world else first
        act(b, frame, first)
        return b.build()

    q, v = RNG.uniform(-1, 1, (2, 3))
    m = np.array([0.3, -0.8, 1.1])
    found = generalized_force(arm(lambda b, last, first: b.moment(last, first, m)), q, v)

    def turn(axis: int, angle: float) -> np.ndarray:
        i, j = (axis + 1) % 3, (axis + 2) % 3
        out = np.eye(3)
        out[i, i] = out[j, j] = np.cos(angle)
        out[i, j], out[j, i] = -np.sin(angle), np.sin(angle)
        return out

    after_first = turn(1, q[1]) @ turn(2, q[2])

    def wrenches(b: sm.Builder, last: Frame, first: Frame) -> None:
        b.wrench(last, moment=m)
        b.wrench(first, moment=-after_first @ m)

    np.testing.assert_allclose(found, generalized_force(arm(wrenches), q, v), rtol=0, atol=1e-15)
    assert found[0] == pytest.approx(0.0, abs=1e-15)  # the first joint turns both


def test_a_moment_about_a_hinge_is_its_drive() -> None:
    forces = []
    for moment in (True, False):
        b = sm.Builder("hinge")
        torque, turn, phi = b.input("torque"), b.coordinate("turn"), b.coordinate("phi")
        base = b.world.rz(turn, name="base")
        link = base.rz(phi, name="link")
        for frame in (base, link):
            b.mass(frame, 1.0, inertia=(0, 0, 0.3))
        b.moment(link, base, (0, 0, 2 * torque)) if moment else b.drive(phi, 2 * torque)
        forces.append(generalized_force(b.build(), [0.4, 0.7], [0.0, 0.0], [1.5]))
    np.testing.assert_allclose(forces[0], forces[1], rtol=1e-15)
    np.testing.assert_allclose(forces[0], [0.0, 3.0], rtol=1e-15)


def test_a_step_with_expressions_goes_through_pickle() -> None:
    step = sm.discretize(rotor(by_expression), 0.02)
    again = pickle.loads(pickle.dumps(step))
    x, u = step.rest([0.1, 0.2, 0.3]), [9.0, 0.2]
    np.testing.assert_array_equal(again.step(x, u).x, step.step(x, u).x)
    moved = pickle.loads(pickle.dumps(step.system.with_start({"pitch": 0.2})))
    np.testing.assert_array_equal(
        generalized_force(moved, [0, 0, 0.2], [0, 0, 0], u), generalized_force(step.system, [0, 0, 0.2], [0, 0, 0], u)
    )


def test_holding_forces_where_the_force_is_not_linear_in_the_inputs() -> None:
    """Two rotors on a beam, thrust k s² of speeds s: both balance the weight, each its share by the lever."""
    b = sm.Builder("beam")
    y, pitch = b.coordinate("y"), b.coordinate("pitch")
    body = b.world.ty(y).rz(pitch, name="body")
    b.mass(body, MASS, inertia=(0, 0, INERTIA))
    b.gravity((0, -9.81, 0))
    for name, side in (("left", -0.2), ("right", 0.3)):
        speed = b.input(name, unit="rad/s", low=1.0, high=400.0)
        b.wrench(body.tx(side, name=f"{name}_rotor"), force=(0, 2e-4 * speed**2, 0))
    step = sm.discretize(b.build(), 0.01)
    speeds = step.holding_forces({"y": 1.0})
    assert speeds is not None
    weight = MASS * 9.81
    left = brentq(lambda s: 2e-4 * s**2 - 0.6 * weight, 1.0, 400.0)
    right = brentq(lambda s: 2e-4 * s**2 - 0.4 * weight, 1.0, 400.0)
    np.testing.assert_allclose(speeds, [left, right], rtol=1e-9)
    x = step.rest({"y": 1.0}, speeds)
    np.testing.assert_allclose(step.step(x, speeds).x, x, rtol=0, atol=1e-12)


def test_what_an_expression_may_hold() -> None:
    b, other = sm.Builder("here"), sm.Builder("there")
    x = b.coordinate("x")
    force = b.input("force")
    foreign, strange = other.input("foreign"), ca.SX.sym("strange")
    body = b.world.tx(x, name="body")
    b.mass(body, 1.0)
    with pytest.raises(sm.ModelError, match="drive: foreign is no input, coordinate or parameter of this builder"):
        b.drive(x, 2 * foreign)
    with pytest.raises(sm.ModelError, match="wrench force: strange is no input"):
        b.wrench(body, force=(strange * force, 0, 0))
    with pytest.raises(sm.ModelError, match="moment: expected three entries"):
        b.moment(body, b.world, (force, 0))
    with pytest.raises(sm.ModelError, match="moment: both ends are frame 'body'"):
        b.moment(body, body, (force, 0, 0))
    with pytest.raises(sm.ModelError, match="force is an input; only numbers and parameters can stand here"):
        b.mass(body, 2 * force)
    with pytest.raises(sm.ModelError, match="x is a coordinate; only numbers"):
        body.ty(2 * x)
    with pytest.raises(sm.ModelError, match="expected one number, got an expression of shape"):
        b.drive(x, ca.vertcat(force, force))
    with pytest.raises(sm.ModelError, match="an expression holds numbers, inputs, coordinates and parameters"):
        force * [2.0, 3.0]
