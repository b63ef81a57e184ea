"""A step on a manifold from its equations: compiled, evaluated and in another chart it is one map."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import stepmap as sm
from stepmap.steps.check import difference
from tests.contract import test_terms
from tests.rotor import direction
from tests.rotor_equations import PULL, CompiledPointer

X, U = direction(2.9), np.array([1.3])  # the next state is beyond π: differences are wrapped there


@pytest.fixture(scope="module")
def step() -> CompiledPointer:
    return CompiledPointer()


def angle_after(theta: float, u: float, dt: float) -> float:
    """The next angle by fixed-point iteration, which contracts by dt PULL/2."""
    z = 0.0
    for _ in range(60):
        z = dt * (u + PULL * np.sin(theta + z / 2))
    return theta + z


def test_the_map_is_that_of_its_angle(step: CompiledPointer) -> None:
    assert isinstance(step, sm.StepMap)
    assert (step.nx, step.ndx) == (2, 1)
    np.testing.assert_allclose(step.step(X, U).x, direction(angle_after(2.9, 1.3, step.dt)), atol=1e-14)
    there = step.rollout(X, U[None], dt=[0.11]).x[1]
    np.testing.assert_allclose(there, direction(angle_after(2.9, 1.3, 0.11)), atol=1e-14)


def test_derivatives_are_those_of_differences(step: CompiledPointer) -> None:
    assert sm.check_derivatives(step, X, U, [1.3]).worst < 1e-9
    at, bend = step.length_sensitivity(X, U), step.second_sensitivity(X, U, [1.3])
    w, h = np.array([2.9, 1.3, step.dt]), np.array([1e-3, 1e-3, 1e-4])

    def slope(y: np.ndarray) -> np.ndarray:
        """In (angle, u, dt), the chart in which the circle is a line."""
        return difference(lambda v: np.array([angle_after(*v)]), y, h)[0]

    np.testing.assert_allclose(np.concatenate([at.A[0], at.B[0], at.T]), slope(w), atol=1e-11)
    second = 1.3 * difference(slope, w, 3 * h)
    ours = np.block([[bend.xx, bend.xu, bend.xt[:, None]], [bend.xu.T, bend.uu, bend.ut[:, None]]])
    np.testing.assert_allclose(ours, second[:2], atol=1e-7)
    np.testing.assert_allclose(bend.tt, second[2, 2], atol=1e-6)


def test_compiled_is_evaluated(step: CompiledPointer) -> None:
    other, par, dt = step.evaluated(), step.parameter_values, np.array([step.dt])
    path = step.rollout(X, np.linspace(-2, 3, 7)[:, None])
    Z, K = np.linspace(1, 2, 7)[:, None], np.full((7, 1, 1), 0.4)
    start = step.layout.retract(X, [0.3])
    closed = step.follow(start, path, K)
    for ours, theirs in (
        (path.x, other.rollout(par, dt, X, path.u)[1]),
        (step.linearize_along(path)[0], other.linearize_all(par, dt, path.x[:-1], path.u, None)[2]),
        (step.curvature_along(path, Z).xx, other.curvature_all(par, dt, path.x[:-1], path.u, None, Z)[1]),
        (closed.u, other.project(par, dt, start, path.x, path.u, K)[2]),
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-13)


def test_many_starts_and_copies_are_bit_for_bit_the_same(step: CompiledPointer) -> None:
    starts, inputs = direction(np.linspace(-3, 3, 5)), np.linspace(-1, 1, 4)[:, None]
    many = step.rollout_many(starts, inputs)
    copy = pickle.loads(pickle.dumps(step))
    for x0, found in zip(starts, many.x, strict=True):
        np.testing.assert_array_equal(found, step.rollout(x0, inputs).x)
        np.testing.assert_array_equal(found, copy.rollout(x0, inputs).x)


def test_optimum_is_that_of_the_chart_s_numbers(step: CompiledPointer) -> None:
    """Deviations by expressions and by differences of the layout: the same optimum."""

    class Numeric(CompiledPointer):
        def __getattribute__(self, name: str) -> object:
            return None if name == "equations" else getattr(step, name)

    n = 30
    wanted, weights = direction(2.0 + 0.5 * np.sin(np.linspace(0, 3, n + 1))), ([[5.0]], [[0.2]], [[20.0]])
    found = [
        sm.optimize(sm.Problem(each, sm.TrackingCost(*weights, wanted, np.zeros((n, 1))), direction(0.3))).require()
        for each in (step, Numeric())
    ]
    assert found[0].cost == pytest.approx(found[1].cost, rel=1e-12)
    np.testing.assert_allclose(found[0].trajectory.u, found[1].trajectory.u, atol=1e-6)
    assert found[0].gains.shape == (n, 1, 1)


@pytest.mark.parametrize("name", ["expression", "track"])
def test_terms_are_held_to_their_laws(step: CompiledPointer, name: str) -> None:
    """Those that ask for no mechanism."""
    test_terms.test_expansion_is_exact(name, step)
    test_terms.test_every_part_is_positive_where_it_says_so(name, step)
    test_terms.test_terms_add_up(name, step)
    test_terms.test_optimum_with_a_term_is_found(name, step)
