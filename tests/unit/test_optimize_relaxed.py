"""A string that goes slack and is caught again, tracked with relaxed gaps and then through the step with events."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal import Status

DT, STEPS, GRAVITY = 0.02, 60, 9.81
WEIGHTS = np.array([100.0, 100.0, 1.0, 1.0, 0.0, 0.0, 0.01, 0.01])


def falling() -> sm.Problem:
    """A hanging mass is to fall by 0.6 m within 0.3 s, at up to 3.7 g: no string can push it so."""
    step = sm.discretize(sm.systems.get("suspended_mass_string"), DT)
    start = step.rest({"xm": 0.0, "ym": 0.5, "xr": 0.0, "r": 0.5})
    s = np.clip((DT * np.arange(STEPS + 1) - 0.3) / 0.3, 0.0, 1.0)
    x_ref = np.tile(start, (STEPS + 1, 1))
    x_ref[:, 1] -= 0.6 * (10 * s**3 - 15 * s**4 + 6 * s**5)
    x_ref[:, 3] = 1.0 - x_ref[:, 1]
    Q = DT * np.diag(WEIGHTS)
    return sm.Problem(step, sm.TrackingCost(Q, DT * 1e-2 * np.eye(2), 100 * Q, x_ref, x_ref[1:, 2:4]), start)


@cache
def solved() -> sm.Solution:
    return sm.optimize_relaxed(falling())


def test_slack_and_catch_are_tracked() -> None:
    """The string lets go before the fall, the mass falls freely, and the string is pulled taut at its end."""
    found, step = solved(), falling().step
    assert found.status is Status.CONVERGED
    assert [event.kind for event in found.trajectory.events] == ["release", "impact"]
    path, forces = found.trajectory, found.trajectory.multipliers
    assert forces is not None
    assert forces.min() >= 0.0
    assert isinstance(step, sm.VariationalStep)
    assert step.system.gaps(path.x[:, :4]).max() <= 1e-9
    release, impact = (event.step for event in path.events)
    free = np.diff(path.x[release : impact + 1, 1], 2) / DT**2  # between nodes of the slack phase
    np.testing.assert_allclose(free[1:], -GRAVITY, rtol=1e-9)
    assert impact - release > 10


def test_events_and_relaxed_gaps_agree() -> None:
    """What is told is what both maps give; the trajectory is one of the step with events, from its own start."""
    found, problem = solved(), falling()
    told = found.relaxation
    assert told is not None
    assert told.kappa == 1e-6
    assert all(stage.status.ok for stage in told.stages)
    assert told.stages[0].kappa > told.stages[1].kappa > told.stages[-1].kappa
    assert abs(told.gap) < 1e-4
    assert told.apart < 1e-4  # m
    assert told.polished <= told.verified
    again = problem.step.rollout(problem.start, found.trajectory.u)
    np.testing.assert_allclose(again.x, found.trajectory.x, atol=1e-9)
    assert found.cost == pytest.approx(problem.cost.value(again), rel=1e-9)
    assert len(found.history) >= sum(stage.iterations for stage in told.stages)
    assert "with events" in str(told)


def test_it_is_better_than_a_search_on_the_step_with_events() -> None:
    """That one is held up by kinks; it ends above, and says why or that nothing descends."""
    direct = sm.optimize(falling(), method="gauss-newton")
    assert direct.status in (Status.KINK, Status.STALLED)
    assert direct.cost > 1.001 * solved().cost


def test_limits_of_inputs_are_kept() -> None:
    """Within a speed of winding; the optimum without limits is faster."""
    problem, rate = falling(), 1.5
    free = np.abs(np.diff(solved().trajectory.x[:, 3])).max() / DT
    assert free > 1.05 * rate
    limits = sm.InputLimits(rate={"r_next": rate})
    found = sm.optimize_relaxed(dataclasses.replace(problem, limits=limits), kappa=(0.1, 1e-5))
    assert np.abs(np.diff(found.trajectory.x[:, 3])).max() / DT <= rate + 1e-9
    assert found.cost > solved().cost


def test_interrupts_keep_the_best_trajectory_with_events() -> None:
    def monitor(number: int, *_: object) -> None:
        if number == 3:
            raise KeyboardInterrupt

    found = sm.optimize_relaxed(falling(), monitor=monitor)
    assert found.status is Status.INTERRUPTED
    assert found.trajectory.modes


def test_bad_arguments_are_refused() -> None:
    problem = falling()
    with pytest.raises(sm.ModelError, match="kappa: must fall"):
        sm.optimize_relaxed(problem, kappa=(1e-6, 1e-1))
    with pytest.raises(sm.ModelError, match="kappa: expected the first and the last"):
        sm.optimize_relaxed(problem, kappa=1e-3)  # type: ignore[arg-type]
    wire = sm.discretize(sm.systems.get("suspended_mass"), DT)
    with pytest.raises(sm.ModelError, match="no gaps to relax"):
        sm.optimize_relaxed(dataclasses.replace(problem, step=wire))
