"""The laws of terms of costs. A new term is found by the registry; one from outside stands here as one file would."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal import terms
from stepmap.optimal.terms import Expanded, Part
from stepmap.steps.check import difference

N = 4


class Outside:
    """½ Σ sin²(first input) · (1 + first state²): a term of somebody else, which needs nothing of the map but sizes."""

    def on(self, step: sm.StepMap) -> Outside:
        self.at = np.array([0, step.ndx])
        return self

    def value(self, trajectory: sm.Trajectory) -> float:
        x, u = trajectory.x[:-1, 0], trajectory.u[:, 0]
        return 0.5 * float(np.sum(np.sin(u) ** 2 * (1 + x**2)))

    def expand(self, trajectory: sm.Trajectory) -> Expanded:
        x, u = trajectory.x[:-1, 0], trajectory.u[:, 0]
        sin, cos = np.sin(u), np.cos(u)
        slope = np.stack([sin**2 * x, sin * cos * (1 + x**2)], axis=-1)
        mixed = 2 * sin * cos * x
        H = np.stack([np.stack([sin**2, mixed], -1), np.stack([mixed, (cos**2 - sin**2) * (1 + x**2)], -1)], -2)
        values, vectors = np.linalg.eigh(H)
        positive = (vectors * np.maximum(values, 0)[:, None]) @ np.swapaxes(vectors, 1, 2)
        return Expanded((Part(self.at, slope, positive, H - positive),))

    @staticmethod
    def example(step: sm.StepMap, steps: int) -> Outside:
        return Outside()


def examples() -> list[Any]:
    return [pytest.param(name, id=name) for name in [*terms.names(), "outside"]]


def example(name: str, step: sm.StepMap, steps: int = N) -> Any:
    return (Outside if name == "outside" else terms.get(name)).example(step, steps)


@pytest.fixture(scope="module", params=["midpoint", "euler", "arm"])
def step(request: pytest.FixtureRequest) -> Any:
    if request.param == "arm":
        return sm.discretize(sm.systems.get("planar_arm"), 0.02)
    system = sm.systems.get("suspended_mass", mass=0.1)
    return sm.discretize(system, 0.03) if request.param == "midpoint" else sm.euler(system, 0.03)


def inputs(step: Any, y: np.ndarray) -> np.ndarray:
    """Inputs that lead away from rest, changed by y."""
    held = np.tile(step.layout.hold(step.rest({})), (N, 1))
    moved = 0.01 * np.sin(np.arange(N * step.nu)).reshape(N, step.nu)
    return held + moved + y.reshape(N, step.nu)


def rolled(step: Any, y: np.ndarray, start: np.ndarray | None = None) -> sm.Trajectory:
    x0 = step.rest({}) if start is None else start
    return step.rollout(x0, inputs(step, y))


def matrices(step: Any, cost: sm.Cost, at: sm.Trajectory) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slope, positive and whole second derivative of the cost in all inputs, along trajectories of the map."""
    e = cost.expand(at)
    A, B = step.linearize_along(at)
    nu = step.nu
    Z = np.zeros((N + 1, step.ndx, N * nu))
    for k in range(N):
        Z[k + 1] = A[k] @ Z[k]
        Z[k + 1][:, k * nu : (k + 1) * nu] += B[k]
    V = np.eye(N * nu).reshape(N, nu, N * nu)
    s = np.zeros((N + 1, step.ndx))
    s[N] = e.x[N]
    for k in reversed(range(N)):
        s[k] = e.x[k] + A[k].T @ s[k + 1]
    if e.multipliers is None:
        f = step.curvature_along(at, s[1:])
    else:
        f = step.second_sensitivity_along(at, s[1:], e.multipliers)
    own = e.bend() if e.bend is not None else sm.optimal.Bend()
    xx, uu = (np.broadcast_to(M, (N, *M.shape[-2:])) for M in (e.xx, e.uu))
    xu = np.zeros((N, step.ndx, nu)) if e.xu is None else np.broadcast_to(e.xu, (N, step.ndx, nu))

    def together(xx: Any, xu: Any, uu: Any, end: Any) -> np.ndarray:
        total = Z[N].T @ end @ Z[N]
        for k in range(N):
            mixed = Z[k].T @ xu[k] @ V[k]
            total = total + Z[k].T @ xx[k] @ Z[k] + V[k].T @ uu[k] @ V[k] + mixed + mixed.T
        return total

    def zero(M: Any, *shape: int) -> np.ndarray:
        return np.zeros(shape) if M is None else M

    slope = np.einsum("ki,kij->j", e.x, Z) + np.einsum("ki,kij->j", e.u, V)
    positive = together(xx, xu, uu, e.terminal)
    n = step.ndx
    bends = zero(own.xx, N, n, n) + f.xx, zero(own.xu, N, n, nu) + f.xu, zero(own.uu, N, nu, nu) + f.uu
    return slope, positive, positive + together(*bends, zero(own.terminal, n, n))


def close(ours: np.ndarray, numeric: np.ndarray, tolerance: float) -> bool:
    return bool(np.abs(ours - numeric).max() <= tolerance * max(1.0, np.abs(numeric).max()))


@pytest.mark.parametrize("name", examples())
def test_expansion_is_exact(name: str, step: Any) -> None:
    """Slope and second derivative over all inputs against sixth-order differences, to rounding of J/h."""
    cost = sm.Cost(step, example(name, step))
    stiff = name == "tension" or step.name == "planar_arm"
    zero, h = np.zeros(N * step.nu), np.full(N * step.nu, 1e-4 if stiff else 1e-3)
    slope, positive, whole = matrices(step, cost, rolled(step, zero))
    numeric = difference(lambda y: np.array([cost.value(rolled(step, y))]), zero, h)[0]
    assert close(slope, numeric, 1e-7)
    second = difference(lambda y: matrices(step, cost, rolled(step, y))[0], zero, h)
    assert close(whole, second, 1e-6)
    assert np.linalg.eigvalsh(positive).min() > -1e-9 * max(1.0, np.abs(positive).max())


TIMES = {"clearance": N + 1, "expression": N, "frames": N + 1, "limits": N + 1, "speed_change": N, "tension": N}
"""Rows of weights, one per step or per state."""


def weighed(name: str, step: Any, rows: np.ndarray) -> Any:
    """The example with weights that change with time."""
    given = example(name, step)
    if name == "frames":
        return dataclasses.replace(given, weights=rows[:, None, None] * np.asarray(given.weights)[:, None])
    return dataclasses.replace(given, weight=rows[:, None] * np.asarray(given.weight))


def test_terms_of_the_catalog_take_weights_per_time() -> None:
    assert set(TIMES) == set(terms.names()) - {"track"}  # whose Q and R are per step


@pytest.mark.parametrize("name", TIMES)
def test_weights_may_change_with_time(name: str, step: Any) -> None:
    """One row at a time adds up to the whole, which is exact in its first derivatives; other lengths are refused."""
    zero, h = np.zeros(N * step.nu), np.full(N * step.nu, 1e-4)
    at = rolled(step, zero)
    rows = np.random.default_rng(7).uniform(0.1, 2.0, TIMES[name])
    cost = sm.Cost(step, weighed(name, step, rows))
    alone = [
        sm.Cost(step, weighed(name, step, np.where(np.arange(len(rows)) == k, rows, 0.0))).value(at)
        for k in range(len(rows))
    ]
    assert cost.value(at) == pytest.approx(sum(alone), rel=1e-12)
    constant = sm.Cost(step, weighed(name, step, np.full(len(rows), 1.0))).value(at)
    assert constant == pytest.approx(sm.Cost(step, example(name, step)).value(at), rel=1e-12)
    slope, _, _ = matrices(step, cost, at)
    numeric = difference(lambda y: np.array([cost.value(rolled(step, y))]), zero, h)[0]
    assert close(slope, numeric, 1e-7)
    with pytest.raises(sm.ShapeError, match="steps"):
        sm.Cost(step, weighed(name, step, np.append(rows, 1.0))).value(at)


@pytest.mark.parametrize("name", examples())
def test_every_part_is_positive_where_it_says_so(name: str, step: Any) -> None:
    bound = sm.Cost(step, example(name, step)).terms[0]
    at = rolled(step, np.zeros(N * step.nu))
    expanded = bound.expand(at)
    for part, count in [(p, N) for p in expanded.running] + [(p, 1) for p in expanded.end]:
        n = len(part.at)
        assert len(set(part.at.tolist())) == n
        assert part.slope.shape == (count, n)
        assert part.positive.shape in ((n, n), (count, n, n))
        assert np.linalg.eigvalsh(part.positive).min() > -1e-9 * max(1.0, np.abs(part.positive).max())
        bend = part.bend() if callable(part.bend) else part.bend
        assert bend is None or bend.shape == (count, n, n)
    assert all((part.at < step.ndx).all() for part in expanded.end)


@pytest.mark.parametrize("name", examples())
def test_trajectories_of_other_sizes_are_refused(name: str, step: Any) -> None:
    cost = sm.Cost(step, example(name, step))
    narrow = sm.Trajectory(np.arange(N + 1), np.zeros((N + 1, step.nx - 1)), np.zeros((N, step.nu)))
    for call in (cost.value, cost.expand):
        with pytest.raises(sm.ShapeError, match="trajectory"):
            call(narrow)
    if cost.horizon is not None:
        at = rolled(step, np.zeros(N * step.nu))
        short = sm.Trajectory(at.t[:-1], at.x[:-1], at.u[:-1], at.multipliers[:-1])
        for call in (cost.value, cost.expand):
            with pytest.raises(sm.ShapeError, match="trajectory"):
                call(short)


@pytest.mark.parametrize("name", examples())
def test_terms_can_be_sent_to_another_process(name: str, step: Any) -> None:
    term, at = example(name, step), rolled(step, np.zeros(N * step.nu))
    copy = pickle.loads(pickle.dumps(term))
    assert sm.Cost(step, copy).value(at) == sm.Cost(step, term).value(at)


@pytest.mark.parametrize("name", examples())
def test_terms_add_up(name: str, step: Any) -> None:
    """A cost of two terms is the sum of their costs, in value and in every derivative."""
    track, at = sm.Track.example(step, N), rolled(step, np.zeros(N * step.nu))
    alone = [sm.Cost(step, track), sm.Cost(step, example(name, step))]
    both = sm.Cost(step, track, example(name, step))
    assert both.value(at) == pytest.approx(sum(cost.value(at) for cost in alone), rel=1e-13)
    parts = [matrices(step, cost, at) for cost in (both, *alone)]
    for whole, first, second in zip(*parts, strict=True):
        assert close(whole, first + second, 1e-12)


@pytest.mark.parametrize("name", examples())
def test_optimum_with_a_term_is_found(name: str, step: Any) -> None:
    """Newton's method converges quadratically, so its model is the exact one."""
    x0, held = step.rest({}), step.layout.hold(step.rest({}))
    # Light enough that the optimum stays near where the mechanism hangs.
    weights = np.eye(step.ndx), np.eye(step.nu), np.eye(step.ndx)
    near = sm.Track(*weights, np.tile(x0, (N + 1, 1)), np.tile(held, (N, 1)))
    given = example(name, step)
    term = near if name == "track" else dataclasses.replace(given, **_lighter(given)) if name != "outside" else given
    solution = sm.optimize(sm.Problem(step, sm.Cost(step, near, term), x0), max_iterations=100)
    assert solution.status.ok, solution.status
    assert solution.cost <= sm.Cost(step, near, term).value(step.rollout(x0, np.tile(held, (N, 1)))) + 1e-12


def _lighter(term: Any) -> dict[str, Any]:
    field = "weights" if hasattr(term, "weights") else "weight"
    return {field: (1e-3 * np.asarray(getattr(term, field))).tolist()}


GOAL = '''
"""Half the squared distance of the last state from zero, one file of another package."""
import numpy as np

from stepmap.optimal.terms import Expanded, Part


class Goal:
    def __init__(self, weight=1.0):
        self.weight = weight

    @classmethod
    def example(cls, step, steps):
        return cls(3.0)

    def on(self, step):
        return self

    def value(self, trajectory):
        return 0.5 * self.weight * float(np.sum(trajectory.x[-1] ** 2))

    def expand(self, trajectory):
        n = trajectory.x.shape[1]
        return Expanded(end=(Part(np.arange(n), self.weight * trajectory.x[-1:], self.weight * np.eye(n)),))
'''


def test_a_term_of_another_package_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Any) -> None:
    (tmp_path / "goal_term.py").write_text(GOAL)
    info = tmp_path / "goal_term-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: goal-term\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stepmap.terms]\ngoal = goal_term:Goal\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "goal" in terms.names()
    test_expansion_is_exact("goal", step)
    test_terms_add_up("goal", step)
