"""Smoothing of a planned motion by the projection operator."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, weight
from stepmap.errors import ConvergenceError, ModelError
from stepmap.optimal.composite import Cost
from stepmap.optimal.lqr import gains
from stepmap.optimal.plan import Plan, gains_with_steady_end
from stepmap.optimal.planner.task import Task
from stepmap.optimal.problem import Iteration, Problem, Solution
from stepmap.optimal.projection import optimize
from stepmap.optimal.terms import SpeedChange, Tension, Track
from stepmap.optimal.terms.clearance import Clearance
from stepmap.optimal.terms.term import Term
from stepmap.steps import InputLimits, VariationalStep
from stepmap.steps.protocol import Trajectory

MARGIN = 0.01  # m of clearance that smoothing asks for, beyond what is valid
STIFF = 1e4  # weight of clearances [1/m²] and of coordinates at the goal
ITERATIONS = 40
LITTLE = 1e-9  # rounding
QUIET = 0.3  # N of tension that smoothing asks for, beyond what is valid


class Smoothed(NamedTuple):
    """The plan, the cost of its motion as smoothing weighs it, and the iterations that it took."""

    plan: Plan
    cost: float
    history: tuple[Iteration, ...]


def gain_weights(step: VariationalStep, weights: tuple[ArrayLike, ArrayLike] | None) -> tuple[Array, Array]:
    """Q and R of the gains: those given, checked, or equal ones for all coordinates."""
    if weights is None:
        return np.eye(step.ndx), 1e-2 * np.eye(step.nu)
    if not isinstance(weights, (tuple, list)) or len(weights) != 2:
        raise ModelError("weights: expected Q and R of the gains")
    return weight(weights[0], 0, step.ndx, "weights, Q"), weight(weights[1], 0, step.nu, "weights, R", definite=True)


def smoothed(task: Task, found: Trajectory, weights: tuple[Array, Array]) -> Smoothed:
    """The plan along the smoothed motion, or along the one that was found where smoothing makes it invalid."""
    step = task.step
    Q, R = weights
    if not found.steps:
        return Smoothed(Plan(found, np.zeros((0, step.nu, step.ndx)), found), 0.0, ())
    better = _optimized(task, found)
    motion, cost = found, 0.0
    history: tuple[Iteration, ...] = ()
    if better is not None:
        history, cost = better.history, better.cost
        if bool(task.reached(better.trajectory.x[-1])) and _valid(task, better.trajectory):
            motion = better.trajectory
    A, B = step.linearize_along(motion)
    K = gains(A, B, Q, R, Q)
    K, fading = gains_with_steady_end(step, motion, Q, R, K)
    return Smoothed(Plan(motion, K, found, motion.events, fading=fading), cost, history)


def _optimized(task: Task, found: Trajectory) -> Solution | None:
    step = task.step
    n = step.ndx
    end = np.array(found.x)
    end[-1, task.places] = task.goal
    Qf = 1e-2 * np.eye(n)
    Qf[task.places, task.places] = STIFF
    terms: list[Term] = [Track(1e-3 * np.eye(n), 1e-2 * np.eye(step.nu), Qf, end, found.u)]
    if step.nk:
        terms.append(SpeedChange(10.0))
    terms += [Clearance(c.frame, c.shape, c.world, MARGIN, STIFF) for c in task.links]
    if len(task.strings):
        terms.append(Tension(low=task.tension_low + QUIET, weight=1.0))
    problem = Problem(step, Cost(step, *terms), task.start, guess=found, limits=_limits(task))
    try:
        return optimize(problem, max_iterations=ITERATIONS)
    except (ConvergenceError, ModelError):
        return None


def _limits(task: Task) -> InputLimits:
    """The ranges and rates that the tree kept."""
    system = task.step.system
    names = [*(i.name for i in system.inputs), *(f"{c.name}_next" for c in system.kinematic)]
    low, high = np.concatenate([task.push_low, task.low]), np.concatenate([task.push_high, task.high])
    rates = {f"{c.name}_next": float(rate) for c, rate in zip(system.kinematic, task.rate, strict=True)}
    return InputLimits(dict(zip(names, low.tolist(), strict=True)), dict(zip(names, high.tolist(), strict=True)), rates)


def _valid(task: Task, motion: Trajectory) -> bool:
    """Whether a motion keeps all that the tree kept."""
    system, layout = task.step.system, task.step.layout
    rho, v, pushes = motion.x[:, layout["rho"]], motion.x[1:, layout["v"]], motion.u[:, : len(system.inputs)]
    forces = np.zeros((motion.steps, 0)) if motion.multipliers is None else motion.multipliers
    within = [
        (values >= low - LITTLE).all() and (values <= high + LITTLE).all()
        for values, low, high in (
            (rho, task.low, task.high),
            (pushes, task.push_low, task.push_high),
            (v, -task.rate, task.rate),
        )
    ]
    return bool(all(within) and task.valid(motion.x[None, 1:], forces[None])[0])
