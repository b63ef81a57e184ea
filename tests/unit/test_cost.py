"""Tracking costs and soft limits: values from their definition, slopes from differences, arguments refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap.steps.check import difference

N, NX, NU = 5, 3, 2
NAN = float("nan")
LIMITS = (
    sm.SoftLimit(1, low=-0.4, high=0.5, weight=3.0),
    sm.SoftLimit(1, high=0.1, weight=0.7),  # a second one on the same entry
    sm.SoftLimit(0, low=0.2, weight=2.0, of_input=True),
)


def symmetric(rng: np.random.Generator, *shape: int) -> np.ndarray:
    half = rng.normal(size=(*shape, shape[-1]))
    return half @ np.swapaxes(half, -1, -2) + 0.1 * np.eye(shape[-1])


def example(*, varying: bool = False, limits: tuple[sm.SoftLimit, ...] = ()) -> sm.TrackingCost:
    rng = np.random.default_rng(0)
    lead = (N,) if varying else ()
    Q, R, Qf = symmetric(rng, *lead, NX), symmetric(rng, *lead, NU), symmetric(rng, NX)
    return sm.TrackingCost(Q, R, Qf, rng.normal(size=(N + 1, NX)), rng.normal(size=(N, NU)), limits)


def path(seed: int = 1) -> sm.Trajectory:
    rng = np.random.default_rng(seed)
    return sm.Trajectory(np.arange(N + 1.0), rng.normal(size=(N + 1, NX)), rng.normal(size=(N, NU)))


def apart(entries: np.ndarray) -> sm.Trajectory:
    """The trajectory whose states and inputs are the entries of one vector."""
    x, u = np.split(entries, [(N + 1) * NX])
    return sm.Trajectory(np.arange(N + 1.0), x.reshape(N + 1, NX), u.reshape(N, NU))


def together(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    return np.concatenate([x.ravel(), u.ravel()])


@pytest.mark.parametrize("varying", [False, True])
def test_value_is_half_the_weighted_squares(varying: bool) -> None:
    cost, at = example(varying=varying), path()
    total = 0.0
    for k in range(N):
        Q, R = (M[k] if varying else M for M in (cost.Q, cost.R))
        dx, du = at.x[k] - cost.x_ref[k], at.u[k] - cost.u_ref[k]
        total += 0.5 * dx @ Q @ dx + 0.5 * du @ R @ du
    last = at.x[N] - cost.x_ref[N]
    assert cost.value(at) == pytest.approx(total + 0.5 * last @ cost.Qf @ last, rel=1e-14)


def test_soft_limits_add_half_the_squared_excess() -> None:
    at = path()
    added = example(limits=LIMITS).value(at) - example().value(at)
    outside = 0.5 * 3.0 * np.sum(np.maximum(at.x[:N, 1] - 0.5, 0) ** 2 + np.maximum(-0.4 - at.x[:N, 1], 0) ** 2)
    outside += 0.5 * 0.7 * np.sum(np.maximum(at.x[:N, 1] - 0.1, 0) ** 2)
    outside += 0.5 * 2.0 * np.sum(np.maximum(0.2 - at.u[:, 0], 0) ** 2)
    assert outside > 0.1
    assert added == pytest.approx(outside, rel=1e-12)


def test_soft_limits_inside_cost_nothing() -> None:
    wide = (sm.SoftLimit(1, -100.0, 100.0), sm.SoftLimit(0, -100.0, 100.0, of_input=True))
    at = path()
    assert example(limits=wide).value(at) == example().value(at)
    ours, theirs = example(limits=wide).expand(at), example().expand(at)
    np.testing.assert_array_equal(ours.x, theirs.x)
    np.testing.assert_array_equal(ours.xx, np.broadcast_to(theirs.xx, ours.xx.shape))


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("limits", [(), LIMITS])
def test_expansion_agrees_with_differences(varying: bool, limits: tuple[sm.SoftLimit, ...]) -> None:
    """Exactly quadratic between the kinks of the limits, so only rounding is left: 2e-16 J/h = 2e-11."""
    cost, at = example(varying=varying, limits=limits), path()
    point = together(at.x, at.u)
    h = np.full(len(point), 1e-3)
    bounds = [(b, at.u if limit.of_input else at.x) for limit in limits for b in (limit.low, limit.high)]
    assert all(np.abs(values - bound).min() > 3e-3 for bound, values in bounds)  # no kink within reach
    e = cost.expand(at)
    numeric = difference(lambda y: np.array([cost.value(apart(y))]), point, h)[0]
    np.testing.assert_allclose(together(e.x, e.u), numeric, rtol=0, atol=1e-10)

    def slope(y: np.ndarray) -> np.ndarray:
        expanded = cost.expand(apart(y))
        return together(expanded.x, expanded.u)

    hessian = np.zeros((len(point), len(point)))
    for k in range(N):
        i, j = k * NX, (N + 1) * NX + k * NU
        hessian[i : i + NX, i : i + NX] = e.xx if e.xx.ndim == 2 else e.xx[k]
        hessian[j : j + NU, j : j + NU] = e.uu if e.uu.ndim == 2 else e.uu[k]
    hessian[N * NX : (N + 1) * NX, N * NX : (N + 1) * NX] = e.terminal
    np.testing.assert_allclose(hessian, difference(slope, point, h), rtol=0, atol=1e-10)


@pytest.mark.parametrize("limits", [(), LIMITS])
def test_weights_that_vary_may_be_constant(limits: tuple[sm.SoftLimit, ...]) -> None:
    one, at = example(limits=limits), path()
    Q, R = np.tile(one.Q, (N, 1, 1)), np.tile(one.R, (N, 1, 1))
    stacked = sm.TrackingCost(Q, R, one.Qf, one.x_ref, one.u_ref, limits)
    assert stacked.value(at) == pytest.approx(one.value(at), rel=1e-14)
    for ours, theirs in zip(stacked.expand(at)[:5], one.expand(at)[:5], strict=True):  # a tracking cost has no others
        np.testing.assert_allclose(ours, np.broadcast_to(theirs, ours.shape), rtol=1e-14, atol=1e-14)


def test_expanding_leaves_the_weights_alone() -> None:
    cost = example(limits=LIMITS)
    before = cost.Q.copy(), cost.R.copy(), cost.value(path())
    cost.expand(path())
    np.testing.assert_array_equal(cost.Q, before[0])
    np.testing.assert_array_equal(cost.R, before[1])
    assert cost.value(path()) == before[2]


# refused --------------------------------------------------------------------------------------------------------


GOOD: dict[str, Any] = {
    "Q": np.eye(NX),
    "R": np.eye(NU),
    "Qf": np.eye(NX),
    "x_ref": np.zeros((N + 1, NX)),
    "u_ref": np.zeros((N, NU)),
}


def broken(name: str, *index: int, value: float = NAN) -> np.ndarray:
    out = np.array(GOOD[name])
    out[index] = value
    return out


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x_ref", np.zeros((N, NX)), "x_ref: 5 inputs go with 6 states, got 5"),
        ("x_ref", np.zeros(NX), "x_ref: expected a table"),
        ("x_ref", broken("x_ref", 3, 1), "x_ref: row 3, column 1 is not a finite number"),
        ("x_ref", "a few states", "x_ref: expected numbers"),
        ("x_ref", [[0.0, 1.0], [0.0]], "x_ref: expected numbers"),
        ("u_ref", broken("u_ref", 2, 0, value=np.inf), "u_ref: row 2, column 0 is not a finite number"),
        ("u_ref", np.zeros((0, NU)), "u_ref: the horizon is zero"),
        ("u_ref", np.zeros((N, NU, 1)), "u_ref: expected a table"),
        ("Q", np.eye(NU), r"Q: expected shape \(3, 3\) or \(5, 3, 3\), got \(2, 2\)"),
        ("Q", np.zeros((N - 1, NX, NX)), "Q: expected shape"),
        ("Q", "heavy", "Q: expected numbers"),
        ("Q", broken("Q", 0, 0), "Q: has entries that are not finite"),
        ("R", broken("R", 1, 1), "R: has entries that are not finite"),
        ("Qf", np.tile(np.eye(NX), (N, 1, 1)), "Qf: expected shape"),
        ("Qf", broken("Qf", 2, 2, value=np.inf), "Qf: has entries that are not finite"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(sm.ShapeError, match=message):
        sm.TrackingCost(**(GOOD | {name: value}))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("Q", np.diag([1.0, -1e-3, 1.0]), "Q: must be positive semidefinite, its least eigenvalue is -0.001"),
        ("Qf", np.diag([1.0, 1.0, -1.0]), "Qf: must be positive semidefinite"),
        ("R", np.zeros((NU, NU)), "R: must be positive definite"),
        ("R", np.diag([1.0, -1.0]), "R: must be positive definite"),
        ("Q", broken("Q", 0, 1, value=0.5), "Q: must be symmetric"),
        ("R", np.stack([np.eye(NU)] * (N - 1) + [-np.eye(NU)]), "R: must be positive definite"),
    ],
)
def test_indefinite_weights_are_refused(name: str, value: np.ndarray, message: str) -> None:
    with pytest.raises(sm.ModelError, match=message):
        sm.TrackingCost(**(GOOD | {name: value}))


def test_weights_of_zero_are_fine_where_the_problem_keeps_a_minimum() -> None:
    assert sm.TrackingCost(**(GOOD | {"Q": np.zeros((NX, NX)), "Qf": np.zeros((NX, NX))})).value(path()) > 0


def test_another_trajectory_s_shape_is_refused() -> None:
    short = sm.Trajectory(np.arange(N), np.zeros((N, NX)), np.zeros((N - 1, NU)))
    for call in (example().value, example().expand):
        with pytest.raises(sm.ShapeError, match=r"the cost is for states \(6, 3\) and inputs \(5, 2\)"):
            call(short)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"index": 0, "low": 1.0, "high": 1.0}, "low .* must be below high"),
        ({"index": 0, "low": NAN}, "low .* must be below high"),
        ({"index": 0, "high": 1.0, "weight": 0.0}, "weight must be positive"),
        ({"index": 0, "high": 1.0, "weight": NAN}, "weight must be positive"),
    ],
)
def test_limits_without_meaning_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(sm.ModelError, match=message):
        sm.SoftLimit(**arguments)


@pytest.mark.parametrize("limit", [sm.SoftLimit(NX), sm.SoftLimit(-1), sm.SoftLimit(NU, of_input=True)])
def test_limits_on_entries_that_are_not_there_are_refused(limit: sm.SoftLimit) -> None:
    with pytest.raises(sm.ModelError, match="SoftLimit: index"):
        sm.TrackingCost(**GOOD, limits=[limit])
