"""Hard limits of inputs: the bounded linear-quadratic problem, clamped rollouts, and optima that IPOPT agrees with."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from scipy.optimize import lsq_linear

import stepmap as sm
from stepmap.optimal.riccati import NumpyRecursions, Recursions, recursions
from stepmap.steps.limits import Box
from tests import nlp, problems
from tests.rotor import Rotor
from tests.unit.test_lq_recursions import STEPS, copying, some

PASSES = 50


@pytest.fixture(params=["compiled", "numpy"])
def either(request: pytest.FixtureRequest) -> Recursions:
    return recursions() if request.param == "compiled" else NumpyRecursions()


# the bounded problem ----------------------------------------------------------------------------------------------


def bounded(nx: int, nu: int, size: float, tied: int | None = None) -> Box:
    """Bounds of about a size; the first input also follows a state, if told."""
    b = size * (0.5 + np.random.default_rng([nx, nu]).random(size=(4, STEPS, nu)))
    places = np.full(nu, -1, dtype=np.intc)
    if tied is not None:
        places[0] = tied
    return Box(-b[0], b[1], -b[2], b[3], np.full(nu, 1e-12), places)


def dense(lq: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hessian and slope of the problem in all v, z eliminated; and z as a function of v."""
    n, nx, nu = lq.B.shape
    to_z = np.zeros((n + 1, nx, n * nu))
    for k in range(n):
        to_z[k + 1] = lq.A[k] @ to_z[k]
        to_z[k + 1, :, k * nu : (k + 1) * nu] += lq.B[k]
    hessian, slope = to_z[n].T @ lq.terminal @ to_z[n], lq.q[n] @ to_z[n]
    for k in range(n):
        own = np.eye(n * nu)[k * nu : (k + 1) * nu]
        hessian = hessian + to_z[k].T @ lq.Q[k] @ to_z[k] + own.T @ lq.R[k] @ own
        slope = slope + lq.q[k] @ to_z[k] + lq.r[k] @ own
    return hessian, slope, to_z


@pytest.mark.parametrize(("nx", "nu"), [(1, 1), (3, 2), (8, 2), (13, 3)])
def test_the_minimizer_within_bounds_is_that_of_a_dense_solver(either: Recursions, nx: int, nu: int) -> None:
    lq = some(nx, nu, bend=False)
    box = bounded(nx, nu, 0.1)
    found = either.limited(lq, 0.0, box, np.zeros((STEPS, nu), dtype=np.intc), PASSES)
    assert found.status == 0
    assert 1 < found.passes < PASSES
    hessian, slope, _ = dense(lq)
    L = np.linalg.cholesky(hessian)
    theirs = lsq_linear(L.T, -np.linalg.solve(L, slope), (box.low.ravel(), box.high.ravel()), method="bvls", tol=1e-14)
    # The matrix has a condition of some 1e3 to 1e5 at these sizes.
    np.testing.assert_allclose(found.v.ravel(), theirs.x, atol=1e-10)
    np.testing.assert_array_equal(found.at.ravel() != 0, theirs.active_mask != 0)


def test_bounds_that_move_with_a_state_are_kept_and_pushed_against(either: Recursions) -> None:
    """Multipliers of the held inputs point outwards, by the dense problem's own slope."""
    nx, nu = 4, 2
    lq, box = some(nx, nu, bend=False), bounded(nx, nu, 0.4, tied=1)
    lq.A[:, 1], lq.B[:, 1] = 0.0, [1.0, 0.0]  # the state is what the input made it, as of a kinematic coordinate
    box = box._replace(rate_low=0.3 * box.rate_low, rate_high=0.3 * box.rate_high)
    found = either.limited(lq, 0.0, box, np.zeros((STEPS, nu), dtype=np.intc), PASSES)
    assert found.status == 0
    assert found.passes > 0
    assert (np.abs(found.at) == 2).any()
    assert (np.abs(found.at) == 1).any()
    moved = found.z[:-1, 1]
    assert (found.v <= box.high + 1e-11).all()
    assert (found.v >= box.low - 1e-11).all()
    assert (found.v[:, 0] <= box.rate_high[:, 0] + moved + 1e-11).all()
    assert (found.v[:, 0] >= box.rate_low[:, 0] + moved - 1e-11).all()
    # Freed of the tied bounds' own dependence on z, the slope of the Lagrangian vanishes: G's rows of free inputs do.
    hessian, slope, to_z = dense(lq)
    pull = (hessian @ found.v.ravel() + slope).reshape(STEPS, nu)
    force = np.zeros((STEPS, nu))
    for k in reversed(range(STEPS)):  # multipliers, backwards: a tied bound at j moves z_j, and so inputs before it
        later = sum(force[j, 0] * to_z[j, 1, k * nu : (k + 1) * nu] for j in range(STEPS) if abs(found.at[j, 0]) == 2)
        force[k] = np.where(found.at[k] != 0, -(pull[k] - later), 0.0)
        assert np.abs(np.where(found.at[k] == 0, pull[k] - later, 0.0)).max() < 1e-9
    assert (force * np.sign(found.at) >= -1e-9).all()


@pytest.mark.parametrize("tied", [None, 1])
@pytest.mark.parametrize(("nx", "nu"), [(4, 1), (8, 2), (25, 12)])
def test_compiled_passes_are_those_in_numpy(nx: int, nu: int, tied: int | None) -> None:
    lq, box = some(nx, nu), bounded(nx, nu, 0.2, tied)
    start = np.random.default_rng(1).integers(-1, 2, size=(STEPS, nu)).astype(np.intc)
    ours, theirs = (r.limited(lq, 0.8, box, start, 12) for r in (recursions(), NumpyRecursions()))
    assert (ours.status, ours.passes) == (theirs.status, theirs.passes)
    np.testing.assert_array_equal(ours.at, theirs.at)
    for one, other in zip(ours[1:5], theirs[1:5], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11 * max(1.0, np.abs(other).max()))


@pytest.mark.parametrize("sizes", [(1, 1, 0), (3, 1, 2), (9, 6, 3)])
@pytest.mark.parametrize("turns", [1, 12])
def test_compiled_passes_without_rates_are_those_in_numpy(sizes: tuple[int, int, int], turns: int) -> None:
    """Limits of a kinematic coordinate's rate; it is another column where the state is a part of the whole one."""
    nd, nk, forces = sizes
    lq = copying(*sizes)
    nu = forces + nk
    box = bounded(2 * nd + 2 * nk, nu, 0.2)
    box.tied[forces:] = np.arange(nd, nd + nk)
    start = np.random.default_rng(1).integers(-2, 3, size=(STEPS, nu)).astype(np.intc)
    start[:, :forces] = np.clip(start[:, :forces], -1, 1)
    ours, theirs = (r.limited(lq, 0.8, box, start, turns) for r in (recursions(), NumpyRecursions()))
    assert (ours.status, ours.passes) == (theirs.status, theirs.passes)
    np.testing.assert_array_equal(ours.at, theirs.at)
    for one, other in zip(ours[1:5], theirs[1:5], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11 * max(1.0, np.abs(other).max()))


def test_only_free_inputs_need_a_minimum(either: Recursions) -> None:
    lq = some(4, 2)
    lq.bend[2][3, 0, 0] = -1e3  # type: ignore[index]
    at = np.zeros((STEPS, 2), dtype=np.intc)
    assert either.limited(lq, 1.0, bounded(4, 2, 0.1), at, 1).status == 4
    at[3, 0] = 1
    assert either.limited(lq, 1.0, bounded(4, 2, 0.1), at, 1).status == 0


# searches ---------------------------------------------------------------------------------------------------------


def cart(limit: float, steps: int = 150) -> sm.Problem:
    """A cart's pendulum, hanging, is wanted upright at once."""
    step = sm.discretize(sm.systems.get("cart_pendulum"), 0.02)
    x_ref = np.zeros((steps + 1, 4))
    x_ref[:, 1] = np.pi
    cost = sm.TrackingCost(np.diag([10, 100, 1, 1]), [[0.01]], np.diag([1e3, 1e3, 10, 10]), x_ref, np.zeros((steps, 1)))
    return sm.Problem(step, cost, step.rest({}), limits=sm.InputLimits(-limit, limit))


def test_a_limited_swing_up_is_an_optimum_of_ipopt() -> None:
    problem = cart(60.0)
    found = sm.optimize(problem).require()
    u = found.trajectory.u
    assert np.abs(u).max() == 60.0
    assert 20 < (np.abs(u) == 60.0).sum() < 140
    theirs = nlp.solve(problem, found.trajectory)
    assert found.cost == pytest.approx(theirs.cost, rel=1e-9)
    np.testing.assert_allclose(u, theirs.trajectory.u, atol=1e-3)
    slopes = np.array([-entry.slope for entry in found.history[-4:]])
    assert (slopes[1:] < 0.1 * slopes[:-1]).all()
    assert slopes[-1] < 1e-3 * slopes[-2]  # quadratic: exponents double
    free = sm.optimize(dataclasses.replace(problem, limits=None)).require()
    assert np.abs(free.trajectory.u).max() > 100
    assert free.cost < found.cost


def test_limits_that_are_never_met_change_no_bit() -> None:
    problem = problems.figure_eight(60)
    wide = dataclasses.replace(problem, limits=sm.InputLimits({"xr_next": -9}, {"xr_next": 9}, {"r_next": 99}))
    ours, theirs = sm.optimize(wide), sm.optimize(problem)
    np.testing.assert_array_equal(ours.trajectory.x, theirs.trajectory.x)
    np.testing.assert_array_equal(ours.trajectory.u, theirs.trajectory.u)
    np.testing.assert_array_equal(ours.gains, theirs.gains)
    assert ours.history == theirs.history


def test_rates_and_places_of_a_robot_are_kept() -> None:
    problem = problems.figure_eight(150, tight=False)
    step = problem.step
    free = sm.optimize(problem).require()
    limits = sm.InputLimits({"xr_next": -0.15}, {"xr_next": 0.15}, {"xr_next": 0.25, "r_next": 0.08})
    problem = dataclasses.replace(problem, limits=limits)
    found = sm.optimize(problem).require()
    x, u = found.trajectory.x, found.trajectory.u
    rates = np.diff(x[:, 2:4], axis=0) / step.dt
    assert np.abs(rates).max(axis=0) == pytest.approx([0.25, 0.08], abs=1e-12)
    assert np.abs(np.diff(free.trajectory.x[:, 2:4], axis=0)).max() / step.dt > 0.3
    assert u[:, 0].max() == 0.15
    theirs = nlp.solve(problem, found.trajectory)
    assert found.cost == pytest.approx(theirs.cost, rel=1e-8)
    assert -found.history[-1].slope < 1e-12 < -found.history[-2].slope < 1e-4


def test_gains_of_a_limited_optimum_are_those_of_its_regulator() -> None:
    """Zero feedback where an input is at its limit is for the search alone."""
    problem = cart(60.0)
    found = sm.optimize(problem).require()
    weights = problem.weights
    assert weights is not None
    np.testing.assert_array_equal(found.gains, sm.lqr(problem.step, found.trajectory, *weights))
    assert np.abs(found.gains).max(axis=2).min() > 0


def test_a_map_of_a_users_own_is_clamped_too() -> None:
    step = Rotor()
    bounds = sm.InputLimits(-0.1, 0.2).on(step)
    x0 = np.array([1.0, 0.0])
    wanted = sm.Trajectory(step.dt * np.arange(4), np.tile(x0, (4, 1)), np.array([[1.0], [-1.0], [0.05]]))
    run = step.follow(x0, wanted, np.zeros((3, 1, step.ndx)), within=bounds)
    np.testing.assert_array_equal(run.u[:, 0], [0.2, -0.1, 0.05])


@functools.cache
def moving() -> sm.VariationalStep:
    return sm.discretize(sm.systems.get("suspended_mass"), 0.02)


def test_compiled_rollouts_are_clamped_like_evaluated_ones() -> None:
    step = moving()
    bounds = sm.InputLimits({"xr_next": -0.01}, {"xr_next": 0.03}, {"r_next": 0.1}).on(step)
    x0, n = step.rest({}), 20
    u = np.tile(step.layout.hold(x0), (n, 1)) + 0.05 * np.sin(np.arange(n))[:, None]
    given = step.parameter_values, np.array([step.dt]), x0, np.tile(x0, (n + 1, 1)), u, np.full((n, 2, 8), 0.1)
    ours, theirs = (kernel.project(*given, bounds) for kernel in (step.kernel, step.evaluated()))
    for one, other in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    clamped = ours[2]
    assert clamped[:, 0].max() == 0.03
    assert clamped[:, 0].min() == -0.01
    change = np.diff(np.concatenate([x0[3:4], clamped[:, 1]]))
    assert np.abs(change).max() == pytest.approx(0.1 * step.dt, abs=1e-15)
    np.testing.assert_array_equal(
        bounds.at_limit(ours[1][:-1], clamped) != 0, bounds.at_limit(theirs[1][:-1], theirs[2]) != 0
    )


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (sm.InputLimits(1.0, -1.0), "low of 'xr_next' .1. must be below high"),
        (sm.InputLimits(low={"xr": 1.0}), "no input is called 'xr'"),
        (sm.InputLimits(low=[1.0, 2.0, 3.0]), "expected one number or 2"),
        (sm.InputLimits(high=float("nan")), "has entries that are not numbers"),
        (sm.InputLimits(rate=0.0), "rate of 'xr_next' must be positive"),
        (sm.InputLimits(low={"r_next": 1.2}), "start: r is 1, outside the limits of r_next, 1.2 to inf"),
        ((-1, 1), "limits: expected sm.InputLimits"),
    ],
)
def test_limits_that_do_not_fit_are_refused(limits: sm.InputLimits, said: str) -> None:
    step = moving()
    x0 = step.rest({})
    cost = sm.TrackingCost(np.eye(8), np.eye(2), np.eye(8), np.tile(x0, (3, 1)), np.tile(x0[2:4], (2, 1)))
    with pytest.raises((sm.ModelError, sm.ShapeError), match=said):
        sm.Problem(step, cost, x0, limits=limits)


def test_a_force_has_no_rate() -> None:
    with pytest.raises(sm.ModelError, match="rate of force: only the input of a kinematic coordinate"):
        dataclasses.replace(cart(60.0, 5), limits=sm.InputLimits(rate=1.0))
