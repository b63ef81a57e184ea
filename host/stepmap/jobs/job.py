"""A job of kind "track": everything from a system to its noise, and what can be built from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.estimate import ExtendedKalmanFilter, Filter
from stepmap.jobs.limits import HardLimits
from stepmap.jobs.reference import Reference
from stepmap.jobs.solve import solve
from stepmap.jobs.weights import Controller, Noise, Weights
from stepmap.mechanics import System
from stepmap.optimal import Problem, SoftLimit, Solution, TrackingCost
from stepmap.optimal.events.relaxed import KAPPAS
from stepmap.optimal.goals.natural import natural_weights
from stepmap.optimal.goals.reach import Task
from stepmap.optimal.goals.standing import Standing, standing
from stepmap.optimal.objective import Weights as Matrices
from stepmap.optimal.projection import Method, Monitor
from stepmap.steps import InputLimits, Trajectory, VariationalStep, discretize
from stepmap.steps.kinds import Gaps
from stepmap.steps.variational import Forces
from stepmap.toml.tables import Table


@dataclass(frozen=True)
class Solver:
    """How the optimum is searched for; ``stages`` are parts of the reference's distance from the start."""

    method: Method = "newton"
    max_iterations: int = 200
    tolerance: float = 1e-12
    stages: tuple[float, ...] = (1.0,)
    guess: str = "hold"
    gaps: Gaps = "events"
    kappa: tuple[float, float] = KAPPAS  # first and last, of relaxed gaps


@dataclass(frozen=True, eq=False)
class TrackingJob:
    """A job of kind "track" as its file says it, checked. Nothing is compiled before ``step`` is asked for."""

    kind: ClassVar[str] = "track"
    name: str
    system: System
    dt: float
    steps: int
    forces: Forces
    pose: Array  # q̄ at the start
    reference: Reference
    goal: bool  # the reference is a pose to end in, and starts and horizons are tried until it can be held
    rest: bool  # the end is an equilibrium, the last tick at rest
    own_weights: Weights | None  # None for the natural ones
    controller: Controller | None  # weights of the feedback, where they are not those of the plan
    hard: HardLimits
    limits: tuple[SoftLimit, ...]  # soft ones
    solver: Solver
    noise: Noise | None
    root: Table  # all tables as read, those of later stages too, with their lines
    files: Mapping[str, bytes]  # contents of the files it names

    @property
    def document(self) -> Mapping[str, Any]:
        """All tables as plain data."""
        return self.root.entries

    @property
    def t(self) -> Array:
        """All times [s], (N+1)."""
        return self.dt * np.arange(self.steps + 1)

    @cached_property
    def step(self) -> VariationalStep:
        return discretize(self.system, self.dt, forces=self.forces)

    @cached_property
    def start(self) -> Array:
        """The first state: at rest, held by the forces that can."""
        return self.step.rest(self.pose, self._holding)

    @cached_property
    def _holding(self) -> Array | None:
        """Forces that keep the start, where there are any; a start that they cannot hold falls."""
        return self.step.holding_forces(self.pose)

    @property
    def held(self) -> Array:
        """The input that keeps the start: the least forces that do, kinematic coordinates where they are."""
        return self.step.layout.hold(self.start, self._holding)

    @cached_property
    def standing(self) -> Standing:
        """The equilibrium at the last pose of the reference; raises JobError where nothing can stand there."""
        try:
            return standing(self.step, self.reference.poses[-1])
        except (ModelError, ConvergenceError) as error:
            table = self.root.table("goal" if self.goal else "end")
            raise table.error(str(error), hint=error.hint or "Choose a pose at which it can stand.") from error

    @cached_property
    def weights(self) -> Weights:
        """Of the plan: those of the job, or the natural ones of its goal."""
        if self.own_weights is not None:
            return self.own_weights
        bounds = self.input_limits.on(self.step) if self.input_limits is not None else None
        assert bounds is not None  # read only with limits of all inputs
        found = natural_weights(self.step, *self.standing, bounds, self.steps * self.dt)
        return Weights(*(np.diagonal(matrix) for matrix in found))

    @cached_property
    def input_limits(self) -> InputLimits | None:
        """What the plan keeps its inputs within."""
        return self.hard.plan(self.system)

    @property
    def regulator(self) -> Matrices | None:
        """Weights of the feedback, where they are not those of the plan."""
        return None if self.controller is None else self.controller.weights(self.weights).matrices

    @property
    def tuning_bases(self) -> dict[str, Matrices]:
        """Weights that tuning of the feedback may begin with, by what they are called in messages."""
        bases = {"the plan's weights": self.weights.matrices}
        if self.controller is not None and self.controller.own is not None:
            bases["[weights.controller]"] = self.controller.own.matrices
        return bases

    def cost(self, part: float = 1.0) -> TrackingCost:
        """The cost with a reference that has gone this part of its way from the start."""
        if self.goal:
            at = self.standing
            x_ref, u_ref = np.tile(at.x, (self.steps + 1, 1)), np.tile(at.u, (self.steps, 1))
        else:
            x_ref, u_ref = self.reference.states(self.step)
        if part != 1.0:
            x_ref = self.start + part * (x_ref - self.start)
            u_ref = self.held + part * (u_ref - self.held)
        return TrackingCost(*self.weights.matrices, x_ref, u_ref, self.limits)

    def problem(self, part: float = 1.0) -> Problem:
        """The optimization problem with its guess."""
        cost = self.cost(part)
        guess = None  # the start, held by feedback
        if self.solver.guess == "reference":
            guess = Trajectory(self.t, cost.x_ref, cost.u_ref)
        elif self.solver.guess == "release":
            guess = self.step.rollout(self.start, np.tile(self.held, (self.steps, 1)))
        states = dict(self.hard.states) or None
        return Problem(self.step, cost, self.start, guess, self.regulator, self.input_limits, states)

    def build(self) -> None:
        """Compiles all that ``solve`` needs, or loads it from the cache, so that the search itself can be timed."""
        maps = [self.step]
        if self.solver.gaps == "relaxed":
            maps.append(discretize(self.system, self.dt, forces=self.forces, gaps="relaxed"))
        for step in maps:
            if self.solver.method == "newton":
                step.curvature(self.start, self.held, np.zeros(step.ndx))

    def solve(self, monitor: Monitor | None = None, guess: Trajectory | None = None) -> Solution:
        """The optimal trajectory, in stages if the job has several; its cost is always that of the whole reference.

        With a ``guess``, such as the result of a search that ended early, there is one stage and it begins there. The
        plan of a goal may be longer than the job, where the goal takes more time.
        """
        return solve(self, monitor, guess)

    @property
    def task(self) -> Task:
        """Reaching the goal; how, is left to the search."""
        return Task(
            self.step,
            self.start,
            self.standing,
            self.weights.matrices,
            self.steps,
            self.input_limits,
            dict(self.hard.states),
            self.limits,
            self.rest,
            self.regulator,
        )

    def ekf(self) -> ExtendedKalmanFilter:
        """The extended Kalman filter with the job's noise."""
        return self._noise().ekf(self.step)

    def filter(self) -> Filter[Any]:
        """The filter that [noise] names, with the job's noise."""
        return self._noise().make_filter(self.step)

    def belief(self) -> Any:
        """The first belief of that filter: the start, as uncertain as the job says."""
        return self.filter().start(self.start, np.diag(self._noise().start ** 2))

    def _noise(self) -> Noise:
        if self.noise is None:
            raise ModelError(f"job {self.name!r} has no table [noise]", hint="Add it: a filter needs the noise.")
        return self.noise
