"""Trajectory optimization problems that tests and benchmarks share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import stepmap as sm

DATA = Path(__file__).parent / "data" / "reference"
SYSTEMS: dict[str, Callable[[], sm.System]] = {
    "pend_swingup": lambda: sm.systems.get("pendulum"),
    "planar_full": lambda: sm.systems.get("suspended_mass", mass=0.1244, damping=0.05),
}


def reference_data(name: str) -> dict[str, Any]:
    """An optimization of the reference data (data/reference/README.md), its result beside the problem."""
    data: dict[str, Any] = json.loads((DATA / f"opt_{name}.json").read_text())
    return data | data["stages"][0]


def reference(name: str) -> sm.Problem:
    """The problem of the reference data, with its guess."""
    data = reference_data(name)
    t, x_ref, u_ref, x, u, Q, R = (np.array(data[key]) for key in ("t", "Xd", "Ud", "Xinit", "Uinit", "Q", "R"))
    step = sm.discretize(SYSTEMS[name](), t[1] - t[0], forces="left")
    return sm.Problem(step, sm.TrackingCost(Q, R, Q, x_ref, u_ref), x[0], sm.Trajectory(t, x, u))


def tracking(
    step: sm.VariationalStep, x_ref: np.ndarray, Q: list[float], R: list[float], Qf: list[float] | None = None
) -> sm.Problem:
    """From rest at the system's start, with diagonal weights; forces are wanted zero, rho as in x_ref."""
    u_ref = np.zeros((len(x_ref) - 1, step.nu))
    u_ref[:, step.nu - step.nk :] = x_ref[1:, step.nd : step.nd + step.nk]
    return sm.Problem(
        step, sm.TrackingCost(np.diag(Q), np.diag(R), np.diag(Q if Qf is None else Qf), x_ref, u_ref), step.rest({})
    )


def figure_eight(steps: int = 300, *, tight: bool = True) -> sm.Problem:
    """A figure-8 of 60 x 20 cm a mass on a string should draw at 30 Hz, from hovering at rest.

    No trajectory follows it: the robot is wanted straight above the mass all the time, momenta and velocities zero.
    """
    step = sm.discretize(sm.systems.get("suspended_mass"), 1 / 30, forces="left")
    phase = 2 * np.pi / 5 * step.dt * np.arange(steps + 1)
    x_ref = np.zeros((steps + 1, step.nx))
    x_ref[:, 0] = x_ref[:, 2] = 0.3 * np.sin(phase)
    x_ref[:, 1] = 0.1 * np.sin(2 * phase)
    x_ref[:, 3] = 1 - x_ref[:, 1]
    if tight:
        return tracking(step, x_ref, [1000, 1000, 1, 1, 0.1, 0.1, 1, 1], [0.1, 0.1])
    return tracking(step, x_ref, [100, 100, 1, 1, 1e-3, 1e-3, 0.1, 0.1], [1, 1])


def cart_swing_up() -> sm.Problem:
    """A cart's pendulum, hanging, is wanted upright from 2 s on: a jump no trajectory follows."""
    return tracking(*_upright("cart_pendulum", 0.02, 300, 1, after=2.0), [10, 100, 1, 1], [0.01])


def cart_swing_ups() -> dict[str, sm.Problem]:
    """The same with other weights and times; harder, since nearly all of the cost is at the end or far away."""
    return {
        "at once": tracking(
            *_upright("cart_pendulum", 0.05, 120, 1), [1, 10, 0.01, 0.01], [0.001], Qf=[100, 1000, 1, 1]
        ),
        "at the end": tracking(
            *_upright("cart_pendulum", 0.05, 100, 1), [0.01, 0.01, 0.001, 0.001], [0.001], Qf=[1000, 1000, 10, 10]
        ),
        "and down again": tracking(
            *_upright("cart_pendulum", 0.02, 400, 1, after=2.0, before=6.0), [10, 100, 0.1, 0.1], [0.01]
        ),
    }


def double_pendulum_up() -> sm.Problem:
    """Both links, hanging, are wanted upright from 1 s on, with torques at both joints."""
    return tracking(*_upright("double_pendulum", 0.01, 500, 0, after=1.0), [10, 10, 0.1, 0.1], [0.1, 0.1])


def marionette() -> sm.Problem:
    """A marionette's own recorded motion over 1001 points in time, from hanging still as the guess."""
    step = sm.discretize(sm.systems.get("marionette"), 0.01, forces="left")
    x0, n = step.rest({}), 1000
    t = step.dt * np.arange(1, n + 1)
    u = np.tile(x0[step.nd : step.nd + step.nk], (n, 1))
    u[:, 8] -= 0.15 * (1 - np.cos(2 * np.pi * t / 5)) / 2  # winds the left arm's string
    u[:, 14] -= 0.1 * (1 - np.cos(2 * np.pi * t / 4)) / 2  # and the left leg's
    u[:, 0::3] += 0.05 * np.sin(t)[:, None]  # all robots sway
    recorded = step.rollout(x0, u)
    Q = np.diag(np.repeat([10.0, 1.0, 0.1, 0.1], [step.nd, step.nk, step.nd, step.nk]))
    return sm.Problem(step, sm.TrackingCost(Q, np.eye(step.nu), Q, recorded.x, recorded.u), x0)


def _upright(
    name: str, dt: float, steps: int, angle: int, *, after: float = 0.0, before: float = np.inf
) -> tuple[sm.VariationalStep, np.ndarray]:
    step = sm.discretize(sm.systems.get(name), dt, forces="left")
    t = dt * np.arange(steps + 1)
    x_ref = np.zeros((steps + 1, step.nx))
    x_ref[(t >= after) & (t < before), angle] = np.pi
    return step, x_ref
