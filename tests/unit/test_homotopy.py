"""Hard problems in stages."""

from __future__ import annotations

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal import Status
from tests import problems

posed = problems.reference("pend_swingup")


def lifted(stage: float) -> sm.Problem:
    """The swing-up with the pendulum wanted at a part of the way up."""
    c = posed.cost
    return sm.Problem(posed.step, sm.TrackingCost(c.Q, c.R, c.Qf, stage * c.x_ref, c.u_ref), posed.start)


def test_last_stage_is_solved() -> None:
    solution = sm.homotopy(lifted, [0.3, 0.6, 1.0])
    assert solution.status is Status.CONVERGED
    assert solution.cost == posed.cost.value(solution.trajectory)
    assert solution.cost == pytest.approx(sm.optimize(posed).cost, rel=1e-10)


def test_one_stage_is_the_problem_itself() -> None:
    alone, staged = sm.optimize(lifted(1.0)), sm.homotopy(lifted, [1.0])
    assert staged.history == alone.history
    np.testing.assert_array_equal(staged.trajectory.x, alone.trajectory.x)


def test_each_stage_starts_from_the_one_before() -> None:
    first = sm.optimize(lifted(0.5))
    second = sm.optimize(sm.Problem(posed.step, lifted(1.0).cost, posed.start, first.trajectory))
    assert sm.homotopy(lifted, [0.5, 1.0]).history == first.history + second.history


def test_stages_may_be_an_array() -> None:
    ours, theirs = sm.homotopy(lifted, np.array([0.5, 1.0])), sm.homotopy(lifted, [0.5, 1.0])
    assert ours.history == theirs.history


def test_stages_need_not_converge() -> None:
    """Options go to every stage; the status is that of the last."""
    solution = sm.homotopy(lifted, [0.3, 0.6, 1.0], max_iterations=2)
    assert solution.status is Status.ITERATIONS
    assert len(solution.history) == 6


def test_interrupt_ends_all_stages() -> None:
    calls = 0

    def monitor(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt

    solution = sm.homotopy(lifted, [0.5, 1.0], monitor=monitor)
    assert solution.status is Status.INTERRUPTED
    assert len(solution.history) == calls == 2


def test_no_stage_is_refused() -> None:
    with pytest.raises(sm.ModelError, match="stages: give at least one"):
        sm.homotopy(lifted, [])
