"""First guesses: a trajectory that is given, or the straight way from start to goal, put on the constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError, ShapeError
from stepmap.optimal.direct.ends import holding
from stepmap.optimal.direct.motion import Motion, interpolated, through
from stepmap.optimal.direct.phases.support import support_pose, way
from stepmap.optimal.direct.task import Task
from stepmap.steps.protocol import Trajectory

FINE = 200  # steps of a way that phases are cut from


def first_guess(task: Task, steps: Sequence[int]) -> list[Motion]:
    """The task's guess with so many steps per phase, in times that are allowed."""
    if len(steps) == 1 and not task.cyclic:
        return [_one_phase(task, steps[0])]
    if trajectory_of(task.guess) is not None:
        return _cut(task, steps)
    times = [float(np.sqrt(low * high)) for low, high in (phase.range for phase in task.all_phases)]
    ends = np.cumsum([0.0, *times]) / sum(times)
    whole = _whole_way(task, FINE)
    motions = []
    for count, time, begin, end, mode in zip(steps, times, ends[:-1], ends[1:], task.modes, strict=True):
        q = interpolated(np.linspace(0, 1, FINE + 1), np.linspace(begin, end, count + 1), whole)
        motions.append(through(task.mechanism, task.system.tangent.normalize(q), time, mode.count))
    return motions


def _cut(task: Task, steps: Sequence[int]) -> list[Motion]:
    """A given trajectory, cut into phases by their numbers of steps."""
    given = trajectory_of(task.guess)
    assert given is not None
    m, wanted = task.mechanism, np.array([phase.steps for phase in task.all_phases])
    cuts = np.round(np.cumsum([0, *wanted]) / wanted.sum() * given.steps).astype(int)
    motions = []
    for count, begin, end, phase, mode in zip(steps, cuts[:-1], cuts[1:], task.all_phases, task.modes, strict=True):
        q, u = given.x[begin : end + 1, : m.nq], given.u[begin:end, : m.nu]
        time = float(given.t[end] - given.t[begin])
        part = through(m, q, time, mode.count, u).resampled(m, count).timed(*phase.range)
        motions.append(through(m, part.q, part.time, mode.count, part.u))
    return motions


def _whole_way(task: Task, steps: int) -> Array:
    """Poses from the start to the goal, or of a cycle from the renamed support pose to that pose."""
    if task.renaming is None:
        return straight(task, steps)
    end = support_pose(task.mechanism, task.modes[-1], task.modes[0], task.renaming, task.first.q, task.bounds.q)
    return way(task.system.tangent, task.renaming.pose(end), end, task.bounds.q, steps)


def _one_phase(task: Task, steps: int) -> Motion:
    low, high = task.all_phases[0].range
    given = trajectory_of(task.guess)
    if given is not None:
        found = from_trajectory(task, given).resampled(task.mechanism, steps).timed(low, high)
        # Momenta that do not agree with velocities cost a solver many times the iterations.
        agreeing = through(task.mechanism, found.q, found.time, found.lam.shape[1], found.u)
        return replace(agreeing, lam=found.lam)
    time = float(np.sqrt(low * high))  # a range is one of scale
    u = np.tile(held_forces(task), (steps, 1))
    return through(task.mechanism, straight(task, steps), time, task.modes[0].count, u)


def held_forces(task: Task) -> Array:
    """Forces that hold the start, within their limits; none where no forces do."""
    found = holding(task.system, task.first.q)
    none = np.zeros(task.mechanism.nu)
    return np.clip(none if found is None else found, *task.bounds.u)


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
    v = m.tangent.difference(q[:-1], q[1:]) / (time / given.steps)
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
    tangent = task.system.tangent
    q = tangent.normalize(np.clip(tangent.retract(start, part * tangent.difference(start, end)), *task.bounds.q))
    if not task.modes[0].count:
        return q
    fixed = [c.name for c in task.system.kinematic]
    for k in range(1, steps + 1):
        try:
            q[k] = task.system.satisfy_constraints(q[k], fixed)
        except ConvergenceError:  # the solver will find its way from here
            continue
    return q
