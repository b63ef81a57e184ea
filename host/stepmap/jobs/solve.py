"""How a tracking job is solved: without its limits first, within them where that is not enough, at rest in the end."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from stepmap.errors import ConvergenceError
from stepmap.optimal import Problem, Solution, TrackingCost, homotopy, optimize_relaxed
from stepmap.optimal.goals.reach import at_rest, reach
from stepmap.optimal.projection import Monitor
from stepmap.steps import Trajectory

if TYPE_CHECKING:
    from stepmap.jobs.job import TrackingJob

FAR = 2.0  # times a limit: an optimum without limits that exceeds them so much is no place to begin at


def solve(job: TrackingJob, monitor: Monitor | None, guess: Trajectory | None) -> Solution:
    """The optimal trajectory of a job, from a guess or from the starts that it names."""
    s = job.solver
    options = {"method": s.method, "max_iterations": s.max_iterations, "tolerance": s.tolerance, "monitor": monitor}
    if job.goal:
        return reach(job.task, guess, **options)
    solution = _within_limits(job, _searched(job, guess, options, limited=False), guess, options)
    if job.rest and not solution.status.interrupted:
        return _rested(job, solution, options)
    return solution


def _within_limits(job: TrackingJob, free: Solution, guess: Trajectory | None, options: dict[str, Any]) -> Solution:
    """The solution within hard limits: the one without them where it keeps them, as most that track do.

    A search within limits begins there too, unless that is far beyond them.
    """
    whole = dataclasses.replace(job.problem(), guess=None)
    excess = _excess(whole, free.trajectory)
    if excess <= 1.0 or free.status.interrupted:
        return dataclasses.replace(free, problem=whole)
    found = None
    if free.status.ok and excess <= FAR:
        found = _searched(job, free.trajectory, options, limited=True)
    if found is None or not (found.status.ok or found.status.interrupted):
        found = _searched(job, guess, options, limited=True)
    return dataclasses.replace(found, history=free.history + found.history)


def _excess(problem: Problem, found: Trajectory) -> float:
    """The largest input or state as a multiple of its limit's distance from the middle of its range; 1 is at it."""
    worst = 0.0
    bounds = problem.bounds
    if bounds is not None:
        low, high = bounds.at(found.x[:-1])
        worst = _beyond(found.u, low, high)
    low, high, _ = problem.state_bounds
    return max(worst, _beyond(found.x, low, high))


def _beyond(values: Any, low: Any, high: Any) -> float:
    with np.errstate(invalid="ignore"):
        half = (high - low) / 2
        over = np.maximum(values - high, low - values)
        ratios = np.where(np.isfinite(half), 1 + over / half, np.where(over > 0, np.inf, 0.0))
    return float(ratios.max(initial=0.0))


def _searched(job: TrackingJob, guess: Trajectory | None, options: dict[str, Any], *, limited: bool) -> Solution:
    """The result of all stages, or of one that begins at a guess."""
    stages = job.solver.stages if guess is None else (1.0,)

    def problem_at(part: float) -> Problem:
        made = job.problem(part)
        if not limited:
            made = dataclasses.replace(made, limits=None, states=None)
        return made if guess is None else dataclasses.replace(made, guess=guess)

    try:
        if job.solver.gaps == "relaxed":
            solution = optimize_relaxed(problem_at(1.0), kappa=job.solver.kappa, **options)
        else:
            solution = homotopy(problem_at, stages, **options)
    except ConvergenceError as error:
        raise ConvergenceError(
            "the guess leads to no trajectory",
            cause=str(error),
            hint=f"Choose another guess than {job.solver.guess!r} in [solver], or gentler weights.",
            iterations=error.iterations,
            residual=error.residual,
            x=error.x,
        ) from error
    if len(stages) > 1:  # it may have been interrupted in an early one
        whole = dataclasses.replace(job.problem(), guess=None)
        solution = dataclasses.replace(solution, cost=whole.cost.value(solution.trajectory), problem=whole)
    return solution


def _rested(job: TrackingJob, solution: Solution, options: dict[str, Any]) -> Solution:
    """The solution with the reference's last pose as its end, and one tick of rest there."""
    cost, found, at = job.cost(), solution.trajectory, job.standing
    shorter = TrackingCost(cost.Q, cost.R, cost.Qf, cost.x_ref[:-1], cost.u_ref[:-1], cost.limits)
    guess = Trajectory(found.t[:-1], found.x[:-1], found.u[:-1])
    posed = dataclasses.replace(job.problem(), cost=shorter, guess=guess, end=at.x)
    ended = at_rest(posed, at.u, **options)
    whole = dataclasses.replace(job.problem(), guess=None)
    value = whole.cost.value(ended.trajectory)
    return dataclasses.replace(ended, problem=whole, cost=value, history=solution.history + ended.history)
