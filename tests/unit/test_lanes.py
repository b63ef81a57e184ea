"""Many points in the lanes of vectors: the bits of the scalar library, whatever a lane needs that others do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stepmap as sm
from stepmap.graph import compiler
from stepmap.steps.kernels.compiled import CompiledKernel

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="no C compiler")
NAMES = ("suspended_mass", "planar_arm", "pendulum_chain")  # few unknowns, a wire and balance in turns, kept matrices
STEPS = 12


def maps(name: str) -> tuple[sm.VariationalStep, sm.VariationalStep]:
    """The step map with its points in lanes, and without."""
    system = sm.systems.get(name, **({"n": 9} if name == "pendulum_chain" else {}))
    lanes, scalar = sm.VariationalStep(system, 0.01), sm.VariationalStep(system, 0.01)
    for step in (lanes, scalar):
        assert isinstance(step.kernel, CompiledKernel)
    assert lanes.kernel.lanes is not None  # from here on all goes in lanes
    scalar.kernel.recipe = replace(scalar.kernel.recipe, in_lanes=None)
    return lanes, scalar


def starts(step: sm.VariationalStep, count: int, spread: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """States about a pose, and an input for each, all different."""
    system, rng = step.system, np.random.default_rng(count)
    pose = system.satisfy_constraints(
        sm.systems.example(system.name.rstrip("_0123456789")), fixed=[c.name for c in system.kinematic]
    )
    x = np.tile(step.rest(pose), (count, 1))
    p = step.layout["p"]
    x[:, p] += spread * rng.normal(size=x[:, p].shape)
    return x, step.layout.hold(x) + 1e-3 * rng.normal(size=(count, step.nu))


def same(ours: tuple[np.ndarray, ...], theirs: tuple[np.ndarray, ...]) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_lanes_have_the_bits_of_scalars(name: str) -> None:
    lanes, scalar = maps(name)
    for count in (4, 8, 11):  # less than, as many as and more than a vector
        x, u = starts(lanes, count)
        U = np.repeat(u[:, None], STEPS, axis=1)
        same(lanes.rollout_many(x, U), scalar.rollout_many(x, U))
        same(lanes.rollout_many(x, U[0]), scalar.rollout_many(x, U[0]))
        same(lanes.step_many(x, u), scalar.step_many(x, u))
        same(lanes.linearize_many(x, u), scalar.linearize_many(x, u))
    lengths = np.linspace(0.004, 0.012, STEPS)
    same(lanes.rollout_many(x, U, dt=lengths), scalar.rollout_many(x, U, dt=lengths))
    single = scalar.rollout(x[3], U[3])
    same((lanes.rollout_many(x, U).x[3],), (single.x,))
    point = scalar.linearize(x[5], u[5])
    same(tuple(e[5] for e in lanes.linearize_many(x, u)), tuple(point))


@pytest.mark.parametrize("name", NAMES)
def test_lanes_that_differ_in_what_is_known_of_their_ends_are_the_same(name: str) -> None:
    lanes, scalar = maps(name)
    x, u = starts(lanes, 1)
    path = scalar.rollout(x[0], np.tile(u[0], (40, 1)))
    rng = np.random.default_rng(0)
    off = rng.normal(size=path.x.shape) * 10.0 ** rng.uniform(-15, -4, (41, 1)) * (rng.random((41, 1)) < 0.5)
    for part in (path, sm.Trajectory(path.t, path.x + off, path.u)):
        same(lanes.linearize_along(part), scalar.linearize_along(part))
        lengths = np.linspace(0.009, 0.011, 40)
        same(lanes.linearize_along(part, lengths), scalar.linearize_along(part, lengths))


def test_lanes_that_cannot_be_solved_are_told_and_do_not_disturb_others() -> None:
    lanes, scalar = maps("planar_arm")
    x, u = starts(lanes, 10, spread=1e-3)
    U = np.repeat(u[:, None], STEPS, axis=1)
    U[3, 4:, -1] = 0.1  # a string much too short
    U[7, 0, -1] = 0.1
    found, expected = lanes.rollout_many(x, U, strict=False), scalar.rollout_many(x, U, strict=False)
    assert found.steps.tolist() == expected.steps.tolist() == [12, 12, 12, 4, 12, 12, 12, 0, 12, 12]
    same(found, expected)
    for step in (lanes, scalar):
        with pytest.raises(sm.ConvergenceError, match="step 4 of the rollout from start 3"):
            step.rollout_many(x, U)
        with pytest.raises(sm.ConvergenceError, match="point 7"):
            step.linearize_many(x, U[:, 0])


def test_rows_that_change_places_in_one_lane_only_are_left_to_scalars() -> None:
    """Of a mass that is light beside its wire, the wire takes the place of a pivot unless it hangs straight down."""
    b = sm.Builder("light")
    x, y = b.coordinate("x"), b.coordinate("y")
    r = b.coordinate("r", kinematic=True, start=1.0)
    bob = b.world.tx(x).ty(y)
    b.mass(bob, 1e-6)
    b.gravity((0, -9.8, 0))
    b.distance(bob, b.world, r)
    step = sm.VariationalStep(b.build(), 0.01)
    other = sm.VariationalStep(step.system, 0.01)
    other.kernel.recipe = replace(other.kernel.recipe, in_lanes=None)
    assert step.kernel.lanes is not None
    angle = np.linspace(-1.5, 1.5, 16)
    starts = np.array([step.rest({"x": np.sin(a), "y": -np.cos(a), "r": 1.0}) for a in angle])
    same(step.step_many(starts, np.ones(1)), other.step_many(starts, np.ones(1)))
    same(step.linearize_many(starts, np.ones((16, 1))), other.linearize_many(starts, np.ones((16, 1))))


def test_lanes_are_built_when_they_pay_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    step = sm.VariationalStep(sm.systems.get("suspended_mass"), 0.01)
    x, u = starts(step, 8)
    step.step_many(x, u)
    step.linearize_along(step.rollout(x[0], np.tile(u[0], (STEPS, 1))))
    assert "lanes" not in vars(step.kernel)
    step.kernel._worth.after(10_000_000, step.ndx * (step.ndx + step.nu))  # more than a second
    found = step.step_many(x, u)
    assert vars(step.kernel)["lanes"] is not None
    monkeypatch.delitem(vars(step.kernel), "lanes")
    same(found, step.step_many(x, u))
