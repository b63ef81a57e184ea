"""A job of kind "design", and what its stage writes besides what those of gaits do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepmap.errors import ModelError
from stepmap.jobs.gaits.job import GaitJob
from stepmap.optimal import Iteration
from stepmap.optimal.design import DesignStudy, Surrogate, design_study
from stepmap.optimal.goals.verdict import Finding, Verdict
from stepmap.optimal.projection import Monitor
from stepmap.steps import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class DesignJob(GaitJob):
    """A gait whose mechanism is designed."""

    kind: ClassVar[str] = "design"
    how: Surrogate

    def solve(self, monitor: Monitor | None = None, guess: Trajectory | None = None) -> DesignStudy:  # type: ignore[override]
        """The study; each inner solve is told as one iteration."""
        if guess is not None:
            raise ModelError("a design study begins anew: its samples are not kept; run it without --resume")
        nowhere = Trajectory(np.zeros(1), np.zeros((1, self.step.nx)), np.zeros((0, self.step.nu)))
        count = iter(range(10**9))

        def told(iteration: Iteration) -> None:
            if monitor is not None:
                monitor(next(count), iteration, nowhere)

        options: dict[str, Any] = dict(self.options)
        return design_study(self.system, surrogate=self.how, monitor=told, **options)

    # what its stage writes ----------------------------------------------------------------------------------------

    def told(self, solution: DesignStudy) -> dict[str, Any]:  # type: ignore[override]
        """Entries of summary.json beside those of a gait."""
        return {**super().told(solution.solution), "study": solution.told}

    def judged(self, solution: DesignStudy) -> Verdict:  # type: ignore[override]
        """The gait of the best design, and whether it is better than its own by more than the inner solves scatter."""
        gait = super().judged(solution.solution).findings
        return Verdict((*gait, Finding("design", solution.verdict, solution.resolved)))

    def drawn(self, solution: DesignStudy) -> dict[str, Figure]:  # type: ignore[override]
        """Pictures by name."""
        from stepmap.plots import design

        return {**super().drawn(solution.solution), "design": design.samples(solution)}

    def animated(self, solution: DesignStudy) -> dict[str, bytes]:  # type: ignore[override]
        """Moving pictures by the names of their files."""
        return super().animated(solution.solution)

    def rows(self, solution: DesignStudy) -> Sequence[tuple[str, str]]:
        """Key figures on the screen: both searches side by side."""
        return solution.rows()
