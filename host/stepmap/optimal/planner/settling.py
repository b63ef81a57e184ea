"""The end of a planned motion: an equilibrium at the goal, and the way from a moving end to rest there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError, ShapeError
from stepmap.optimal.goals.standing import Standing
from stepmap.optimal.lqr import regulate
from stepmap.optimal.planner.task import Task
from stepmap.steps import InputLimits, VariationalStep
from stepmap.steps.kernels.implicit import call
from stepmap.steps.protocol import Trajectory

ELSEWHERE = 0.1  # weight of coordinates that the goal does not name, beside 1/tolerance of those it does
BALANCED = 1.0, 30.0, 1e3  # weights of forces that do not balance [1/N] and of constraints [1/m], in turn
LITTLE = 1e-3  # weight of forces: of those that hold a pose, the least
GENTLE = 1.0, 1e3  # times the weight of inputs in the regulator that leads to rest, in turn
FARTHEST = 1e-3  # m or rad by which the exact equilibrium may be off the one that least squares found


def standing_near_goal(task: Task, x: Array) -> Standing | None:
    """The equilibrium nearest to the goal that inputs within their ranges hold; None where none is valid.

    Pose, forces and constraint forces together by least squares: the goal's coordinates first, those of x for the
    others, within ranges, strings pulling. Newton's method then makes it exact.
    """
    step, nq = task.step, len(task.step.system.coordinates)
    low, high, found = _ranges(task, x)
    for weight in BALANCED:
        misfit = _misfit(task, x, weight)
        from scipy.optimize import least_squares  # takes long to load

        found = least_squares(misfit, np.clip(found, low, high), bounds=(low, high), max_nfev=100).x
    try:
        at = Standing(*step.equilibrium(found[:nq], found[nq : nq + len(step.system.inputs)]))
        kept = step.step(at.x, at.u)
    except (ConvergenceError, ModelError):
        return None
    off = np.abs(step.layout.pose(at.x) - found[:nq]).max()
    pull = np.zeros((1, 1, 0)) if kept.multipliers is None else np.asarray(kept.multipliers)[None, None]
    good = off <= FARTHEST and bool(task.reached(at.x)) and bool(task.valid(at.x[None, None], pull)[0])
    return at if good else None


def _ranges(task: Task, x: Array) -> tuple[Array, Array, Array]:
    """Low and high of (q̄, u, lam), and where the search begins."""
    step = task.step
    pose = np.array(step.layout.pose(x))
    pose[task.places] = task.goal
    pull = np.full(step.nc, -np.inf)
    pull[task.strings] = 0.0
    free, more = np.full(step.nd, np.inf), np.full(step.nc, np.inf)
    low = np.concatenate([-free, task.low, task.push_low, pull])
    high = np.concatenate([free, task.high, task.push_high, more])
    high = np.maximum(high, low + 1e-9)  # a force may have a range of one number
    return low, high, np.concatenate([pose, np.zeros(len(task.push_low)), np.ones(step.nc)])


def _misfit(task: Task, x: Array, weight: float) -> Callable[[Array], Array]:
    """How far (q̄, u, lam) is from the goal, and from balance on the constraints."""
    step, system = task.step, task.step.system
    wanted = np.array(step.layout.pose(x))
    wanted[task.places] = task.goal
    weights = np.full(len(wanted), ELSEWHERE)
    weights[task.places] = 1 / task.tolerance
    nq, nu, nd = len(wanted), len(system.inputs), step.nd
    still, parameters = np.zeros(system.tangent.nv), system.parameter_values

    def misfit(z: Array) -> Array:
        q, u, lam = z[:nq], z[nq : nq + nu], z[nq + nu :]
        lq, _, force = call(step.functions.first, q, still, u, parameters)
        balance, rows = (lq + force)[:, 0], np.zeros(0)
        if step.nc:
            h, slope = call(step.functions.con, q, parameters)
            balance, rows = balance[:nd] - slope[:, :nd].T @ lam, h[:, 0]
        return np.concatenate([weights * (q - wanted), LITTLE * u, weight * balance[:nd], weight * rows])

    return misfit


def led_to_rest(
    task: Task, found: Trajectory, at: Standing, steps: int, weights: tuple[Array, Array], limits: InputLimits
) -> Trajectory | None:
    """The motion that was found, and so many steps in which a steady regulator leads it on to rest; a first guess."""
    step = task.step
    wanted = Trajectory(step.dt * np.arange(steps + 1), np.tile(at.x, (steps + 1, 1)), np.tile(at.u, (steps, 1)))
    for gentle in GENTLE:
        try:
            law = regulate(step, at.x, at.u, weights[0], gentle * weights[1])
            tail = step.follow(found.x[-1], wanted, np.tile(law.K, (steps, 1, 1)), within=limits.on(step))
        except (ConvergenceError, ModelError, ShapeError):
            continue  # it asks for a pose that a wire does not reach
        states, inputs = np.vstack([found.x, tail.x[1:]]), np.vstack([found.u, tail.u])
        return Trajectory(step.dt * np.arange(len(states)), states, inputs)
    return None


def held_on(step: VariationalStep, motion: Trajectory, at: Standing) -> Trajectory:
    """The motion, and one tick more with the input that holds its end: a board keeps the last row of a plan."""
    return step.rollout(motion.x[0], np.vstack([motion.u, at.u]))
