"""A job of kind "gait", and what its stage writes besides what all jobs do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.estimate import ExtendedKalmanFilter, Filter
from stepmap.jobs.gaits.board import GaitOnBoard
from stepmap.jobs.weights import Noise
from stepmap.mechanics import System
from stepmap.optimal import Iteration, Plan
from stepmap.optimal.direct import DirectSolution, direct
from stepmap.optimal.direct.task import Task
from stepmap.optimal.gaits.hold import stride, transport
from stepmap.optimal.goals.verdict import Finding, Verdict
from stepmap.optimal.projection import Monitor
from stepmap.steps import Trajectory, VariationalStep, discretize
from stepmap.toml.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class GaitJob:
    """A gait as its file asks for it, checked."""

    kind: ClassVar[str] = "gait"
    name: str
    wanted: Task
    options: Mapping[str, Any]
    pose: Array
    noise: Noise | None
    root: Table
    files: Mapping[str, bytes]

    @property
    def system(self) -> System:
        return self.wanted.system

    @property
    def document(self) -> Mapping[str, Any]:
        return self.root.entries

    @property
    def steps(self) -> int:
        return sum(phase.steps for phase in self.wanted.all_phases)

    @property
    def dt(self) -> float:
        """Of the first phase; of one whose time is found, of the middle of its range."""
        first = self.wanted.all_phases[0]
        return sum(first.range) / 2 / first.steps

    @cached_property
    def step(self) -> VariationalStep:
        return discretize(self.system, self.dt, contacts=self.wanted.all_phases[0].closed)

    @cached_property
    def for_board(self) -> GaitOnBoard:
        """The same as later stages see it; raises where no board could walk it."""
        return GaitOnBoard(self)

    def build(self) -> None:
        """Compiles the map of the first phase."""
        _ = self.step

    def solve(self, monitor: Monitor | None = None, guess: Trajectory | None = None) -> DirectSolution:
        """The best gait found."""
        nowhere = Trajectory(np.zeros(1), np.zeros((1, self.step.nx)), np.zeros((0, self.step.nu)))
        count = 0

        def told(iteration: Iteration) -> None:
            nonlocal count
            if monitor is not None:
                monitor(count, iteration, nowhere)
            count += 1

        options = {**self.options, "guess": guess}
        return direct(self.system, monitor=told, **options)

    def filter(self) -> Filter[Any]:
        """The filter that [noise] or [filter] names, with the job's noise."""
        if self.noise is None:
            raise ModelError(f"job {self.name!r} has no table [noise]", hint="Add it: a filter needs the noise.")
        return self.noise.make_filter(self.step)

    def ekf(self) -> ExtendedKalmanFilter:
        """The filter of the stance phase with the job's noise."""
        if self.noise is None:
            raise ModelError(f"job {self.name!r} has no table [noise]", hint="Add it: a filter needs the noise.")
        return self.noise.ekf(self.step)

    # what its stage writes ----------------------------------------------------------------------------------------

    def told(self, solution: DirectSolution) -> dict[str, Any]:
        """Entries of summary.json beside those of every job."""
        return {
            "transport": transport(solution.cycle),
            "stride": stride(solution.cycle),
            "multiplier": _largest(solution),
            "parameters": {p.name: p.value for p in solution.system.parameters},
            "design": dict(solution.design),
            "time": solution.time,
            "starts": [{"cost": a.cost, "time": a.time, "status": a.status.name.lower()} for a in solution.starts],
            "spread": solution.spread if np.isfinite(solution.spread) else None,
        }

    def judged(self, solution: DirectSolution) -> Verdict:
        """Whether the gait will be walked, as far as its numbers tell."""
        largest, eta = _largest(solution), transport(solution.cycle)
        remedy = "Ask for a landing with speed in [landing], or other weights."
        told = "no gains hold it" if largest is None else f"{largest:.3g} of a deviation is left after a period"
        findings = [Finding("held", told, largest is not None and largest < 1, remedy)]
        least = _least_normal(solution)
        if least is not None:
            findings.append(Finding("ground", f"pushes with {least:.3g} N or more", least >= -1e-6, "Search again."))
        if eta is not None:
            findings.append(Finding("transport", f"{eta:.3g} J per J of weight times distance"))
        return Verdict(tuple(findings))

    def drawn(self, solution: DirectSolution) -> dict[str, Figure]:
        """Pictures by name."""
        from stepmap.plots import gaits  # matplotlib takes longer to load than most jobs take to solve

        return gaits.figures(solution.cycle, solution.trajectory, self.wanted.bounds.u, self.wanted.friction)

    def animated(self, solution: DirectSolution) -> dict[str, bytes]:
        """Moving pictures by the names of their files."""
        from stepmap.plots import gaits

        return {"walk.gif": gaits.animation(solution.cycle)}


def _largest(solution: DirectSolution) -> float | None:
    try:
        plan: Plan = solution.plan
    except (ConvergenceError, ModelError):
        return None
    values = np.abs(getattr(plan, "floquet", np.zeros(0)))
    return float(values.max()) if len(values) and np.isfinite(values).all() else None


def _least_normal(solution: DirectSolution) -> float | None:
    names = solution.system.constraint_names
    rows = [names.index(name) for phase in solution.task.all_phases for name in phase.closed]
    return float(solution.multipliers[:, rows].min()) if rows and len(solution.task.all_phases) == 1 else None
