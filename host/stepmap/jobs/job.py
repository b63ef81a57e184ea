"""A job of kind "track": everything from a system to its noise, and what can be built from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.estimate import ExtendedKalmanFilter, Filter
from stepmap.jobs.reference import Reference
from stepmap.jobs.weights import Noise, Weights
from stepmap.mechanics import System
from stepmap.optimal import Problem, SoftLimit, Solution, TrackingCost, homotopy
from stepmap.optimal.projection import Method, Monitor
from stepmap.steps import Trajectory, VariationalStep, discretize
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
    weights: Weights
    limits: tuple[SoftLimit, ...]
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

    def cost(self, part: float = 1.0) -> TrackingCost:
        """The cost with a reference that has gone this part of its way from the start."""
        x_ref, u_ref = self.reference.states(self.step)
        if part != 1.0:
            x_ref = self.start + part * (x_ref - self.start)
            u_ref = self.held + part * (u_ref - self.held)
        Q, R, Qf = (np.diag(values) for values in (self.weights.state, self.weights.input, self.weights.terminal))
        return TrackingCost(Q, R, Qf, x_ref, u_ref, self.limits)

    def problem(self, part: float = 1.0) -> Problem:
        """The optimization problem with its guess."""
        cost = self.cost(part)
        guess = None  # the start, held by feedback
        if self.solver.guess == "reference":
            guess = Trajectory(self.t, cost.x_ref, cost.u_ref)
        elif self.solver.guess == "release":
            guess = self.step.rollout(self.start, np.tile(self.held, (self.steps, 1)))
        return Problem(self.step, cost, self.start, guess)

    def build(self) -> None:
        """Compiles all that ``solve`` needs, or loads it from the cache, so that the search itself can be timed."""
        self.step.curvature(self.start, self.held, np.zeros(self.step.nx))

    def solve(self, monitor: Monitor | None = None, guess: Trajectory | None = None) -> Solution:
        """The optimal trajectory, in stages if the job has several; its cost is always that of the whole reference.

        With a ``guess``, such as the result of a search that ended early, there is one stage and it begins there.
        """
        s = self.solver
        options = {"method": s.method, "max_iterations": s.max_iterations, "tolerance": s.tolerance}
        problem_at, stages = self.problem, s.stages
        if guess is not None:
            problem = dataclasses.replace(self.problem(), guess=guess)
            problem_at, stages = (lambda part=1.0: problem), (1.0,)
        try:
            solution = homotopy(problem_at, stages, monitor=monitor, **options)
        except ConvergenceError as error:
            raise ConvergenceError(
                "the guess leads to no trajectory",
                cause=str(error),
                hint=f"Choose another guess than {s.guess!r} in [solver], or gentler weights.",
                iterations=error.iterations,
                residual=error.residual,
                x=error.x,
            ) from error
        if len(stages) > 1:  # it may have been interrupted in an early one
            whole = Problem(self.step, self.cost(), self.start)
            solution = dataclasses.replace(solution, cost=whole.cost.value(solution.trajectory), problem=whole)
        return solution

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
