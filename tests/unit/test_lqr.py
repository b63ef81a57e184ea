"""Regulators against plain Riccati recursions and against scipy's and python-control's solvers."""

from __future__ import annotations

import functools
from pathlib import Path

import control
import numpy as np
import pytest
import scipy.linalg

import stepmap as sm
from stepmap.optimal.lqr import riccati
from tests import problems
from tests.mechanisms import case

DATA = Path(__file__).parent.parent / "data" / "regulators"

EQUILIBRIA = {  # system: pose, dt
    "pendulum": ({"theta": np.pi}, 0.01),
    "cart_pendulum": ({"theta": np.pi}, 0.01),
    "double_pendulum": ({"theta1": np.pi}, 0.02),
    "suspended_mass": ({}, 1 / 30),
}
equilibria = pytest.mark.parametrize("name", EQUILIBRIA)


@functools.cache
def equilibrium(name: str) -> tuple[sm.VariationalStep, np.ndarray, np.ndarray]:
    pose, dt = EQUILIBRIA[name]
    step = sm.discretize(sm.systems.get(name), dt)
    return step, *step.equilibrium(pose)


def weights(step: sm.StepMap) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return np.diag(rng.uniform(1.0, 10.0, step.nx)), np.diag(rng.uniform(0.1, 1.0, step.nu))


def standing(name: str, steps: int) -> sm.Trajectory:
    """An equilibrium, held."""
    step, x, u = equilibrium(name)
    return sm.Trajectory(step.dt * np.arange(steps + 1), np.tile(x, (steps + 1, 1)), np.tile(u, (steps, 1)))


def recursion(A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray, Qf: np.ndarray) -> np.ndarray:
    """Gains as every textbook has them (Anderson & Moore, ch. 2), in Joseph's form."""
    P, gains = Qf, []
    for k in reversed(range(len(A))):
        Qk, Rk = (M if M.ndim == 2 else M[k] for M in (Q, R))
        K = np.linalg.solve(Rk + B[k].T @ P @ B[k], B[k].T @ P @ A[k])
        closed = A[k] - B[k] @ K
        P = Qk + K.T @ Rk @ K + closed.T @ P @ closed
        gains.append(K)
    return np.array(gains[::-1])


# finite horizon -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("varying", [False, True])
def test_gains_are_the_textbook_s(varying: bool) -> None:
    """Along a figure-8, with weights that may change from step to step."""
    problem = problems.figure_eight(60)
    step, path = problem.step, sm.optimize(problem, max_iterations=3).trajectory
    Q, R = weights(step)
    Qf = 10 * Q
    if varying:
        swell = 1 + np.sin(np.arange(60))[:, None, None] ** 2
        Q, R = swell * Q, R / swell
    A, B = step.linearize_along(path)
    K = sm.lqr(step, path, Q, R, Qf)
    assert K.shape == (60, step.nu, step.nx)
    np.testing.assert_allclose(K, recursion(A, B, Q, R, Qf), rtol=0, atol=1e-11 * np.abs(K).max())


def test_gains_of_weights_that_vary_may_be_constant() -> None:
    step, path = equilibrium("suspended_mass")[0], standing("suspended_mass", 20)
    Q, R = weights(step)
    stacked = sm.lqr(step, path, np.tile(Q, (20, 1, 1)), np.tile(R, (20, 1, 1)), Q)
    np.testing.assert_array_equal(stacked, sm.lqr(step, path, Q, R, Q))


@equilibria
def test_gains_of_a_long_horizon_are_the_steady_ones(name: str) -> None:
    step, x, u = equilibrium(name)
    Q, R = weights(step)
    steady = sm.regulate(step, x, u, Q, R)
    # The distance to the limit shrinks with the closed loop, both ways: radius² a step.
    steps = int(np.ceil(np.log(1e-13) / (2 * np.log(steady.radius))))
    K = sm.lqr(step, standing(name, steps), Q, R, np.zeros_like(Q))
    np.testing.assert_allclose(K[0], steady.K, rtol=0, atol=1e-9 * np.abs(steady.K).max())


def test_system_without_inputs_has_no_gains() -> None:
    step = sm.discretize(sm.systems.get("double_pendulum", actuated=False), 0.01)
    path = step.rollout(step.rest({"theta1": 0.3}), np.zeros((20, 0)))
    assert sm.lqr(step, path, np.eye(4), np.zeros((0, 0)), np.eye(4)).shape == (20, 0, 4)


def test_euler_steps_have_gains_too() -> None:
    made = case("suspended_mass")
    x, u = made.euler_point
    path = made.euler.rollout(x, np.tile(u, (20, 1)))
    Q, R = weights(made.euler)
    A, B = made.euler.linearize_along(path)
    K = sm.lqr(made.euler, path, Q, R, Q)
    np.testing.assert_allclose(K, recursion(A, B, Q, R, Q), rtol=0, atol=1e-11 * np.abs(K).max())


# for ever -------------------------------------------------------------------------------------------------------


@equilibria
def test_steady_regulator_solves_its_equation(name: str) -> None:
    step, x, u = equilibrium(name)
    Q, R = weights(step)
    K, P, radius = sm.regulate(step, x, u, Q, R)
    A, B = step.linearize(x, u)[1:]
    residual = Q + A.T @ P @ A - A.T @ P @ B @ K - P
    assert np.abs(residual).max() <= 1e-13 * np.abs(P).max()
    assert np.linalg.eigvalsh(P).min() > 0
    assert radius == pytest.approx(np.abs(np.linalg.eigvals(A - B @ K)).max())
    assert radius < 1


@equilibria
def test_steady_regulator_is_that_of_scipy_and_control(name: str) -> None:
    """A is singular for the suspended mass: both must cope with that.

    Theirs leave a residual of up to 1e-11 |P| in the equation (ours 1e-15 |P|), which a slow closed loop amplifies by
    1/(1 − radius²), 500 for the cart.
    """
    step, x, u = equilibrium(name)
    Q, R = weights(step)
    ours = sm.regulate(step, x, u, Q, R)
    A, B = step.linearize(x, u)[1:]
    np.testing.assert_allclose(
        ours.P, scipy.linalg.solve_discrete_are(A, B, Q, R), rtol=0, atol=5e-9 * np.abs(ours.P).max()
    )
    np.testing.assert_allclose(ours.K, control.dlqr(A, B, Q, R)[0], rtol=0, atol=5e-9 * np.abs(ours.K).max())


def test_steady_regulator_does_not_depend_on_units_of_the_cost() -> None:
    step, x, u = equilibrium("cart_pendulum")
    Q, R = weights(step)
    one = sm.regulate(step, x, u, Q, R)
    for scale in (2.0**-80, 2.0**80):  # powers of two, so that rounding is the same
        other = sm.regulate(step, x, u, scale * Q, scale * R)
        np.testing.assert_allclose(other.K, one.K, rtol=1e-12)
        np.testing.assert_allclose(other.P, scale * one.P, rtol=1e-12)


def test_motions_that_are_hardly_seen_are_stabilized_too() -> None:
    """P = 3 for a mode of 2 with R = 1 and hardly any weight: p = 4p/(1 + p)."""
    P = riccati(np.diag([2.0, 0.5]), np.eye(2), np.diag([1e-18, 1.0]), np.eye(2))
    assert P[0, 0] == pytest.approx(3.0, rel=1e-12)


@pytest.mark.parametrize(
    ("B", "Q"),
    [
        pytest.param([[0.0], [1.0]], np.eye(2), id="not reached by the input"),
        pytest.param([[1.0], [1.0]], np.diag([0.0, 1.0]), id="not seen by Q"),
    ],
)
@pytest.mark.parametrize("unstable", [1.5, -2.0])
def test_unstable_motions_out_of_reach_are_reported(unstable: float, B: list[list[float]], Q: np.ndarray) -> None:
    with pytest.raises(sm.ConvergenceError, match="no steady regulator: some unstable motion cannot be reached"):
        riccati(np.diag([unstable, 0.5]), np.array(B), Q, np.eye(1))


def test_unstable_mechanism_without_weights_is_reported() -> None:
    step, x, u = equilibrium("cart_pendulum")
    with pytest.raises(sm.ConvergenceError, match="no steady regulator"):
        sm.regulate(step, x, u, np.zeros((4, 4)), np.eye(1))


def test_what_moves_is_no_equilibrium() -> None:
    step, x, u = equilibrium("pendulum")
    with pytest.raises(sm.ModelError, match=r"no equilibrium.*equilibrium\(pose\)"):
        sm.regulate(step, step.rest({"theta": 2.0}), u, np.eye(2), np.eye(1))
    with pytest.raises(sm.ModelError, match="no equilibrium"):
        sm.regulate(step, x, [1.0], np.eye(2), np.eye(1))


@pytest.mark.parametrize("call", ["lqr", "regulate"])
def test_weights_are_checked(call: str) -> None:
    step, x, u = equilibrium("pendulum")

    def run(Q: object, R: object) -> None:
        if call == "lqr":
            sm.lqr(step, standing("pendulum", 5), Q, R, np.eye(2))  # type: ignore[arg-type]
        else:
            sm.regulate(step, x, u, Q, R)  # type: ignore[arg-type]

    with pytest.raises(sm.ShapeError, match="Q: expected shape"):
        run(np.eye(3), np.eye(1))
    with pytest.raises(sm.ModelError, match="R: must be positive definite"):
        run(np.eye(2), -np.eye(1))
    with pytest.raises(sm.ModelError, match="Q: must be positive semidefinite"):
        run(np.diag([1.0, -1.0]), np.eye(1))
    with pytest.raises(sm.ShapeError, match="R: has entries that are not finite"):
        run(np.eye(2), [[np.nan]])


# closed loops ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pendulum", "cart_pendulum", "double_pendulum"])
def test_upright_mechanisms_stand_with_feedback_and_fall_without(name: str) -> None:
    step, x, u = equilibrium(name)
    Q, R = weights(step)
    steady = sm.regulate(step, x, u, Q, R)
    steps = int(np.ceil(np.log(1e-8) / np.log(steady.radius)))  # enough for 1e-6 of the push to be left
    held = standing(name, steps)
    start = x + 0.05 * np.sign(np.arange(step.nx) + 0.5) * (np.arange(step.nx) < step.nd)
    closed = step.follow(start, held, np.tile(steady.K, (steps, 1, 1)))
    assert np.abs(closed.x[-1] - x).max() < 1e-6
    fallen = step.rollout(start, held.u[: round(3 / step.dt)])
    angles = [i for i, coordinate in enumerate(step.system.dynamic) if coordinate.unit == "rad"]
    assert np.abs(fallen.x[:, angles] - x[angles]).max() > 1.0


def test_swung_mass_comes_to_rest_with_feedback_only() -> None:
    step, x, u = equilibrium("suspended_mass")
    steady = sm.regulate(step, x, u, *weights(step))
    pushed = step.rest(step.satisfy_constraints({"xm": 0.3, "ym": 0.05}, fixed=["xr", "r", "xm"]))
    steps = int(np.ceil(np.log(1e-9) / np.log(steady.radius)))
    closed = step.follow(pushed, standing("suspended_mass", steps), np.tile(steady.K, (steps, 1, 1)))
    assert np.abs(closed.x[-1] - x).max() < 1e-6
    swinging = step.rollout(pushed, np.tile(u, (steps, 1)))
    assert np.abs(swinging.x[-100:, 0]).max() > 0.29  # undamped: it swings as far as ever


def test_gain_schedule_keeps_a_swing_up_on_its_way() -> None:
    solution = sm.optimize(problems.reference("pend_swingup")).require()
    step, path = problems.reference("pend_swingup").step, solution.trajectory
    start = path.x[0] + [0.02, 0.0]
    closed, blind = step.follow(start, path, solution.gains), step.rollout(start, path.u)
    # The last gains are those of an ending horizon; what they cost is not judged.
    assert np.abs(closed.x[-20] - path.x[-20]).max() < 1e-3
    assert np.abs(blind.x[-20, 0] - path.x[-20, 0]) > 1.0


def test_a_place_without_weight_is_left_alone() -> None:
    """A cart whose place costs nothing: its mode of |λ| = 1 stays, the rest is held."""
    step = sm.discretize(sm.systems.get("cart_pendulum"), 0.02)
    x, u = step.equilibrium({})
    Q, R = np.diag([0.0, 10.0, 1.0, 1.0]), np.eye(1)
    regulator = sm.regulate(step, x, u, Q, R)
    assert regulator.radius == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(regulator.K[:, 0], 0.0, rtol=0, atol=1e-6)


def test_what_drifts_beside_the_inputs_and_is_seen_has_no_regulator() -> None:
    """A rod's turn about itself, λ = 1 but for rounding: its cost grows for ever, whatever rounding makes of it."""
    with np.load(DATA / "drifting_turn.npz") as at:  # the end of examples/turning/spherical_pendulum.toml
        assert np.abs(np.linalg.eigvals(at["A"])).max() < 1 + 1e-7
        with pytest.raises(sm.ConvergenceError, match="no steady regulator"):
            riccati(at["A"], at["B"], at["Q"], at["R"])


def test_what_drifts_unseen_is_left_alone() -> None:
    """The same turn without an effect on what is weighed costs nothing, and the rest is as without it."""
    rest, B = np.array([[0.98, 0.03], [-0.05, 0.97]]), np.array([[0.0], [0.03]])
    A = np.block([[np.ones((1, 1)), np.zeros((1, 2))], [np.zeros((2, 1)), rest]])
    P = riccati(A, np.vstack([[[0.0]], B]), np.diag([0.0, 100.0, 1.0]), np.eye(1))
    np.testing.assert_allclose(P[1:, 1:], riccati(rest, B, np.diag([100.0, 1.0]), np.eye(1)), rtol=1e-12)
    assert not P[0].any()
