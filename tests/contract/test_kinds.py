"""Every registered kind of step is held to the same laws, on every system of the catalog; one from outside is, too."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap.steps import kinds
from stepmap.steps.check import difference
from stepmap.steps.kernels import shares
from stepmap.steps.mechanical import MechanicalStep
from tests.mechanisms import DT, LARGE, case, cataloged, require_copied

CASES: list[tuple[str, dict[str, Any]]] = [
    ("midpoint", {"forces": "held"}),
    ("midpoint", {"forces": "left"}),
    ("euler", {}),
    ("relaxed", {"kappa": 1e-2}),
]
GAPS = [("events", {"forces": "held"}), ("events", {"forces": "left"})]  # of systems whose gaps may open
APART = ("marionette_balls",)  # as large, and differentiated for minutes: test_balls.py has it
WITHOUT_GAPS = "suspended_mass"  # a relaxed step is then the midpoint step from its equations: once is enough


def _taken(name: str, made: tuple[str, dict[str, Any]]) -> bool:
    if made[0] == "relaxed":
        return name == WITHOUT_GAPS
    return (name not in LARGE or made is CASES[0]) and not cataloged(name).gap_names and name not in APART


MOVING = [(name, *made) for name in sm.systems.names() for made in CASES if _taken(name, made)]


def test_every_registered_kind_is_tested() -> None:
    assert {kind for kind, _ in CASES + GAPS} == set(kinds.names())


@pytest.fixture(scope="module", params=MOVING, ids=lambda param: "-".join(map(str, [*param[:2], *param[2].values()])))
def moving(request: pytest.FixtureRequest) -> tuple[MechanicalStep, np.ndarray, np.ndarray]:
    """A step of a kind, on a system of the catalog, with a state in motion and an input."""
    name, kind, options = request.param
    subject = case(name)
    step = kinds.make(kind, subject.system, DT, **options)
    x, u = (subject.x, subject.u) if kind != "euler" else subject.euler_point
    return step, x, u


def relative(a: Any, b: Any) -> float:
    a, b = np.asarray(a), np.asarray(b)
    return float(np.abs(a - b).max(initial=0.0) / max(1.0, float(np.abs(b).max(initial=0.0))))


def test_sensitivities_are_those_of_the_equations(moving: tuple[MechanicalStep, np.ndarray, np.ndarray]) -> None:
    """Compiled against evaluated, with lengths of the step and constraint forces."""
    step, x, u = moving
    rng = np.random.default_rng(3)
    z, m = rng.normal(size=step.ndx), rng.normal(size=step.nc)
    par, n, other = step.parameter_values, step.ndx, step.evaluated()
    at, H = step.length_sensitivity(x, u), step.second_sensitivity(x, u, z, m)
    _, after, forces, Y, M = other.sensitivity(par, DT, x, u)
    for ours, theirs in (
        (at.x, after), (at.multipliers, forces), (at.A, Y[:, :n]), (at.B, Y[:, n:-1]), (at.T, Y[:, -1]),
        (at.multipliers_x, M[:, :n]), (at.multipliers_u, M[:, n:-1]), (at.multipliers_t, M[:, -1]),
    ):  # fmt: skip
        assert relative(ours, theirs) < 5e-11
    _, G = other.second_sensitivity(par, DT, x, u, z, m)
    scale = max(1.0, float(np.abs(G).max()))
    for mine, part in (
        (H.xx, G[:n, :n]), (H.xu, G[:n, n:-1]), (H.uu, G[n:-1, n:-1]), (H.xt, G[:n, -1]), (H.ut, G[n:-1, -1]),
        (H.tt, G[-1, -1]),
    ):  # fmt: skip
        assert float(np.abs(mine - part).max(initial=0.0)) < 5e-11 * scale


def test_derivatives_in_the_length_are_those_of_differences(
    moving: tuple[MechanicalStep, np.ndarray, np.ndarray],
) -> None:
    step, x, u = moving
    spacing = np.array([1e-2 * DT])

    def ends(dt: np.ndarray) -> np.ndarray:
        path = step.rollout(x, u[None], dt=dt)
        assert path.multipliers is not None
        return np.concatenate([step.layout.difference(at.x, path.x[1]), path.multipliers[0]])

    at = step.length_sensitivity(x, u)
    slope = difference(ends, np.array([DT]), spacing)[:, 0]
    exact = np.concatenate([at.T, at.multipliers_t])
    assert relative(slope, exact) < 1e-8
    if not step.layout.plain:  # A at another length is in the tangent space at another state
        return
    rng = np.random.default_rng(5)
    z, m = rng.normal(size=step.ndx), rng.normal(size=step.nc)

    def slopes(dt: np.ndarray) -> np.ndarray:
        there = step.length_sensitivity(x, u, dt=float(dt[0]))
        parts = zip((there.A, there.B, there.T[:, None]), (there.multipliers_x, there.multipliers_u), strict=False)
        rows = [z @ state + m @ force for state, force in parts]
        return np.concatenate([*rows, [z @ there.T + m @ there.multipliers_t]])

    bend = step.second_sensitivity(x, u, z, m)
    numeric = difference(slopes, np.array([DT]), spacing)[:, 0]
    assert relative(numeric, np.concatenate([bend.xt, bend.ut, [bend.tt]])) < 1e-7


def test_derivatives_by_parameters_are_exact(moving: tuple[MechanicalStep, np.ndarray, np.ndarray]) -> None:
    """Against differences of the map, and against the evaluator; A and B are those of ``linearize``."""
    step, x, u = moving
    par, count = step.parameter_values, len(step.system.parameters)
    at, plain = step.sensitivity(x, u), step.linearize(x, u)
    assert at.T.shape == (step.ndx, count)
    require_copied(step, plain.A, plain.B)
    for ours, theirs in zip(at[:3], plain, strict=True):
        assert relative(ours, theirs) < 5e-11
    if not count:
        return

    def after(values: np.ndarray) -> np.ndarray:
        info, there, _ = step.kernel.step(np.concatenate([values, par[count:]]), DT, x, u)
        assert not info.status
        return step.layout.difference(at.x, there)

    # The error of differences has the sixth power of their spacing, and rounding divided by it: light mechanisms need
    # a narrow one, large ones a wide one.
    size = np.maximum(np.abs(par[:count]), 0.1)
    assert min(relative(at.T, difference(after, par[:count], h * size)) for h in (3e-4, 1e-3, 3e-3)) < 1e-9
    _, _, _, _, twin = step.evaluated().tilted(par, DT, x, u)
    assert relative(at.T, twin[:, :count]) < 5e-11
    many = step.sensitivity_many(np.tile(x, (3, 1)), np.tile(u, (3, 1)))
    for all_of_them, one in zip(many, at, strict=True):
        np.testing.assert_array_equal(all_of_them[2], one)


def test_many_starts_are_single_ones_bit_for_bit(moving: tuple[MechanicalStep, np.ndarray, np.ndarray]) -> None:
    step, x, u = moving
    rng = np.random.default_rng(7)
    starts = x + 1e-4 * rng.normal(size=(5, step.nx)) * (np.arange(step.nx) >= len(step.system.coordinates))
    U = u + 1e-4 * rng.normal(size=(5, 6, step.nu))
    lengths = DT * rng.uniform(0.5, 1.0, 6)
    for dt in (None, lengths):
        many = step.rollout_many(starts, U, dt=dt)
        assert (many.steps == 6).all()
        for j in range(5):
            one = step.rollout(starts[j], U[j], dt=dt)
            np.testing.assert_array_equal(many.x[j], one.x)
            np.testing.assert_array_equal(many.multipliers[j], one.multipliers)
            np.testing.assert_array_equal(many.t, one.t)
    shared = step.rollout_many(starts, U[0])
    np.testing.assert_array_equal(shared.x[0], step.rollout(starts[0], U[0]).x)
    steps = step.step_many(starts, U[:, 0])
    np.testing.assert_array_equal(steps.x, [step.step(start, w).x for start, w in zip(starts, U[:, 0], strict=True)])
    assert not steps.failed.any()


def test_threads_change_no_bit(
    moving: tuple[MechanicalStep, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    step, x, u = moving
    path = step.rollout(x, np.tile(u, (9, 1)))
    Z = np.random.default_rng(2).normal(size=(9, step.ndx))
    monkeypatch.setattr(shares, "WORTH", 1)
    found = []
    for count in (1, 3):
        monkeypatch.setattr(shares, "threads", lambda count=count: count)
        exact = step.length_sensitivity_along(path)
        found.append([*step.linearize_along(path), *step.curvature_along(path, Z), *exact])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_point_that_fails_is_named_whatever_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    step = sm.discretize(sm.systems.get("planar_arm"), DT)
    x = step.rest(step.system.satisfy_constraints(sm.systems.example("planar_arm")))
    U = np.tile(step.layout.hold(x), (9, 1))
    U[7, -1] = 0.01  # a string too short for any pose
    monkeypatch.setattr(shares, "WORTH", 1)
    monkeypatch.setattr(shares, "threads", lambda: 3)
    with pytest.raises(sm.ConvergenceError, match="point 7"):
        step.linearize_many(np.tile(x, (9, 1)), U)
    with pytest.raises(sm.ConvergenceError, match="start 7"):
        step.step_many(np.tile(x, (9, 1)), U)
    found = step.step_many(np.tile(x, (9, 1)), U, strict=False)
    assert found.failed.tolist() == [False] * 7 + [True, False]
    assert np.isnan(found.x[7]).all()
    assert np.isfinite(np.delete(found.x, 7, axis=0)).all()


def test_pickled_steps_are_the_same(moving: tuple[MechanicalStep, np.ndarray, np.ndarray]) -> None:
    step, x, u = moving
    other = pickle.loads(pickle.dumps(step))
    assert (type(other), other.options) == (type(step), step.options)
    np.testing.assert_array_equal(other.step(x, u).x, step.step(x, u).x)


def test_wrong_shapes_are_refused(moving: tuple[MechanicalStep, np.ndarray, np.ndarray]) -> None:
    step, x, u = moving
    with pytest.raises(sm.ShapeError, match="dt: expected one length, or 2"):
        step.rollout(x, np.tile(u, (2, 1)), dt=[DT, DT, DT])
    with pytest.raises(sm.ShapeError, match="dt: lengths of steps must be positive"):
        step.rollout(x, np.tile(u, (2, 1)), dt=[DT, 0.0])
    with pytest.raises(sm.ShapeError, match="X0, U: expected"):
        step.rollout_many(x, u)
    with pytest.raises(sm.ShapeError, match="z: expected"):
        step.second_sensitivity(x, u, np.zeros(step.ndx + 1))
    for inputs in ("none", None, [[0.0], [0.0, 1.0]], np.zeros((2, step.nu + 1)), np.zeros((3, step.nu))):
        with pytest.raises(sm.ShapeError, match="U: "):
            step.step_many(np.tile(x, (2, 1)), inputs)
    with pytest.raises(sm.ShapeError, match="dt: expected numbers"):
        step.rollout(x, np.tile(u, (2, 1)), dt="short")
    with pytest.raises(sm.ShapeError, match="pose: expected"):
        step.layout.state(np.zeros(step.layout.nq + 1), np.zeros(step.nd + step.nk))
    with pytest.raises(sm.ShapeError, match="forces: expected"):
        step.layout.hold(x, np.zeros(len(step.system.inputs) + 1))


def test_trajectories_keep_their_inputs(moving: tuple[MechanicalStep, np.ndarray, np.ndarray]) -> None:
    step, x, u = moving
    U = np.tile(u, (2, 1))
    path = step.rollout(x, U)
    U[:] = 0.0
    np.testing.assert_array_equal(path.u, np.tile(u, (2, 1)))


def test_layouts_tell_where_things_stand(moving: tuple[MechanicalStep, np.ndarray, np.ndarray]) -> None:
    step, x, _ = moving
    layout = step.layout
    assert (layout.nx, len(layout.names), len(layout.units)) == (step.nx, step.nx, step.nx)
    assert layout.ndx == len(layout.tangent_names) == step.nx - len(step.system.balls)
    assert layout.plain == (not step.system.balls)
    assert [at.stop - at.start for at in layout.tangent_slices.values()] == [step.nd, step.nk, step.nd, step.nk]
    np.testing.assert_array_equal(np.concatenate([x[layout[part]] for part in layout.parts]), x)
    np.testing.assert_array_equal(layout.pose(x), x[: len(step.system.coordinates)])
    other = layout.normalize(np.random.default_rng(4).normal(size=step.nx))
    back = layout.retract(x, layout.difference(x, other))
    np.testing.assert_allclose(layout.difference(back, other), 0.0, atol=1e-14)
    with pytest.raises(sm.ModelError, match="no part is called 'momenta'; there are q, rho"):
        layout["momenta"]


# mistakes ---------------------------------------------------------------------------------------------------------


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(sm.ModelError, match=r"no kind of step is called 'midpint'\s+hint: Did you mean 'midpoint'"):
        kinds.make("midpint", sm.systems.get("pendulum"), DT)


def test_an_option_of_another_kind_is_named() -> None:
    with pytest.raises(sm.ModelError, match="forces: a step of kind 'euler' has no such option; it takes none"):
        kinds.make("euler", sm.systems.get("pendulum"), DT, forces="held")


# one from outside -------------------------------------------------------------------------------------------------

SYMPLECTIC = '''
"""Symplectic Euler: v first, then q with the new v."""
from functools import cached_property

import casadi as ca

from stepmap.steps.euler import EulerLayout
from stepmap.steps.kernels.equations import Equations, entries
from stepmap.steps.mechanical import MechanicalStep


class Symplectic(MechanicalStep):
    @cached_property
    def layout(self):
        return EulerLayout(self.system)

    @cached_property
    def input_names(self):
        return tuple(i.name for i in self.system.inputs)

    @cached_property
    def equations(self):
        e, n = self.system.expressions, self.nd
        x, u, z, dt = ca.SX.sym("x", 2 * n), ca.SX.sym("u", self.nu), ca.SX.sym("z", n), ca.SX.sym("dt")
        lv = ca.gradient(e.lagrangian, e.v)
        motion = ca.jtimes(lv, ca.vertcat(e.q, e.v), ca.vertcat(e.v, z)) - ca.gradient(e.lagrangian, e.q) - e.force
        of = ca.Function("of", [e.q, e.v, e.u, z, e.parameters], [motion])
        v = x[n:] + dt * z
        return Equations(
            x, u, z, dt, e.parameters, residual=of(x[:n], x[n:], entries(u, 0, self.nu), z, e.parameters),
            after=ca.vertcat(x[:n] + dt * v, v), multipliers=ca.SX(0, 1), guess=ca.SX.zeros(n), decisive=n, linear=True,
        )
'''
USE = """
import numpy as np
import stepmap as sm
from stepmap.steps import kinds

step = kinds.make("symplectic", sm.systems.get("cart_pendulum"), 0.02)
x, u = np.array([0.1, 0.4, 0.2, -0.3]), np.array([0.5])
print(sm.check_derivatives(step, x, u, np.array([1.0, -2.0, 0.5, 0.3])).worst)
n, nx = 40, step.nx
cost = sm.TrackingCost(np.eye(nx), np.eye(1), 10 * np.eye(nx), np.zeros((n + 1, nx)), np.zeros((n, 1)))
print(sm.optimize(sm.Problem(step, cost, x)).status.name)
"""


def test_a_kind_of_another_package_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "symplectic_step.py").write_text(SYMPLECTIC)
    info = tmp_path / "symplectic_step-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: symplectic-step\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stepmap.steps]\nsymplectic = symplectic_step:Symplectic\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    worst, status = done.stdout.split()
    assert float(worst) < 1e-9
    assert status == "CONVERGED"
