"""What a step says about arguments it cannot use and steps that cannot be solved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from tests.mechanisms import case, hold

NAN, INF = float("nan"), float("inf")


@pytest.fixture(params=["midpoint", "euler"])
def cart(request: pytest.FixtureRequest) -> Any:
    """A step with four states and one input."""
    return getattr(case("cart_pendulum"), request.param)


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "step": lambda s, x, u: s.step(x, u),
    "linearize": lambda s, x, u: s.linearize(x, u),
    "curvature": lambda s, x, u: s.curvature(x, u, np.ones(4)),
    "rollout": lambda s, x, u: s.rollout(x, [u]),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "x", [[0.0] * 3, [0.0] * 5, [[0.0] * 4], [], "abcd", [0.0, "a", 0.0, 0.0], [[0.0], [0.0, 1.0]]]
)
def test_states_of_a_wrong_shape_are_refused(cart: Any, call: str, x: Any) -> None:
    with pytest.raises(sm.ShapeError, match="x"):
        CALLS[call](cart, x, [0.0])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("u", [[], [0.0, 0.0], [[0.0, 1.0]], "a"])
def test_inputs_of_a_wrong_shape_are_refused(cart: Any, call: str, u: Any) -> None:
    with pytest.raises(sm.ShapeError, match=r"[uU]"):
        CALLS[call](cart, np.zeros(4), u)


def test_shape_errors_name_the_entries(cart: Any) -> None:
    with pytest.raises(sm.ShapeError, match=r"x: expected 4 numbers .x, theta, "):
        cart.step([0.0], [0.0])
    with pytest.raises(sm.ShapeError, match=r"u: expected 1 numbers .force"):
        cart.step(np.zeros(4), [])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_entries_that_are_not_finite_are_refused(cart: Any, call: str, bad: float) -> None:
    with pytest.raises(sm.ShapeError, match=r"x.*entry \[2\] is not a finite number"):
        CALLS[call](cart, [0.0, 0.0, bad, 0.0], [0.0])
    with pytest.raises(sm.ShapeError, match=r"[uU].*entry \[.*0\] is not a finite number"):
        CALLS[call](cart, np.zeros(4), [bad])


@pytest.mark.parametrize("z", [np.ones(3), [NAN, 0, 0, 0], "abcd"])
def test_directions_are_checked_too(cart: Any, z: Any) -> None:
    with pytest.raises(sm.ShapeError, match="z"):
        cart.curvature(np.zeros(4), [0.0], z)


@pytest.mark.parametrize("U", [np.zeros(1), np.zeros((2, 2)), np.zeros((2, 1, 1))])
def test_input_sequences_of_a_wrong_shape_are_refused(cart: Any, U: np.ndarray) -> None:
    with pytest.raises(sm.ShapeError, match="U"):
        cart.rollout(np.zeros(4), U)


def test_a_rollout_of_no_steps_is_its_start(cart: Any) -> None:
    path = cart.rollout([1.0, 2.0, 3.0, 4.0], np.zeros((0, 1)))
    np.testing.assert_array_equal(path.x, [[1.0, 2.0, 3.0, 4.0]])
    assert path.steps == 0


@pytest.mark.parametrize("factory", [sm.discretize, sm.euler])
@pytest.mark.parametrize("dt", [0.0, -0.01, NAN, INF, "fast", None, [0.1, 0.2]])
def test_time_steps_must_be_positive_numbers(factory: Any, dt: Any) -> None:
    with pytest.raises(sm.ModelError, match="dt"):
        factory(sm.systems.get("pendulum"), dt)


@pytest.mark.parametrize("factory", [sm.discretize, sm.euler])
def test_only_systems_can_be_discretized(factory: Any) -> None:
    with pytest.raises(sm.ModelError, match=r"system: expected a System.*Builder"):
        factory(sm.Builder("unfinished"), 0.1)


def test_parts_of_a_state_are_checked() -> None:
    step = case("suspended_mass").midpoint
    with pytest.raises(sm.ShapeError, match="rho: expected 2"):
        step.pack([0.0, 0.0], rho=[1.0])
    with pytest.raises(sm.ShapeError, match="x: expected 8"):
        step.unpack(np.zeros(7))
    np.testing.assert_array_equal(step.pack([1.0, 2.0], v=[3.0, 4.0]), [1, 2, 0, 0, 0, 0, 3, 4])


@pytest.mark.parametrize("parts", [("t", [0.0]), ("x", np.zeros((3, 2))), ("u", np.zeros((2, 1))), ("u", np.zeros(1))])
def test_trajectories_fit_together(parts: tuple[str, Any]) -> None:
    whole = {"t": [0.0, 0.1], "x": np.zeros((2, 2)), "u": np.zeros((1, 1))}
    assert sm.Trajectory(**whole).steps == 1
    with pytest.raises(sm.ShapeError, match="Trajectory"):
        sm.Trajectory(**whole | dict([parts]))


# steps that cannot be solved ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stretched() -> tuple[sm.VariationalStep, np.ndarray, np.ndarray]:
    """The arm in motion, and an input that winds its string to 0.1 m; its tip cannot come closer than 0.618 m."""
    arm = case("planar_arm")
    return arm.midpoint, arm.x, np.array([0.5, 0.1])


@pytest.mark.parametrize("call", ["step", "linearize", "curvature"])
def test_a_string_pulled_beyond_reach_is_reported(call: str, stretched: Any) -> None:
    step, x, u = stretched
    kept = x.copy(), u.copy()
    ask = {"step": (x, u), "linearize": (x, u), "curvature": (x, u, np.ones(step.nx))}[call]
    with pytest.raises(sm.ConvergenceError, match=r"'planar_arm' at dt = 0\.01 s.*reach") as caught:
        getattr(step, call)(*ask)
    assert caught.value.iterations > 0
    # h = d² − L² cannot come below its value at the closest pose.
    assert caught.value.residual >= (np.hypot(0.5, 1.0) - 0.5) ** 2 - 0.1**2 - 1e-9
    np.testing.assert_array_equal(caught.value.x, x)
    assert caught.value.x is not x
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(u, kept[1])


def test_a_step_works_again_after_one_that_failed(stretched: Any) -> None:
    step, x, u = stretched
    good = case("planar_arm").u
    before = step.linearize(x, good)
    with pytest.raises(sm.ConvergenceError):
        step.step(x, u)
    for a, b in zip(before, step.linearize(x, good), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_rollout_names_the_step_that_failed_and_its_state(stretched: Any) -> None:
    step, x, u = stretched
    stay = hold(step, x)
    path = step.rollout(x, [stay, stay])
    with pytest.raises(sm.ConvergenceError, match="step 2 of the rollout") as caught:
        step.rollout(x, [stay, stay, u, stay])
    np.testing.assert_array_equal(caught.value.x, path.x[2])


def test_gimbal_lock_is_reported() -> None:
    """At ry = π/2 the axes of rz and rx of a ball joint are one: a point of no size turns about neither."""
    b = sm.Builder("ball")
    frame = b.world
    for kind in ("rz", "ry", "rx"):
        frame = getattr(frame, kind)(b.coordinate(kind))
    b.mass(frame.tx(1.0), 1.0)
    b.mass(frame.ty(1.0), 1.0)
    euler = sm.euler(b.build(), 0.01)
    x = euler.rest([0.0, np.pi / 2, 0.0])
    with pytest.raises(sm.ConvergenceError, match=r"singular.*gimbal lock"):
        euler.step(x, [])


def test_a_constraint_nothing_moves_is_named() -> None:
    b = sm.Builder("rod")
    pivot = b.world.rz(b.coordinate("theta"))
    end = pivot.ty(-1.0)
    b.mass(end, 1.0)
    b.distance(pivot, end, 1.0, name="rod")
    step = sm.discretize(b.build(), 0.01)
    with pytest.raises(sm.ConvergenceError, match="no dynamic coordinate moves constraint 'rod'"):
        step.step(step.rest({"theta": 0.3}), [])


@pytest.mark.parametrize("length", [0.0, -1.0])
def test_a_string_s_next_length_must_be_positive(length: float) -> None:
    step = sm.discretize(sm.systems.get("suspended_mass"), 0.01)
    with pytest.raises(sm.ModelError, match="r_next must stay positive"):
        step.step(step.rest(), [0.0, length])
    with pytest.raises(sm.ModelError, match="r_next must stay positive"):
        step.rollout(step.rest(), [[0.0, 1.0], [0.0, length]])
