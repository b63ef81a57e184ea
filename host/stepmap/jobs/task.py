"""What a job of any kind is to the stages after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

from stepmap.arrays import Array
from stepmap.estimate import ExtendedKalmanFilter, Filter
from stepmap.jobs.weights import Noise
from stepmap.mechanics import System
from stepmap.optimal import Iteration, Plan
from stepmap.optimal.projection import Monitor
from stepmap.steps import Trajectory, VariationalStep
from stepmap.toml.tables import Table


class Ending(Protocol):
    """How a search ended; as text, what to do. A ``stepmap.Status`` is one."""

    @property
    def name(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def interrupted(self) -> bool: ...


class Outcome(Protocol):
    """What a search ends in: a plan, and how it was found. A ``stepmap.Solution`` is one."""

    @property
    def status(self) -> Ending: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def cost(self) -> float: ...
    @property
    def history(self) -> tuple[Iteration, ...]: ...

    def require(self) -> Self:
        """Itself when the search converged; raises ConvergenceError otherwise."""


class Job(Protocol):
    """A job file as read and checked by its kind; nothing is compiled before ``step`` is asked for."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def system(self) -> System: ...
    @property
    def step(self) -> VariationalStep: ...
    @property
    def dt(self) -> float: ...
    @property
    def steps(self) -> int: ...
    @property
    def pose(self) -> Array:
        """q̄ at the start."""

    @property
    def noise(self) -> Noise | None:
        """Standard deviations for the filter; code is generated for jobs that have them."""

    @property
    def root(self) -> Table:
        """All tables as read, with their lines; later stages read theirs from it."""

    @property
    def document(self) -> Mapping[str, Any]:
        """All tables as plain data."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """Contents of the files that the job names, which decide its result too."""

    def build(self) -> None:
        """Compiles all that ``solve`` needs, or loads it from the cache, so that the search itself can be timed."""

    def solve(self, monitor: Monitor | None = None, guess: Trajectory | None = None) -> Outcome:
        """The best plan found. With a ``guess``, such as the result of a search that ended early, it begins there."""

    def filter(self) -> Filter[Any]:
        """The filter that the job names, with its noise."""

    def ekf(self) -> ExtendedKalmanFilter:
        """The Kalman filter with the job's noise."""


def for_board(job: Job) -> Job:
    """The job as stages after ``optimize`` see it; a kind may have a form of its own for boards."""
    made: Job = getattr(job, "for_board", job)
    return made


def solved(job: Job) -> Job:
    """The job that is solved: behind a form for boards there is the job itself."""
    made: Job = getattr(job, "whole", job)
    return made


def planned(job: Job, plan: Plan) -> Plan:
    """The plan of the job that was solved, as ``for_board`` has it."""
    made: Plan = job.on_board(plan) if hasattr(job, "on_board") else plan
    return made
