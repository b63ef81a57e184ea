"""First guesses: a trajectory that is given, or the straight way from start to goal, put on the constraints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError, ShapeError
from stepmap.optimal.direct.motion import Motion, through
from stepmap.optimal.direct.task import Task
from stepmap.steps.protocol import Trajectory


def first_guess(task: Task, steps: int) -> Motion:
    """The task's guess with so many steps, in a time that is allowed."""
    low, high = task.all_phases[0].range
    given = trajectory_of(task.guess)
    if given is not None:
        found = from_trajectory(task, given).resampled(steps).timed(low, high)
        # Momenta that do not agree with velocities cost a solver many times the iterations.
        agreeing = through(task.mechanism, found.q, found.time, found.lam.shape[1], found.u)
        return replace(agreeing, lam=found.lam)
    time = float(np.sqrt(low * high))  # a range is one of scale
    return through(task.mechanism, straight(task, steps), time, task.modes[0].count)


def trajectory_of(guess: Any) -> Trajectory | None:
    """The trajectory of a guess: itself, or that of a solution or a plan."""
    found = getattr(guess, "trajectory", guess)
    if found is not None and not isinstance(found, Trajectory):
        raise ModelError(f"guess: expected a Trajectory(t, x, u), a solution or a plan, got {type(guess).__name__}")
    return found


def require_guess(task: Task) -> None:
    """Raises where a guess is none of this system's map."""
    given, m = trajectory_of(task.guess), task.mechanism
    if given is None:
        return
    nk = m.n - m.nd
    states, inputs = m.nq + m.nd + nk, m.nu + nk
    if given.x.shape[1] != states or given.u.shape[1] != inputs:
        raise ShapeError(
            f"guess: expected states (N+1, {states}) and inputs (N, {inputs}), got {given.x.shape} and {given.u.shape}"
        )
    if given.steps < 1 or not (np.isfinite(given.x).all() and np.isfinite(given.u).all()):
        raise ShapeError("guess: has no steps, or entries that are not finite")
    if not given.t[-1] > given.t[0]:
        raise ShapeError("guess: its times must rise")


def from_trajectory(task: Task, given: Trajectory) -> Motion:
    """A trajectory of the map as a motion."""
    m, mode = task.mechanism, task.modes[0]
    q, p = given.x[:, : m.nq], given.x[:, m.nq : m.nq + m.nd]
    time = float(given.t[-1] - given.t[0])
    v = np.diff(q, axis=0) / (time / given.steps)
    lam = np.zeros((given.steps, mode.count))
    if given.multipliers is not None and given.multipliers.shape[1] == len(task.system.constraint_names):
        lam = _multipliers(task, q[:-1], given.multipliers)
    return Motion(q, p, v, given.u[:, : m.nu], lam, time)


def _multipliers(task: Task, q: Array, forces: Array) -> Array:
    """lam of constraint forces: these are pull · lam."""
    rows = list(task.modes[0].rows)
    if not rows:
        return np.zeros((len(q), 0))
    pull = task.mechanism.pulls(q)[:, rows]
    out: Array = forces[:, rows] / np.where(pull == 0, 1.0, pull)
    return out


def straight(task: Task, steps: int) -> Array:
    """Poses (steps + 1) on the straight way from start to goal; coordinates that the goal leaves free stay."""
    start, goal = task.first.q, task.last.q
    end = np.where(np.isnan(goal), start, goal)
    part = np.linspace(0.0, 1.0, steps + 1)[:, None]
    q = np.clip((1 - part) * start + part * end, *task.bounds.q)
    if not task.modes[0].count:
        return q
    fixed = [c.name for c in task.system.kinematic]
    for k in range(1, steps + 1):
        try:
            q[k] = task.system.satisfy_constraints(q[k], fixed)
        except ConvergenceError:  # the solver will find its way from here
            continue
    return q
