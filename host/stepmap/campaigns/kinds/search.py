"""Kind "search": one job from many starts, to see which optima there are and how often each is found.

Draw 0 begins as the job says, the others at motions under random inputs, table [search]. In jobs of kind "direct"
without that table every draw begins at the start of its number. What else varies are keys of the job, such as the seed
of a planner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from stepmap.arrays import Array
from stepmap.campaigns.columns import Column, Row, Value
from stepmap.campaigns.kinds import solved
from stepmap.campaigns.study import Base, Job, each, require_key
from stepmap.campaigns.tables import read_varied
from stepmap.campaigns.varied import Trial, Varied
from stepmap.jobs import Outcome
from stepmap.jobs.direct.job import DirectJob
from stepmap.jobs.weights import by_name, input_names
from stepmap.toml.tables import Table

KNOTS = 6


@dataclass(frozen=True, eq=False)
class SearchStudy:
    """Searches of a job; ``spread`` are standard deviations of random inputs, None where guesses are the job's own."""

    base: Base
    names: tuple[str, ...]  # that vary
    spread: Array | None
    knots: int
    by_number: bool  # each trial takes the start of its number, as jobs of kind "direct" have them

    chunk = 1
    preload = ("stepmap.campaigns.kinds.search",)

    @cached_property
    def job(self) -> Job:
        return self.base.job({})

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return solved.columns(self.job)

    def inputs(self) -> dict[str, str]:
        return {}

    def check(self, name: str, value: Value) -> None:
        require_key(self.base, name, value, list(self.base.root))

    def prepared(self, varied: Varied, build: Path) -> SearchStudy:
        self.base.job(varied.trial(0).values).build()  # so that workers find the libraries
        return self

    def run(self, trials: Sequence[Trial]) -> list[Row]:
        return each(trials, self._one)

    def tells(self, columns: Mapping[str, Any]) -> list[tuple[str, str]]:
        return solved.best(columns, self.names)

    def _one(self, trial: Trial) -> Row:
        job = self.base.job(trial.values)
        return solved.row(job, self._solved(job, trial))

    def _solved(self, job: Job, trial: Trial) -> Outcome:
        if self.by_number and isinstance(job, DirectJob):
            return job.from_start(trial.draw)
        if self.spread is None or trial.draw == 0:
            return job.solve()
        return job.solve(guess=solved.guess(job, self.spread, self.knots, trial.rng))


def read(root: Table, base: Base) -> SearchStudy:
    """Searches with the table [search] of the campaign."""
    table, varied = root.table("search"), read_varied(root)
    table.only(("inputs", "knots"))
    job = base.job({})
    knots = table.whole("knots", KNOTS)
    if not 2 <= knots <= 1000:
        raise table.error(f"must be 2 to 1000 places of the motion, got {knots}", "knots")
    spread = by_name(table.table("inputs"), input_names(job.system)) if "inputs" in table else None
    by_number = spread is None and isinstance(job, DirectJob) and varied.draws > 1
    if spread is None and not by_number and varied.draws > 1 and not varied.random:
        raise root.table("campaign").error(
            "all trials of a point would begin alike, and end alike",
            "trials",
            hint="Give [search.inputs], standard deviations of random inputs, or something in [random].",
        )
    return SearchStudy(base, varied.names, spread, knots, by_number)
