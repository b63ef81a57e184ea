"""What every system of the catalog with gaps keeps to. A new one is found by the registry."""

from __future__ import annotations

import functools
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

import stepmap as sm
from stepmap.steps.check import difference
from stepmap.steps.events.kernel import Point
from tests.mechanisms import cataloged, require_copied

DT, STEPS = 0.005, 300
GAPPED = [name for name in sm.systems.names() if cataloged(name).gap_names]


@dataclass(frozen=True)
class Run:
    """A motion from rest in the example pose, kinematic coordinates swinging 4 cm."""

    step: sm.VariationalStep
    trajectory: sm.Trajectory

    @property
    def system(self) -> sm.System:
        return self.step.system

    @property
    def poses(self) -> np.ndarray:
        return self.trajectory.x[:, : len(self.system.coordinates)]


@functools.cache
def run(name: str) -> Run:
    system = sm.systems.get(name)
    step = sm.discretize(system, DT)
    pose = system.satisfy_constraints(sm.systems.example(name))
    rng = np.random.default_rng(1)
    phase = DT * np.arange(1, STEPS + 1)[:, None] * rng.uniform(2.0, 8.0, step.nk)
    U = np.hstack([np.zeros((STEPS, step.nu - step.nk)), pose[len(system.dynamic) :] + 0.04 * np.sin(phase)])
    return Run(step, step.rollout(step.rest(pose), U))


@pytest.fixture(params=GAPPED)
def moved(request: pytest.FixtureRequest) -> Run:
    return run(request.param)


def test_the_catalog_has_them() -> None:
    assert {"suspended_mass_string", "planar_arm_string", "marionette_strings", "rocking_wedge"} <= set(GAPPED)
    assert {"ball_on_slope", "wall_pendulum", "rimless_wheel", "compass_walker"} <= set(GAPPED)


def test_something_happens(moved: Run) -> None:
    assert isinstance(moved.step, sm.StepMap)
    assert any(event.kind == "impact" for event in moved.trajectory.events)
    assert {event.name for event in moved.trajectory.events} <= set(moved.system.gap_names)


def test_gaps_and_forces_are_kept(moved: Run) -> None:
    gaps = np.array([row.name == "GAP" for row in moved.system.constraint_rows])
    assert moved.system.gaps(moved.poses)[:, gaps].max() <= 1e-12
    assert moved.trajectory.multipliers[:, gaps].min() >= -1e-12
    assert min(event.impulse for event in moved.trajectory.events) >= 0


def test_an_open_gap_has_no_force(moved: Run) -> None:
    """λ g = 0: where a gap is open at both ends of a step without an event, nothing acts."""
    names, trajectory = moved.system.constraint_names, moved.trajectory
    gap = moved.system.gaps(moved.poses)
    busy = {event.step for event in trajectory.events}
    quiet = np.array([k not in busy for k in range(trajectory.steps)])
    for i, name in enumerate(names):
        if name in moved.system.gap_names:
            is_open = (gap[:-1, i] < -1e-6) & (gap[1:, i] < -1e-6) & quiet
            assert not trajectory.multipliers[is_open, i].any()


def test_impacts_and_releases_alternate(moved: Run) -> None:
    """An impact without a bounce closes an open gap, a release opens a closed one, and modes tell the same."""
    trajectory = moved.trajectory
    bouncing = {c.name for c in moved.system.constraints if getattr(c, "restitution", 0.0)}
    first = dict(zip(moved.system.constraint_names, moved.step.closed(trajectory.x[0]), strict=True))
    shut = {name for name in moved.system.gap_names if first[name]}
    for k in range(trajectory.steps):
        for event in (e for e in trajectory.events if e.step == k and e.name not in bouncing):
            assert (event.name in shut) == (event.kind == "release"), event
            shut ^= {event.name}
        assert shut - bouncing == set(trajectory.modes[k]) - bouncing


def test_what_a_layout_says_of_derivatives_holds(moved: Run) -> None:
    """In steps with events, too; some of them hit several gaps at a time."""
    busy = sorted({event.step for event in moved.trajectory.events})[:20]
    for k in (0, *busy):
        require_copied(moved.step, *moved.step.linearize(moved.trajectory.x[k], moved.trajectory.u[k])[1:])


def test_rollout_is_the_repeated_step_bit_for_bit(moved: Run) -> None:
    step, trajectory = moved.step, moved.trajectory
    busy = [event.step for event in trajectory.events][:10]
    for k in {*busy, *range(0, STEPS, 60)}:
        result = step.step(trajectory.x[k], trajectory.u[k])
        np.testing.assert_array_equal(result.x, trajectory.x[k + 1])
        np.testing.assert_array_equal(result.multipliers, trajectory.multipliers[k])


def test_copies_and_threads_get_the_same_results(moved: Run) -> None:
    step, trajectory = moved.step, moved.trajectory
    starts = trajectory.x[:: STEPS // 6][:6]
    rows = [trajectory.u[k * (STEPS // 6) :][:40] for k in range(6)]
    alone = [step.rollout(x, U) for x, U in zip(starts, rows, strict=True)]
    copy = pickle.loads(pickle.dumps(step))
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(copy.rollout, starts, rows))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one.x, other.x)
        assert one.events == other.events


@pytest.mark.parametrize("name", ["ball_on_slope", "suspended_mass_string", "compass", "biped_spatial"])
def test_derivatives_by_parameters_are_exact_through_events(name: str) -> None:
    """Against differences with the order of events held: bounces, a string, a change of feet, sticking, balls."""
    moved = run(name)
    step, par, count = moved.step, moved.step.parameter_values, len(moved.system.parameters)
    busy = sorted({event.step for event in moved.trajectory.events})
    for k in (*busy[:2], busy[0] + 2):
        x, u = moved.trajectory.x[k], moved.trajectory.u[k]
        info, after, _, _, T = step.by_parameters(par, np.array([DT]), x[None], u[None], None)
        assert not info.status
        np.testing.assert_array_equal(step.sensitivity(x, u).T, T[0, :, :count])
        np.testing.assert_array_equal(after[0], moved.trajectory.x[k + 1])
        place = Point(DT, x, u)

        def ends(values: np.ndarray, place: Point = place, after: np.ndarray = after[0]) -> np.ndarray:
            info, there, *_ = step.kernel.frozen(par, place, place, values)
            return np.full(step.ndx, np.nan) if info.status else step.layout.difference(after, there)

        # A slow impact bends what follows it, and has no place far away: the narrower spacings are for that one.
        size = np.maximum(np.abs(par), 0.1)
        errors = [np.abs(difference(ends, par, h * size) - T[0]).max(axis=0) for h in (1e-3, 1e-4, 1e-5)]
        least = np.nanmin(errors, axis=0) / np.maximum(1.0, np.abs(T[0]).max(axis=0))
        moving = np.arange(len(par)) != count  # after the model's parameters comes the number of parts of a step
        assert least[moving].max() < 2e-8
    assert np.abs(T[0]).max() > 1e-3
