"""Constraints that are nearly singular along a motion, by angles of strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal.goals.singular import nearly_singular
from stepmap.optimal.goals.verdict import judge
from stepmap.steps import VariationalStep

N = 20


def still(step: VariationalStep, x: Any) -> sm.Trajectory:
    return step.rollout(x, np.tile(step.layout.hold(x), (N, 1)))


def hanging(aside: float) -> tuple[VariationalStep, Any]:
    """An arm that hangs stretched, its string led from aside; in line with the arm where that is 0."""
    step = sm.discretize(sm.systems.get("planar_arm"), 0.02)
    pose = {"theta1": -np.pi / 2, "theta2": 0.0, "x": aside, "L": 1.5}
    return step, step.rest(step.system.satisfy_constraints(pose, fixed=["theta1", "theta2", "x"]))


def between(e: float) -> tuple[VariationalStep, Any]:
    """A mass on two wires that are 2 arctan(e) apart."""
    b = sm.Builder("between")
    x, y = b.coordinate("x", unit="m"), b.coordinate("y", unit="m")
    mass = b.world.tx(x).ty(y)
    b.mass(mass, 1.0)
    b.gravity((0, -9.8, 0))
    for side in (-1, 1):
        b.distance(mass, b.world.ty(1.0).tx(side * e), float(np.hypot(1, e)), name=f"wire{side + 2}")
    step = sm.discretize(b.build(), 0.02)
    return step, step.rest({})


def test_a_string_in_line_with_its_arm_is_told() -> None:
    step, x = hanging(0.0)
    (found,) = nearly_singular(step, sm.Trajectory(0.02 * np.arange(3), np.tile(x, (3, 1)), np.zeros((2, 2))))
    assert (found.name, found.time) == ("string", 0.0)
    assert found.left < 1e-12


def test_what_is_left_is_the_sine_of_the_angle() -> None:
    """The arm as a whole turns with the string's length by the sine of their angle."""
    left = []
    for aside in (0.0005, 0.001):
        step, x = hanging(aside)
        (found,) = nearly_singular(step, sm.Trajectory(0.02 * np.arange(2), np.tile(x, (2, 1)), np.zeros((1, 2))))
        left.append(found.left)
    assert left[1] / left[0] == pytest.approx(2.0, rel=0.01)
    step, x = hanging(0.2)  # 7.6°
    assert nearly_singular(step, still(step, x)) == ()


def test_wires_that_say_the_same_are_told_by_name() -> None:
    step, x = between(0.002)
    found = nearly_singular(step, still(step, x))
    assert {one.name for one in found} == {"wire1", "wire3"}
    assert found[0].left == pytest.approx(np.sin(2 * np.arctan(0.002)), rel=0.2)
    step, x = between(0.1)
    assert nearly_singular(step, still(step, x)) == ()


def test_search_and_verdict_name_the_constraint() -> None:
    step, x = hanging(0.0)
    wanted = np.tile(x, (N + 1, 1))
    wanted[:, 0] += np.linspace(0.0, 0.5, N + 1)
    cost = sm.TrackingCost(np.eye(8), np.eye(2), np.eye(8), wanted, np.tile(x[2:4], (N, 1)))
    found = sm.optimize(sm.Problem(step, cost, x), max_iterations=20)
    assert not found.status.ok
    assert "constraint 'string' is nearly singular at 0 s" in found.advice
    with pytest.raises(sm.ConvergenceError, match="'string' is nearly singular"):
        found.require()
    verdict = judge(step, found.plan)
    text = dict(verdict.rows())["constraints"]
    assert not verdict.ok
    assert text.startswith("constraint 'string' is nearly singular at 0 s")


def test_nothing_is_said_of_a_mass_on_its_string() -> None:
    step = sm.discretize(sm.systems.get("suspended_mass"), 0.02)
    run = still(step, step.rest({}))
    findings = judge(step, sm.Plan(run, np.zeros((N, 2, 8)), run)).findings
    assert "constraints" not in [one.name for one in findings]
