"""Expressions as costs: what they mean, what they refuse, and the same without a compiler."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal import terms
from stepmap.optimal.terms import Expanded, Part

N = 5


@pytest.fixture(scope="module")
def step() -> sm.VariationalStep:
    return sm.discretize(sm.systems.get("suspended_mass"), 0.03)


@pytest.fixture(scope="module")
def path(step: sm.VariationalStep) -> sm.Trajectory:
    x0 = step.rest({})
    held = step.layout.hold(x0)
    return step.rollout(x0, held + 0.01 * np.sin(np.arange(N * step.nu)).reshape(N, step.nu))


def height(names: Any) -> Any:
    return names["ym"] ** 2 + 0.1 * names["xr_next"]


def test_values_are_those_of_the_formula(step: sm.VariationalStep, path: sm.Trajectory) -> None:
    xm, ym, xr = path.x[:-1, 0], path.x[:-1, 1], path.u[:, 0]
    t, tension = path.t[:-1], path.multipliers[:, 0]
    cases = [
        (sm.Expression("xm - 0.1*sin(t)", 3.0), 1.5 * np.sum((xm - 0.1 * np.sin(t)) ** 2)),
        (sm.Expression(["xm", "string - 1"], [1.0, 2.0]), 0.5 * np.sum(xm**2 + 2 * (tension - 1) ** 2)),
        (sm.Expression("xm*xr_next", least_squares=False), np.sum(xm * xr)),
        (sm.Expression("max(xm, 0) + abs(ym)", least_squares=False), np.sum(np.maximum(xm, 0) + np.abs(ym))),
        (sm.Expression("exp(ym) - 1", terminal=True), 0.5 * (np.exp(path.x[-1, 1]) - 1) ** 2),
        (sm.Expression(height, least_squares=False), np.sum(ym**2 + 0.1 * xr)),
    ]
    for term, expected in cases:
        assert sm.Cost(step, term).value(path) == pytest.approx(float(expected), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (sm.Expression("xn"), r"unknown name 'xn'.*position 1"),
        (sm.Expression("xm +"), "ends too early"),
        (sm.Expression("__import__('os')"), "unknown function"),
        (sm.Expression("xm", weight=-1.0), "not negative"),
        (sm.Expression("xm", weight=[1.0, 2.0]), "one per formula"),
        (sm.Expression("xr_next", terminal=True), "no inputs and no constraint forces at the end"),
        (sm.Expression([]), "expected a text"),
        (sm.Expression(lambda names: names["nobody"]), "no name 'nobody'"),
        (sm.Frames(["hand"], np.zeros((1, 3))), "no frame is called 'hand'"),
        (sm.Frames(["mass"], np.zeros((2, 3))), "targets: expected"),
        (sm.Limits({"xn": (0, 1)}), "did you mean"),
        (sm.Limits([sm.SoftLimit(99)]), "outside"),
        (sm.Limits({"xm": (0.0,)}), "bounds: expected .* of xm"),  # type: ignore[dict-item]
        (sm.Limits({"xm": ("low", "high")}), "bounds: expected .* of xm"),  # type: ignore[dict-item]
        (sm.Limits({"xm": 1.0}), "bounds: expected .* of xm"),  # type: ignore[dict-item]
        (sm.Limits([1.0]), "bounds: expected"),  # type: ignore[list-item]
        (sm.Tension(low=0.0, names=["rope"]), "no constraint is called 'rope'"),
        (sm.SpeedChange([1.0, 2.0, 3.0]), "one per kinematic coordinate"),
        (sm.SpeedChange(-1.0), "not negative"),
        (3, "expected terms such as"),
    ],
)
def test_terms_without_meaning_are_refused(step: sm.VariationalStep, term: Any, message: str) -> None:
    with pytest.raises((sm.ModelError, sm.ShapeError), match=message):
        sm.Cost(step, term)


def test_terms_that_a_map_cannot_have_are_refused() -> None:
    step = sm.discretize(sm.systems.get("cart_pendulum"), 0.03)
    for term, message in ((sm.SpeedChange(1.0), "no kinematic"), (sm.Tension(low=0.0), "no constraint")):
        with pytest.raises(sm.ModelError, match=message):
            sm.Cost(step, term)
    with pytest.raises(sm.ModelError, match="low, high or both"):
        sm.Tension()
    with pytest.raises(sm.ModelError, match="at least one"):
        sm.Cost(step)
    with pytest.raises(sm.ModelError, match=r"no term is called 'tensions'\s+hint: Did you mean 'tension'"):
        terms.get("tensions")


def test_constraint_forces_of_another_size_are_refused(step: sm.VariationalStep, path: sm.Trajectory) -> None:
    """They are read by address: fewer than there should be would be read beyond their end."""
    cost = sm.Cost(step, sm.Expression("string"))
    for forces in (np.zeros((N - 1, 1)), np.zeros(N), "none"):
        with pytest.raises(sm.ShapeError, match="Trajectory: "):
            sm.Trajectory(path.t, path.x, path.u, forces)  # type: ignore[arg-type]
    with pytest.raises(sm.ShapeError, match=r"trajectory: .* 1 constraint force"):
        cost.value(sm.Trajectory(path.t, path.x, path.u, np.zeros((N, 0))))


def test_a_term_that_hides_its_forces_is_refused(step: sm.VariationalStep, path: sm.Trajectory) -> None:
    class Hidden:
        def value(self, trajectory: sm.Trajectory) -> float:
            return 0.0

        def expand(self, trajectory: sm.Trajectory) -> Expanded:
            n = trajectory.steps
            return Expanded((Part(np.array([step.ndx + step.nu]), np.zeros((n, 1)), np.ones((n, 1, 1))),))

    with pytest.raises(sm.ModelError, match=r"Hidden.*forces = True"):
        sm.Cost(step, Hidden()).expand(path)


def test_a_cost_follows_the_map_of_its_problem(step: sm.VariationalStep, path: sm.Trajectory) -> None:
    """A change of speed depends on dt, a frame on the mechanism's parameters: those of the problem's map count."""
    slower = sm.discretize(step.system, 0.06)
    cost = sm.Cost(step, sm.Track.example(step, N), sm.SpeedChange(2.0))
    taken = sm.Problem(slower, cost, slower.rest({})).cost
    assert taken.value(path) == sm.Cost(slower, sm.Track.example(step, N), sm.SpeedChange(2.0)).value(path)
    assert sm.Problem(step, cost, step.rest({})).cost is cost


def test_a_cost_can_be_sent_to_another_process(step: sm.VariationalStep, path: sm.Trajectory) -> None:
    cost = sm.Cost(step, sm.Expression("xm*string"), sm.Frames(["mass"], np.zeros((1, 3))))
    assert pickle.loads(pickle.dumps(cost)).value(path) == cost.value(path)


def test_a_cost_that_is_no_number_is_told(step: sm.VariationalStep) -> None:
    cost = sm.Cost(step, sm.Track.example(step, N), sm.Expression("sqrt(xm - 5)"))
    with pytest.raises(sm.ModelError, match="cost: it is not a finite number along the guess"):
        sm.optimize(sm.Problem(step, cost, step.rest({})))


def test_horizons_must_agree(step: sm.VariationalStep) -> None:
    with pytest.raises(sm.ShapeError, match="different numbers of steps, 5, 6"):
        sm.Cost(step, sm.Track.example(step, 5), sm.Frames.example(step, 6))
    free = sm.Cost(step, sm.Expression("xm"))
    with pytest.raises(sm.ModelError, match="a guess tells how many"):
        sm.Problem(step, free, step.rest({}))


def test_a_cost_without_reference_is_searched(step: sm.VariationalStep, path: sm.Trajectory) -> None:
    """Its own second derivatives give the feedback; those of a regulator the plan's."""
    cost = sm.Cost(step, sm.Expression(["xm - 0.1", "ym"], 10.0), sm.Expression(["xr_next - xm", "r_next - 1"], 1.0))
    found = sm.optimize(sm.Problem(step, cost, path.x[0], path)).require()
    assert found.cost < cost.value(path)
    assert found.plan.reference is found.trajectory
    weights = np.eye(step.nx), np.eye(step.nu), np.eye(step.nx)
    held = sm.optimize(sm.Problem(step, cost, path.x[0], path, regulator=weights)).require()
    np.testing.assert_array_equal(held.gains, sm.lqr(step, held.trajectory, *weights))
    assert held.cost == pytest.approx(found.cost, rel=1e-10)
    with pytest.raises(sm.ShapeError, match="regulator, Q"):
        sm.Problem(step, cost, path.x[0], path, regulator=(np.eye(3), *weights[1:]))
    for wrong in (weights[:2], 1.0):
        with pytest.raises(sm.ModelError, match="regulator: expected Q, R and Qf"):
            sm.Problem(step, cost, path.x[0], path, regulator=wrong)  # type: ignore[arg-type]


def test_a_cost_of_track_and_limits_is_the_tracking_cost(step: sm.VariationalStep) -> None:
    x0, held = step.rest({}), step.layout.hold(step.rest({}))
    x_ref = np.tile(x0, (21, 1))
    x_ref[:, 0] = 0.1
    limit = sm.SoftLimit(2, -0.02, 0.02, weight=100.0)
    given = np.eye(8), np.eye(2), np.eye(8), x_ref, np.tile(held, (20, 1))
    one = sm.optimize(sm.Problem(step, sm.TrackingCost(*given, [limit]), x0)).require()
    terms = sm.Track(*given), sm.Limits({"xr": (-0.02, 0.02)}, weight=100.0)
    other = sm.optimize(sm.Problem(step, sm.Cost(step, *terms), x0)).require()
    assert other.cost == pytest.approx(one.cost, rel=1e-12)
    np.testing.assert_allclose(other.trajectory.x, one.trajectory.x, rtol=0, atol=1e-7)
    np.testing.assert_allclose(other.gains, one.gains, rtol=0, atol=1e-6)


class Bare:
    """A term that is nothing but a value and an expansion."""

    def value(self, trajectory: sm.Trajectory) -> float:
        return 0.5 * float(np.sum(trajectory.u**2))

    def expand(self, trajectory: sm.Trajectory) -> Expanded:
        nx, nu = trajectory.x.shape[1], trajectory.u.shape[1]
        return Expanded((Part(nx + np.arange(nu), trajectory.u, np.eye(nu)),))


def test_anything_with_a_value_and_an_expansion_is_a_term(step: sm.VariationalStep, path: sm.Trajectory) -> None:
    assert sm.Cost(step, Bare()).value(path) == pytest.approx(0.5 * np.sum(path.u**2))


def test_the_same_without_a_compiler(
    step: sm.VariationalStep, path: sm.Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = [sm.Expression.example(step, N), sm.Frames.example(step, N), sm.Expression("string**2", 0.1)]
    compiled = sm.Cost(step, *chosen).expand(path)
    monkeypatch.setenv("CC", "/nonexistent/cc")
    monkeypatch.setenv("STEPMAP_CACHE", str(tmp_path))
    evaluated = sm.Cost(step, *chosen).expand(path)
    assert not list(tmp_path.glob("*.so"))
    for name in ("x", "u", "xx", "xu", "uu", "terminal", "multipliers"):
        np.testing.assert_allclose(getattr(evaluated, name), getattr(compiled, name), rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(evaluated.bend(), compiled.bend(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)
