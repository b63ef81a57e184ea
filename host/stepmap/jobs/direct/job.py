"""A job of kind "direct", and how it is solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.estimate import ExtendedKalmanFilter, Filter
from stepmap.jobs.direct import report
from stepmap.jobs.weights import Noise
from stepmap.mechanics import System
from stepmap.optimal import DirectSolution, Iteration
from stepmap.optimal.direct.formulation import Formulation
from stepmap.optimal.direct.search import search
from stepmap.optimal.direct.task import Task
from stepmap.optimal.direct.transcription import Transcription
from stepmap.optimal.goals.verdict import Verdict
from stepmap.optimal.projection import Monitor
from stepmap.optimal.terms.clearance import Clearance
from stepmap.steps import Trajectory, VariationalStep, discretize
from stepmap.toml.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class DirectJob:
    """A job of kind "direct" as its file says it, checked. Nothing is compiled before ``step`` is asked for.

    A time that is found is then fitted to steps of ``dt``; ``steps`` are the fewest that there can be.
    """

    kind: ClassVar[str] = "direct"
    goal: ClassVar[bool] = True  # the plan may have more steps than the job
    name: str
    task: Task
    dt: float
    steps: int
    noise: Noise | None
    root: Table
    files: Mapping[str, bytes]

    @property
    def system(self) -> System:
        return self.task.system

    @property
    def pose(self) -> Array:
        """q̄ at the start."""
        return self.task.first.q

    @property
    def found_within(self) -> tuple[float, float] | None:
        """The range [s] in which the time is found; None where it is given."""
        low, high = self.task.all_phases[0].range
        return (low, high) if low < high else None

    @property
    def document(self) -> Mapping[str, Any]:
        return self.root.entries

    @cached_property
    def step(self) -> VariationalStep:
        return discretize(self.system, self.dt)

    @cached_property
    def _formulation(self) -> Formulation:
        return Formulation(self.task)

    def build(self) -> None:
        """Compiles the stages and the map."""
        steps = tuple(phase.steps for phase in self.task.all_phases)
        if self.task.solver == "ipopt" and self.task.compiled:
            for placed in Transcription(self._formulation, steps).program.placed:
                _ = placed.compile and placed.block.compiled
        _ = self.step.kernel

    def solve(self, monitor: Monitor | None = None, guess: Trajectory | None = None) -> DirectSolution:
        """The best motion found, with steps of dt."""
        found = self.search(monitor, guess)
        low, high = self.task.all_phases[0].range
        if low == high or found.status.interrupted or not found.status.ok:
            return found
        return found.at_period(self.dt)

    def from_start(self, number: int) -> DirectSolution:
        """The motion found from the start of that number alone, with steps of dt."""
        found = DirectSolution(self.task, search(self._formulation, only=number))
        low, high = self.task.all_phases[0].range
        return found if low == high or not found.status.ok else found.at_period(self.dt)

    def search(self, monitor: Monitor | None = None, guess: Trajectory | None = None) -> DirectSolution:
        """The best motion found, with the steps of the search where the time is found too."""
        task = self.task if guess is None else replace(self.task, guess=guess)
        formulation = self._formulation if guess is None else Formulation(task)
        return DirectSolution(task, search(formulation, self._told(monitor)))

    def _told(self, monitor: Monitor | None) -> Any:
        """What tells a monitor of track jobs of iterations."""
        if monitor is None:
            return None
        nothing = Trajectory(np.zeros(1), np.zeros((1, self.step.nx)), np.zeros((0, self.step.nu)))
        count = iter(range(10**9))

        def told(iteration: Iteration) -> None:
            monitor(next(count), iteration, nothing)

        return told

    # what its stage writes ----------------------------------------------------------------------------------------

    @property
    def clear(self) -> Sequence[Clearance]:
        """Clearances to keep."""
        return tuple(self.task.clear)

    def told(self, solution: DirectSolution) -> dict[str, Any]:
        """Entries of summary.json beside those of every job."""
        return report.told(solution)

    def judged(self, solution: DirectSolution) -> Verdict:
        """Whether the plan will work, as far as its numbers tell."""
        return report.judged(self.task, solution)

    def drawn(self, solution: DirectSolution) -> dict[str, Figure]:
        """Pictures by name."""
        return report.drawn(solution)

    def animated(self, solution: DirectSolution) -> dict[str, bytes]:
        """Moving pictures by the names of their files."""
        return report.animated(solution)

    def filter(self) -> Filter[Any]:
        """The filter that [noise] or [filter] names, with the job's noise."""
        if self.noise is None:
            raise ModelError(f"job {self.name!r} has no table [noise]", hint="Add it: a filter needs the noise.")
        return self.noise.make_filter(self.step)

    def ekf(self) -> ExtendedKalmanFilter:
        """The filter with the job's noise."""
        if self.noise is None:
            raise ModelError(f"job {self.name!r} has no table [noise], and a filter needs it")
        return self.noise.ekf(self.step)
