"""Reaching a pose and staying there, from a lazy guess: starts and horizons are tried until the end can be held."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.optimal.cost import SoftLimit, TrackingCost
from stepmap.optimal.goals.standing import Standing, holds
from stepmap.optimal.lqr import Regulator, lqr, regulate
from stepmap.optimal.objective import Weights
from stepmap.optimal.problem import Iteration, Problem, Solution
from stepmap.optimal.projection import optimize
from stepmap.steps.limits import InputLimits
from stepmap.steps.protocol import Trajectory
from stepmap.steps.variational import VariationalStep

NUDGE = 0.01  # of an input's limit, added to the first guess: hanging still may be a place where nothing pulls
LONGER = 1.5
HEAVIER = 10.0
PATIENCE = 500  # iterations of one search

Search: TypeAlias = Callable[..., Solution]


@dataclass(frozen=True, eq=False)
class Task:
    """From ``start`` to a standing ``goal`` in ``steps`` steps, within limits of inputs and states.

    With ``rest`` the plan ends in the goal itself, its last tick at rest; without, as near as the weights want it.
    """

    step: VariationalStep
    start: Array
    goal: Standing
    weights: Weights
    steps: int
    limits: InputLimits | None = None
    states: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    soft: tuple[SoftLimit, ...] = ()
    rest: bool = True
    regulator: Weights | None = None

    def problem(self, steps: int, guess: Trajectory | None = None, heavier: float = 1.0) -> Problem:
        """The search in so many steps, without the end as a condition; ``heavier`` is a factor on its weight."""
        Q, R, Qf = self.weights
        x_ref, u_ref = np.tile(self.goal.x, (steps + 1, 1)), np.tile(self.goal.u, (steps, 1))
        cost = TrackingCost(Q, R, heavier * Qf, x_ref, u_ref, self.soft)
        law = self.regulator
        return Problem(self.step, cost, self.start, guess, law, self.limits, self.states or None)

    @property
    def end(self) -> Array:
        """The goal; coordinates that weigh nothing and that nothing depends on, such as a wheel's angle, are free."""
        weighs = np.diagonal(self.weights.Q) + np.diagonal(self.weights.Qf) > 0
        A = self.step.linearize(self.goal.x, self.goal.u).A
        cyclic = (np.abs(A - np.eye(len(A))) < 1e-12).all(axis=0)
        return np.where(weighs | ~cyclic, self.goal.x, np.nan)

    @property
    def law(self) -> Regulator:
        """The steady regulator at the goal; raises ModelError where there is none."""
        weights = self.regulator or self.weights
        try:
            return regulate(self.step, self.goal.x, self.goal.u, weights.Q, weights.R)
        except ConvergenceError as error:
            raise ModelError(
                f"goal: nothing holds it there: {error}",
                hint="Weight every coordinate, and look whether the inputs can move what falls.",
            ) from error


def reach(task: Task, guess: Trajectory | None = None, **options: Any) -> Solution:
    """The first plan whose end the steady regulator holds; where none does, one that the end was forced on.

    Tried in turn: the start held; half as much time again; a heavier end; a smooth random input; more time with either.
    ``options`` go to optimize. With a ``guess`` that is the only start. The history is that of all searches.
    """
    search = _Search(task, {"max_iterations": PATIENCE, **options})
    for steps, heavier, first in _attempts(task) if guess is None else [(guess.steps - task.rest, 1.0, guess)]:
        found = search.attempt(task.problem(steps, _cut(first, steps), heavier))
        if found is not None:
            return found
    if task.rest and search.best is not None:
        found = search.forced(task.problem(search.best.trajectory.steps, search.best.trajectory))
        return dataclasses.replace(found, history=search.history)
    if search.best is None:
        raise ConvergenceError("no start leads to a trajectory", iterations=0, residual=np.nan, x=task.start)
    return dataclasses.replace(search.best, history=search.history)


class _Search:
    """What the attempts at a task have come to: all iterations, and the solution that ends nearest to the goal."""

    def __init__(self, task: Task, options: dict[str, Any]) -> None:
        self.task, self.options, self.law = task, options, task.law
        self.goal = Standing(task.end, task.goal.u)
        self.bounds = None if task.limits is None else task.limits.on(task.step)
        self.history: tuple[Iteration, ...] = ()
        self.best: Solution | None = None

    def attempt(self, problem: Problem) -> Solution | None:
        """The plan where the end of the search can be held, or where it was interrupted."""
        try:
            found = optimize(problem, **self.options)
        except ConvergenceError:
            return None
        self.history += found.history
        if self.best is None or self._off(found) < self._off(self.best):
            self.best = found
        if not found.status.interrupted:
            if not holds(self.task.step, found.trajectory.x[-1], self.goal, self.law, self.bounds):
                return None
            if self.task.rest:
                found = self.forced(self.task.problem(problem.horizon, found.trajectory))
                if not (found.status.ok or found.status.interrupted):
                    return None
        return dataclasses.replace(found, history=self.history)

    def forced(self, problem: Problem) -> Solution:
        """The solution that ends in the goal, and one tick of rest there."""
        found = at_rest(dataclasses.replace(problem, end=self.goal.x), self.goal.u, **self.options)
        self.history += found.history
        return found

    def _off(self, found: Solution) -> float:
        pose = self.task.step.layout.pose
        return float(np.abs(pose(found.trajectory.x[-1]) - pose(self.task.goal.x)).max())


def _attempts(task: Task) -> Iterator[tuple[int, float, Trajectory]]:
    """Steps, a factor on the weight of the end, and where the search begins."""
    rng = np.random.default_rng(1)
    short, longer, longest = (round(LONGER**i * task.steps) - task.rest for i in range(3))
    yield short, 1.0, _held(task, short)
    yield longer, 1.0, _held(task, longer)
    yield short, HEAVIER, _held(task, short)
    yield short, 1.0, _random(task, short, rng)
    yield longer, 1.0, _random(task, longer, rng)
    yield longest, 1.0, _held(task, longest)
    yield longest, 1.0, _random(task, longest, rng)


def at_rest(problem: Problem, u: Array, search: Search = optimize, **options: Any) -> Solution:
    """The solution of a problem with an ``end``, and one tick more, in which the input u holds it there.

    A board keeps the last row of a plan: its input must be the one that holds, not the last that braked. ``search``
    solves the problem, with ``options``.
    """
    found = search(problem, **options)
    t, step = found.trajectory, problem.step
    last = step.step(t.x[-1], u)
    forces = None if t.multipliers is None else np.vstack([t.multipliers, last.multipliers])
    later = tuple(event._replace(step=t.steps, time=event.time + t.t[-1]) for event in last.events)
    events, modes = t.events + later, (*t.modes, last.modes) if t.modes else ()
    states, inputs = np.vstack([t.x, last.x]), np.vstack([t.u, u])
    longer = Trajectory(step.dt * np.arange(t.steps + 2), states, inputs, forces, events, modes)
    cost = problem.cost
    if isinstance(cost, TrackingCost):
        x_ref, u_ref = np.vstack([cost.x_ref, cost.x_ref[-1]]), np.vstack([cost.u_ref, u])
        cost = TrackingCost(cost.Q, cost.R, cost.Qf, x_ref, u_ref, cost.limits)
    whole = dataclasses.replace(problem, cost=cost, guess=None)
    weights = whole.weights
    gains = found.gains if weights is None else lqr(step, longer, *weights)
    return dataclasses.replace(found, trajectory=longer, gains=gains, cost=cost.value(longer), problem=whole)


def _held(task: Task, steps: int) -> Trajectory:
    """The start, held, with a nudge on every force."""
    u = np.tile(task.step.layout.hold(task.start), (steps, 1))
    u[:, : task.step.layout.forces] += NUDGE * _sizes(task)
    return Trajectory(task.step.dt * np.arange(steps + 1), np.tile(task.start, (steps + 1, 1)), u)


def _random(task: Task, steps: int, rng: np.random.Generator) -> Trajectory:
    """The start, with forces of a few slow waves, half of what the limits allow."""
    made, phase = _held(task, steps), np.linspace(0.0, np.pi, steps)
    for i, size in enumerate(_sizes(task)):
        waves = sum(rng.normal() * np.sin(k * phase) / k for k in range(1, 9))
        made.u[:, i] += 0.5 * size * waves / max(float(np.abs(waves).max()), 1e-9)
    return task.step.rollout(task.start, made.u)


def _sizes(task: Task) -> Array:
    """What is much of each force, (forces): its limit, or 1 where it has none."""
    count = task.step.layout.forces
    if task.limits is None:
        return np.ones(count)
    bounds = task.limits.on(task.step)
    most = np.where(np.isfinite(bounds.high), bounds.high, -bounds.low)[:count]
    return np.where(np.isfinite(most), most, 1.0)


def _cut(t: Trajectory, steps: int) -> Trajectory:
    return t if t.steps == steps else Trajectory(t.t[: steps + 1], t.x[: steps + 1], t.u[:steps])
