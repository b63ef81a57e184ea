"""Limits of states and a state to end in: kept to 1e-8, and optima that IPOPT agrees with."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal import Status
from tests import nlp, problems
from tests.rotor import Rotor, direction
from tests.unit.test_input_limits import cart

INF = np.inf


def test_a_rail_of_a_limited_swing_up_is_kept_as_by_ipopt() -> None:
    rail = 0.6
    problem = dataclasses.replace(cart(60.0), states={"x": (-rail, rail)})
    found = sm.optimize(problem, max_iterations=500).require()
    x = found.trajectory.x[:, 0]
    assert np.abs(x).max() == pytest.approx(rail, abs=1e-8)
    assert np.abs(found.trajectory.u).max() <= 60.0
    box = nlp.Box(np.array([-rail, -INF, -INF, -INF]), np.array([rail, INF, INF, INF]))
    assert found.cost == pytest.approx(nlp.solve(problem, found.trajectory, states=box).cost, rel=1e-6)
    assert found.cost == pytest.approx(problem.cost.value(found.trajectory), rel=1e-12)


def test_an_end_is_met_as_by_ipopt() -> None:
    problem = problems.figure_eight(60, tight=False)
    end = problem.step.rest({"xm": 0.1, "xr": 0.1})
    end[3] = np.nan  # the string's length is free, and with it the mass's height
    end[1] = np.nan
    problem = dataclasses.replace(problem, end=end)
    found = sm.optimize(problem).require()
    met = np.isfinite(end)
    np.testing.assert_allclose(found.trajectory.x[-1][met], end[met], atol=1e-8)
    low, high = np.full((60, 8), -INF), np.full((60, 8), INF)
    low[-1][met] = high[-1][met] = end[met]
    theirs = nlp.solve(problem, found.trajectory, states=nlp.Box(low, high))
    assert found.cost == pytest.approx(theirs.cost, rel=1e-7)
    free = sm.optimize(dataclasses.replace(problem, end=None))
    assert free.cost < found.cost


def test_an_end_out_of_reach_is_told() -> None:
    """Two Newton metres lift no pendulum in half a second."""
    step = sm.discretize(sm.systems.get("pendulum"), 0.05)
    x_ref = np.tile(step.rest({"theta": np.pi}), (11, 1))
    cost = sm.TrackingCost(np.eye(2), [[0.1]], 10 * np.eye(2), x_ref, np.zeros((10, 1)))
    problem = sm.Problem(step, cost, step.rest({}), limits=sm.InputLimits(-2, 2), end=x_ref[-1])
    found = sm.optimize(problem)
    assert found.status is Status.UNMET
    assert "more time" in str(found.status)
    assert np.abs(found.trajectory.u).max() <= 2
    with pytest.raises(sm.ConvergenceError, match="more time"):
        found.require()


def test_what_does_not_fit_is_refused() -> None:
    problem = cart(60.0, 5)
    for given, said in (
        ({"states": {"y": (0, 1)}}, "no state is called 'y'"),
        ({"states": {"x": (1, 0)}}, "low of 'x' .1. must be below high"),
        ({"end": np.zeros(3)}, "end: expected 4 numbers"),
        ({"end": np.full(4, np.inf)}, "end: expected 4 numbers"),
    ):
        with pytest.raises((sm.ModelError, sm.ShapeError), match=said):
            dataclasses.replace(problem, **given)
    rotor = Rotor()
    cost = sm.TrackingCost([[1.0]], [[1.0]], [[1.0]], direction(np.zeros(4)), np.zeros((3, 1)))
    with pytest.raises(sm.ModelError, match="lie on a manifold"):
        sm.Problem(rotor, cost, direction(0.1), end=direction(0.0))
