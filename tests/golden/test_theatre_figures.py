"""Murphey & Johnson, Fig. 4b: an arm on a string, by the equations of two rods in continuous time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import make_interp_spline

import stepmap as sm
from stepmap.arrays import Array
from stepmap.figures.theatre import waving_arm
from stepmap.steps import VariationalStep

MASS, LENGTH, GRAVITY, DAMPING, RAIL = 0.5, 0.25, 9.8, 0.01, 1.0  # docs/systems.md


@pytest.fixture(scope="module")
def found() -> tuple[VariationalStep, Array, sm.Solution]:
    step, wanted = waving_arm.task()
    return step, wanted, waving_arm.solve(step, wanted).require()


def rods(q: Array, v: Array, a: Array) -> Array:
    """Torques at shoulder and elbow that two slender rods ask for, from their laws of motion about the shoulder."""
    m, r, g = MASS, LENGTH, GRAVITY
    outer, turn, turning = q[0] + q[1], v[0] + v[1], a[0] + a[1]
    spin, pull = np.cos(q[1]) * m * r**2 / 2, np.sin(q[1]) * m * r**2 / 2
    first = m * r**2 / 3 * a[0] + m * r**2 * a[0] + spin * turning - pull * turn**2 + 1.5 * m * g * r * np.cos(q[0])
    second = m * r**2 / 3 * turning + spin * a[0] + pull * v[0] ** 2 + m * g * r / 2 * np.cos(outer)
    return np.array([first + second, second]) + DAMPING * v[:2]


def test_tension_is_that_of_two_rods(found: tuple[VariationalStep, Array, sm.Solution]) -> None:
    step, _, solution = found
    path = solution.trajectory
    curve = make_interp_spline(path.t, path.x[:, :4], k=5)
    pulls, off = [], []
    for t in path.t[10:-10]:
        q, v, a = (curve(t, nu=i) for i in range(3))
        outer = q[0] + q[1]
        tip = LENGTH * np.array([np.cos(q[0]) + np.cos(outer), np.sin(q[0]) + np.sin(outer)])
        line = (np.array([q[2], RAIL]) - tip) / q[3]
        upper, lower = (LENGTH * np.array([-np.sin(angle), np.cos(angle)]) for angle in (q[0], outer))
        slope = np.array([upper + lower, lower])
        asked, arm = rods(q, v, a), slope @ line
        pulls.append(float(arm @ asked / (arm @ arm)))
        off.append(float(np.abs(asked - pulls[-1] * arm).max()))
    wrong = np.abs(waving_arm.tension(step, solution)[10:-9] - pulls)
    assert np.median(wrong) < 5e-3
    assert wrong.max() < 0.1  # where the soft limit of tension sets in, accelerations have a corner
    assert max(off) < 2e-3  # Nm: a string has one force for two joints


def test_the_arm_waves_and_the_string_pulls(found: tuple[VariationalStep, Array, sm.Solution]) -> None:
    step, wanted, solution = found
    path = solution.trajectory
    np.testing.assert_allclose(path.x[0, :2], [-np.pi / 2, 0.0], atol=1e-9)
    lifted = (path.t > 2.0) & (path.t < 4.0)
    assert np.ptp(path.x[lifted, 1]) > 0.85 * 2 * waving_arm.WAVE
    assert path.x[lifted, 0].min() - path.x[0, 0] > 0.4
    assert np.abs(path.x[-1, :2] - wanted[-1, :2]).max() < 0.1
    assert waving_arm.tension(step, solution).min() > 0
    assert path.x[:, 1].min() < 0 < path.x[:, 1].max()  # through the stretched pose
    wire = waving_arm.solve(step, wanted, waving_arm.STAGES[:1], change=0.0).require()
    assert waving_arm.tension(step, wire).min() < -10  # what both costs are for
