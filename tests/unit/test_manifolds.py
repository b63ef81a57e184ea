"""States on a manifold: a pointer on a circle, stored as its cosine and sine, goes through everything above the map."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.typing import ArrayLike

import stepmap as sm
from stepmap.steps.layout import Layout
from tests.rotor import Circle, direction

N, DT, PULL = 60, 0.05, 2.0


class Pointer(sm.PointwiseStep):
    """θ' = θ + dt (u + PULL sin θ): turned by hand, and driven away from θ = 0."""

    dt, nu, layout = DT, 1, Circle()

    def step(self, x: ArrayLike, u: ArrayLike) -> sm.StepResult:
        x, u = np.asarray(x, dtype=float), np.asarray(u, dtype=float)
        return sm.StepResult(self.layout.retract(x, self.dt * (u + PULL * x[1])), np.zeros(0), 0)

    def linearize(self, x: ArrayLike, u: ArrayLike) -> sm.Linearization:
        cos = np.asarray(x, dtype=float)[0]
        return sm.Linearization(self.step(x, u).x, np.array([[1 + self.dt * PULL * cos]]), np.array([[self.dt]]))

    def curvature(self, x: ArrayLike, u: ArrayLike, z: ArrayLike) -> sm.Curvature:
        sin, zero = np.asarray(x, dtype=float)[1], np.zeros((1, 1))
        return sm.Curvature(np.array([[-self.dt * PULL * sin * np.asarray(z)[0]]]), zero, zero)


class Angle(sm.PointwiseStep):
    """The same with the angle itself as the state."""

    dt, nu, layout = DT, 1, Layout({"q": [("angle", "rad")]})

    def step(self, x: ArrayLike, u: ArrayLike) -> sm.StepResult:
        x, u = np.asarray(x, dtype=float), np.asarray(u, dtype=float)
        return sm.StepResult(x + self.dt * (u + PULL * np.sin(x)), np.zeros(0), 0)

    def linearize(self, x: ArrayLike, u: ArrayLike) -> sm.Linearization:
        A = 1 + self.dt * PULL * np.cos(np.asarray(x, dtype=float))
        return sm.Linearization(self.step(x, u).x, A[:, None], np.array([[self.dt]]))

    def curvature(self, x: ArrayLike, u: ArrayLike, z: ArrayLike) -> sm.Curvature:
        bend = -self.dt * PULL * np.sin(np.asarray(x, dtype=float)) * np.asarray(z)
        return sm.Curvature(bend[:, None], np.zeros((1, 1)), np.zeros((1, 1)))


WANTED = 2.0 + 0.5 * np.sin(np.linspace(0, 3, N + 1))
WEIGHTS = np.array([[5.0]]), np.array([[0.2]]), np.array([[20.0]])


def on_circle() -> sm.Problem:
    cost = sm.TrackingCost(*WEIGHTS, direction(WANTED), np.zeros((N, 1)))
    return sm.Problem(Pointer(), cost, direction(0.3))


def as_angle() -> sm.Problem:
    cost = sm.TrackingCost(*WEIGHTS, WANTED[:, None], np.zeros((N, 1)))
    return sm.Problem(Angle(), cost, np.array([0.3]))


@pytest.mark.parametrize("angle", [0.3, 2.0, -3.0])
def test_derivatives_are_those_of_the_tangent_space(angle: float) -> None:
    errors = sm.check_derivatives(Pointer(), direction(angle), [0.7], [1.3])
    assert errors.worst < 1e-9
    assert sm.check_derivatives(Angle(), [angle], [0.7], [1.3]).worst < 1e-11


def test_optimum_is_that_of_the_angle() -> None:
    """Another chart of the same problem: the same cost, trajectory and gains, and quadratic convergence."""
    circle, angle = sm.optimize(on_circle()).require(), sm.optimize(as_angle()).require()
    assert circle.cost == pytest.approx(angle.cost, rel=1e-12)
    np.testing.assert_allclose(circle.trajectory.x, direction(angle.trajectory.x[:, 0]), rtol=0, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(circle.trajectory.x, axis=1), 1.0, rtol=1e-14)
    assert circle.gains.shape == (N, 1, 1)
    np.testing.assert_allclose(circle.gains, angle.gains, rtol=0, atol=1e-6)
    assert len(circle.history) == len(angle.history)


def test_gains_and_regulators_have_the_tangent_s_size() -> None:
    found = sm.optimize(on_circle()).require().trajectory
    K = sm.lqr(Pointer(), found, *WEIGHTS)
    assert K.shape == (N, 1, 1)
    pushed = Pointer().layout.retract(found.x[0], [0.2])
    closed = Pointer().follow(pushed, found, K)
    assert abs(Pointer().layout.difference(found.x[-1], closed.x[-1])[0]) < 0.01
    regulator = sm.regulate(Pointer(), direction(np.pi), [0.0], *WEIGHTS[:2])
    assert regulator.K.shape == (1, 1)
    assert regulator.radius < 1


def test_plan_holds_its_end() -> None:
    plan = sm.optimize(on_circle()).require().plan
    assert plan.gains.shape == (N, 1, 1)


@pytest.mark.parametrize("size", [2, 3])
def test_weights_of_another_size_are_refused(size: int) -> None:
    n = np.eye(size)
    with pytest.raises(sm.ShapeError, match=r"1 tangent dimensions|expected shape"):
        sm.Problem(Pointer(), sm.TrackingCost(n, WEIGHTS[1], n, direction(WANTED), np.zeros((N, 1))), direction(0.3))


def test_soft_limits_of_stored_numbers_are_refused() -> None:
    limit = sm.SoftLimit(0, high=0.5)
    cost = sm.TrackingCost(*WEIGHTS, direction(WANTED), np.zeros((N, 1)), [limit])
    with pytest.raises(sm.ModelError, match="on a manifold"):
        sm.Problem(Pointer(), cost, direction(0.3))


def test_wrong_shapes_are_refused() -> None:
    step, start = Pointer(), direction(0.3)
    path = step.rollout(start, np.zeros((3, 1)))
    for call in (
        lambda: step.rollout([1.0, 0.0, 0.0], np.zeros((3, 1))),
        lambda: step.rollout(start, np.zeros(3)),
        lambda: step.rollout(start, np.full((3, 1), np.nan)),
        lambda: step.follow(start, path, np.zeros((2, 1, 1))),
        lambda: step.linearize_many(np.zeros((3, 2)), np.zeros((2, 1))),
        lambda: step.curvature_along(path, np.zeros((2, 1))),
    ):
        with pytest.raises(sm.ShapeError):
            call()


def test_no_steps_are_a_trajectory() -> None:
    step = Pointer()
    path = step.rollout(direction(0.3), np.zeros((0, 1)))
    assert path.x.shape == (1, 2)
    assert [part.shape for part in step.linearize_along(path)] == [(0, 1, 1), (0, 1, 1)]
    assert [part.shape for part in step.curvature_along(path, np.zeros((0, 1)))] == [(0, 1, 1)] * 3


def test_a_search_leaves_the_map_s_own_arrays_alone() -> None:
    """Curvature of the cost is added to that of the map, which may be an array that the map keeps."""

    class Kept(Pointer):
        kept = np.zeros((N, 1, 1))

        def curvature_along(self, trajectory: sm.Trajectory, Z: ArrayLike) -> sm.Curvature:
            return sm.Curvature(self.kept, self.kept, self.kept)

    cost = sm.TrackingCost(*WEIGHTS, direction(WANTED), np.zeros((N, 1)))
    sm.optimize(sm.Problem(Kept(), cost, direction(0.3)), max_iterations=5)
    assert not Kept.kept.any()


def test_cost_can_be_sent_to_another_process() -> None:
    problem = on_circle()
    copy = pickle.loads(pickle.dumps(problem.cost))
    found = sm.optimize(problem).trajectory
    assert copy.value(found) == problem.cost.value(found)
