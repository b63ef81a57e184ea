"""Smoothing of a planned motion by the projection operator."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, weight
from stepmap.errors import ConvergenceError, ModelError
from stepmap.optimal.composite import Cost
from stepmap.optimal.goals.standing import Standing
from stepmap.optimal.lqr import gains
from stepmap.optimal.plan import Plan, gains_with_steady_end
from stepmap.optimal.planner.settling import held_on, led_to_rest, standing_near_goal
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
SOFT = 1e-2  # part of it for clearances while a search looks for its way: a stiff hinge allows it tiny steps alone
ITERATIONS = 40
LITTLE = 1e-9  # rounding
PULLED = 0.02  # weight of tension [1/N²]; forces answer steeply to inputs, so a larger one only shortens steps
QUIET = 0.3  # N of tension that smoothing asks for, beyond what is valid
SETTLING = 0.8, 1.6  # s from a moving end to rest, tried in turn; searches within less creep, or fail
HASTY = 16  # iterations of a search that has another chance, with more time; most that converge take 10 to 20
SMOOTH = 1e-9  # slope that ends a search
ROUGH = 1e-5  # slope that ends a search which another one goes on from
AT_REST = 1e-5  # of states, from the equilibrium they end in

NOWHERE = "no equilibrium within the tolerance of the goal was found that inputs hold and that is as valid as the rest"
NO_WAY = f"no way from there to rest within {SETTLING[-1]:g} s was found that is as valid as the rest"


class Smoothed(NamedTuple):
    """The plan, the cost of its motion as smoothing weighs it, the iterations it took, and whether it ends at rest."""

    plan: Plan
    cost: float
    history: tuple[Iteration, ...]
    rest: bool = False
    moving: str = ""  # why it reaches the goal in motion


def gain_weights(step: VariationalStep, weights: tuple[ArrayLike, ArrayLike] | None) -> tuple[Array, Array]:
    """Q and R of the gains: those given, checked, or equal ones for all coordinates."""
    if weights is None:
        return np.eye(step.ndx), 1e-2 * np.eye(step.nu)
    if not isinstance(weights, (tuple, list)) or len(weights) != 2:
        raise ModelError("weights: expected Q and R of the gains")
    return weight(weights[0], 0, step.ndx, "weights, Q"), weight(weights[1], 0, step.nu, "weights, R", definite=True)


def smoothed(task: Task, found: Trajectory, weights: tuple[Array, Array]) -> Smoothed:
    """The plan along the smoothed motion, at rest in the end where it can be; along the one found where none is valid.

    The goal of a tree is reached in motion. Settling steps lead on to the nearest equilibrium that can be held; where
    there is none, or no valid way, the motion ends as the tree's does.
    """
    step = task.step
    if not found.steps:
        return Smoothed(Plan(found, np.zeros((0, step.nu, step.ndx)), found), 0.0, ())
    better, reference, moving = _settled(task, found, weights)
    rest = better is not None
    if better is None:
        better = _optimized(task, found)
    motion, cost = found, 0.0
    history: tuple[Iteration, ...] = ()
    if better is not None:
        history, cost = better.history, better.cost
        if _good(task, better.trajectory):
            motion = better.trajectory
    Q, R = weights
    A, B = step.linearize_along(motion)
    K, fading = gains_with_steady_end(step, motion, Q, R, gains(A, B, Q, R, Q))
    return Smoothed(Plan(motion, K, reference, motion.events, fading=fading), cost, history, rest, moving)


def _settled(task: Task, found: Trajectory, weights: tuple[Array, Array]) -> tuple[Solution | None, Trajectory, str]:
    """The motion that goes on to rest, the guess it was sought from, and why there is none."""
    if not bool(task.reached(found.x[-1])):
        return None, found, ""
    at = standing_near_goal(task, found.x[-1])
    if at is None:
        return None, found, NOWHERE
    for seconds in SETTLING:
        steps = max(2, round(seconds / task.step.dt))
        guess = led_to_rest(task, found, at, steps, weights, _limits(task))
        if guess is None:
            continue
        solution = _stopped(task, guess, at, patient=seconds == SETTLING[-1])
        if solution is not None and solution.status.interrupted:
            return None, found, str(solution.status)
        if solution is not None:
            t, x, u = solution.trajectory.t, np.vstack([guess.x, at.x]), np.vstack([guess.u, at.u])
            return solution, Trajectory(t, x, u), ""
    return None, found, NO_WAY


def _stopped(task: Task, guess: Trajectory, at: Standing, patient: bool) -> Solution | None:
    """The smooth motion that ends at rest, and a last tick of rest; None where it is not valid.

    Its search goes to where soft weights lead first, then to the equilibrium itself. Where the first part does not
    converge there is little time to settle: only a ``patient`` search goes on. One that is interrupted is returned.
    """
    near = _optimized(task, guess, at, iterations=ITERATIONS if patient else HASTY, tolerance=ROUGH)
    if near is None or near.status.interrupted:
        return near
    if not near.status.ok and not patient:
        return None
    found = _optimized(task, guess, at, near.trajectory)
    if found is not None and found.status.interrupted:
        return found
    if found is None or np.abs(found.trajectory.x[-1] - at.x).max() > AT_REST:
        return None
    motion = held_on(task.step, found.trajectory, at)
    if not _good(task, motion):
        return None
    return replace(found, trajectory=motion, history=near.history + found.history)


def _optimized(
    task: Task,
    found: Trajectory,
    at: Standing | None = None,
    near: Trajectory | None = None,
    *,
    iterations: int = ITERATIONS,
    tolerance: float = SMOOTH,
) -> Solution | None:
    """The smooth motion near the one found, which ends near the goal, or near ``at`` with soft obstacles.

    With a motion ``near`` that, the search begins there and ends in ``at``.
    """
    step = task.step
    n = step.ndx
    end = np.array(found.x)
    end[-1, task.places] = task.goal
    if at is not None:
        end[-1] = at.x
    Qf = (1e-2 if at is None else STIFF) * np.eye(n)
    Qf[task.places, task.places] = STIFF
    terms: list[Term] = [Track(1e-3 * np.eye(n), 1e-2 * np.eye(step.nu), Qf, end, found.u)]
    if step.nk:
        terms.append(SpeedChange(10.0))
    stiff = STIFF if at is None or near is not None else SOFT * STIFF
    terms += [Clearance(c.frame, c.shape, c.world, MARGIN, stiff) for c in task.links]
    if len(task.strings):
        terms.append(Tension(low=task.tension_low + QUIET, weight=PULLED))
    guess, goal = (found, None) if at is None or near is None else (near, at.x)
    problem = Problem(step, Cost(step, *terms), task.start, guess=guess, limits=_limits(task), end=goal)
    try:
        return optimize(problem, max_iterations=iterations, tolerance=tolerance)
    except (ConvergenceError, ModelError):
        return None


def _limits(task: Task) -> InputLimits:
    """The ranges and rates that the tree kept."""
    system = task.step.system
    names = [*(i.name for i in system.inputs), *(f"{c.name}_next" for c in system.kinematic)]
    low, high = np.concatenate([task.push_low, task.low]), np.concatenate([task.push_high, task.high])
    rates = {f"{c.name}_next": float(rate) for c, rate in zip(system.kinematic, task.rate, strict=True)}
    return InputLimits(dict(zip(names, low.tolist(), strict=True)), dict(zip(names, high.tolist(), strict=True)), rates)


def _good(task: Task, motion: Trajectory) -> bool:
    return bool(task.reached(motion.x[-1])) and _valid(task, motion)


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
