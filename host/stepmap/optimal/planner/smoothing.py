"""Smoothing of a planned motion by the projection operator."""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.optimal.composite import Cost
from stepmap.optimal.lqr import gains
from stepmap.optimal.plan import Plan, gains_with_steady_end
from stepmap.optimal.planner.task import Task
from stepmap.optimal.problem import Problem
from stepmap.optimal.projection import optimize
from stepmap.optimal.terms import SpeedChange, Tension, Track
from stepmap.optimal.terms.clearance import Clearance
from stepmap.optimal.terms.term import Term
from stepmap.steps.protocol import Trajectory

MARGIN = 0.01  # m of clearance that smoothing asks for, beyond what is valid
STIFF = 1e4  # weight of clearances [1/m²] and of coordinates at the goal
ITERATIONS = 40
QUIET = 0.3  # N of tension that smoothing asks for, beyond what is valid


def smoothed(task: Task, found: Trajectory) -> Plan:
    """The plan along the smoothed motion, or along the one that was found where smoothing makes it invalid."""
    step = task.step
    n, nu = step.ndx, step.nu
    Q, R = np.eye(n), 1e-2 * np.eye(nu)
    if not found.steps:
        return Plan(found, np.zeros((0, nu, n)), found)
    better = _optimized(task, found, Q, R)
    valid = better is not None and bool(task.reached(better.x[-1])) and _valid(task, better)
    motion = better if valid and better is not None else found
    A, B = step.linearize_along(motion)
    K = gains(A, B, Q, R, Q)
    K, fading = gains_with_steady_end(step, motion, Q, R, K)
    return Plan(motion, K, found, motion.events, fading=fading)


def _optimized(task: Task, found: Trajectory, Q: Array, R: Array) -> Trajectory | None:
    step = task.step
    end = np.array(found.x)
    end[-1, task.places] = task.goal
    Qf = 1e-2 * np.eye(step.ndx)
    Qf[task.places, task.places] = STIFF
    terms: list[Term] = [Track(1e-3 * Q, R, Qf, end, found.u)]
    if step.nk:
        terms.append(SpeedChange(10.0))
    terms += [Clearance(c.frame, c.shape, c.world, MARGIN, STIFF) for c in task.links]
    if len(task.strings):
        terms.append(Tension(low=task.tension_low + QUIET, weight=1.0))
    problem = Problem(step, Cost(step, *terms), task.start, guess=found)
    try:
        return optimize(problem, max_iterations=ITERATIONS).trajectory
    except (ConvergenceError, ModelError):
        return None


def _valid(task: Task, motion: Trajectory) -> bool:
    rho = motion.x[:, task.step.layout["rho"]]
    forces = np.zeros((motion.steps, 0)) if motion.multipliers is None else motion.multipliers
    inside = ((rho >= task.low - 1e-9) & (rho <= task.high + 1e-9)).all()
    return bool(inside and task.valid(motion.x[None, 1:], forces[None])[0])
