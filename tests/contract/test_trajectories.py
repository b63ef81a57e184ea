"""What step maps do along whole trajectories, against the same done step by step."""

from __future__ import annotations

import numpy as np
import pytest

import stepmap as sm
from tests.mechanisms import DT, Case, case

STEPS = 6


def path_of(step: sm.StepMap, x: np.ndarray, u: np.ndarray) -> sm.Trajectory:
    return step.rollout(x, u + 1e-3 * np.random.default_rng(2).normal(size=(STEPS, step.nu)))


def close(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Solved from another guess: equal up to rounding of q, amplified by M/dt, at most 55 kg m²/0.01 s."""
    scale = max(1.0, np.abs(theirs).max(initial=0.0))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-11 * scale)


def test_derivatives_along_a_trajectory_are_those_of_its_points(catalog: Case) -> None:
    for step, x, u in catalog.points:
        path = path_of(step, x, u)
        Z = np.random.default_rng(3).normal(size=(STEPS, step.ndx))
        A, B = step.linearize_along(path)
        after, A_many, B_many = step.linearize_many(path.x[:-1], path.u)
        bend = step.curvature_along(path, Z)
        for k in range(STEPS):
            at = step.linearize(path.x[k], path.u[k])
            for ours, theirs in zip((A[k], B[k], after[k], A_many[k], B_many[k]), (*at[1:], *at), strict=True):
                close(ours, theirs)
            for ours, theirs in zip(bend, step.curvature(path.x[k], path.u[k], Z[k]), strict=True):
                close(ours[k], theirs)


def test_derivatives_along_what_is_no_trajectory(catalog: Case) -> None:
    """The points need not follow from each other."""
    step, x, u = catalog.points[0]
    path = path_of(step, x, u)
    moved = sm.Trajectory(path.t, path.x + 1e-3 * np.random.default_rng(4).normal(size=path.x.shape), path.u)
    Z = np.random.default_rng(3).normal(size=(STEPS, step.ndx))
    A, B = step.linearize_along(moved)
    bend = step.curvature_along(moved, Z)
    for k in range(STEPS):
        at = step.linearize(moved.x[k], moved.u[k])
        close(A[k], at.A)
        close(B[k], at.B)
        for ours, theirs in zip(bend, step.curvature(moved.x[k], moved.u[k], Z[k]), strict=True):
            close(ours[k], theirs)


def test_following_without_gains_is_the_rollout(catalog: Case) -> None:
    for step, x, u in catalog.points:
        path = path_of(step, x, u)
        followed = step.follow(x, path, np.zeros((STEPS, step.nu, step.ndx)))
        np.testing.assert_array_equal(followed.x, path.x)
        np.testing.assert_array_equal(followed.u, path.u)
        np.testing.assert_array_equal(followed.multipliers, path.multipliers)


def test_following_feeds_the_deviation_back(catalog: Case) -> None:
    """u = ū − K difference(x̄, x), step by step."""
    for step, x, u in catalog.points:
        path = path_of(step, x, u)
        rng = np.random.default_rng(5)
        K = 1e-4 * rng.normal(size=(STEPS, step.nu, step.ndx))
        state = step.layout.retract(x, 1e-3 * rng.normal(size=step.ndx))
        followed = step.follow(state, path, K)
        np.testing.assert_array_equal(followed.x[0], state)
        for k in range(STEPS):
            control = path.u[k] - K[k] @ step.layout.difference(path.x[k], state)
            close(followed.u[k], control)
            state = step.step(state, control).x
            close(followed.x[k + 1], state)


@pytest.fixture(scope="module")
def arm() -> tuple[sm.VariationalStep, sm.Trajectory]:
    made = case("planar_arm")
    return made.midpoint, path_of(made.midpoint, made.x, made.u)


def test_wrong_shapes_are_refused(arm: tuple[sm.VariationalStep, sm.Trajectory]) -> None:
    step, path = arm
    other = sm.Trajectory(path.t, path.x[:, :4], path.u)
    with pytest.raises(sm.ShapeError, match="gains: expected"):
        step.follow(path.x[0], path, np.zeros((STEPS, step.nx, step.nu)))
    with pytest.raises(sm.ShapeError, match="states have 4 and inputs 2"):
        step.follow(path.x[0], other, np.zeros((STEPS, step.nu, step.nx)))
    with pytest.raises(sm.ShapeError, match="states have 4"):
        step.linearize_along(other)
    with pytest.raises(sm.ShapeError, match="Z: expected"):
        step.curvature_along(path, np.zeros((STEPS + 1, step.nx)))
    with pytest.raises(sm.ShapeError, match="one row per point"):
        step.linearize_many(path.x, path.u)


def test_the_point_that_cannot_be_solved_is_named(arm: tuple[sm.VariationalStep, sm.Trajectory]) -> None:
    step, path = arm
    u = path.u.copy()
    u[3] = [0.5, 0.1]  # the string wound shorter than the arm can reach
    beyond = sm.Trajectory(DT * np.arange(STEPS + 1), path.x, u)
    with pytest.raises(sm.ConvergenceError, match=r"step 3 of the trajectory") as caught:
        step.linearize_along(beyond)
    np.testing.assert_array_equal(caught.value.x, path.x[3])
    with pytest.raises(sm.ConvergenceError, match=r"step 3 of the trajectory"):
        step.curvature_along(beyond, np.ones((STEPS, step.nx)))
    with pytest.raises(sm.ConvergenceError, match=r"point 3"):
        step.linearize_many(path.x[:-1], u)
    with pytest.raises(sm.ConvergenceError, match=r"step 3 of the closed loop"):
        step.follow(path.x[0], beyond, np.zeros((STEPS, step.nu, step.nx)))


def test_an_infeasible_path_is_linearized_about_the_map_s_own_next_state() -> None:
    """A string has two roots, below and above the robot; a path that jumps over the robot must not choose the upper."""
    step = case("suspended_mass").midpoint
    x = step.rest({})
    jump = np.array([x, x])
    jump[1, 1] = 2.0
    path, z = sm.Trajectory([0.0, step.dt], jump, x[None, 2:4]), np.ones(step.ndx)
    A, _ = step.linearize_along(path)
    close(A[0], step.linearize(x, x[2:4]).A)
    close(step.curvature_along(path, z[None]).xx[0], step.curvature(x, x[2:4], z).xx)
