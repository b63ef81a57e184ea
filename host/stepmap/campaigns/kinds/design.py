"""Kind "design": the cost of the optimum over parameters of the mechanism, or of anything else in the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from stepmap.campaigns.columns import Column, Row, Value
from stepmap.campaigns.kinds import solved
from stepmap.campaigns.study import Base, Job, each, require_key
from stepmap.campaigns.tables import read_varied
from stepmap.campaigns.varied import Trial, Varied
from stepmap.errors import StepmapError
from stepmap.jobs import Outcome
from stepmap.jobs.direct.job import DirectJob
from stepmap.toml.tables import Table


@dataclass(frozen=True, eq=False)
class DesignStudy:
    """The optimum of each design; of several ``starts`` of jobs of kind "direct" the best counts."""

    base: Base
    names: tuple[str, ...]
    starts: int

    chunk = 1
    preload = ("stepmap.campaigns.kinds.design",)

    @cached_property
    def job(self) -> Job:
        return self.base.job({})

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (*solved.columns(self.job), Column("start", "which start led there", type="whole"))

    def inputs(self) -> dict[str, str]:
        return {}

    def check(self, name: str, value: Value) -> None:
        require_key(self.base, name, value, list(self.base.root))

    def prepared(self, varied: Varied, build: Path) -> DesignStudy:
        self.base.job(varied.trial(0).values).build()
        return self

    def run(self, trials: Sequence[Trial]) -> list[Row]:
        return each(trials, self._one)

    def tells(self, columns: Mapping[str, Any]) -> list[tuple[str, str]]:
        return solved.best(columns, self.names)[:1]

    def _one(self, trial: Trial) -> Row:
        job = self.base.job(trial.values)
        found: list[Row] = []
        failure: StepmapError | None = None
        for start in range(self.starts):
            try:
                found.append({**solved.row(job, self._solved(job, start)), "start": start})
            except StepmapError as error:
                failure = failure or error
        if not found:
            assert failure is not None
            raise failure
        return min(found, key=lambda row: float(row["cost"]))

    def _solved(self, job: Job, start: int) -> Outcome:
        return job.from_start(start) if start and isinstance(job, DirectJob) else job.solve()


def read(root: Table, base: Base) -> DesignStudy:
    """A study of designs with the table [design] of the campaign."""
    table = root.table("design")
    table.only(("starts",))
    starts = table.whole("starts", 1)
    if not 1 <= starts <= 1000:
        raise table.error(f"must be 1 to 1000 starts, got {starts}", "starts")
    if starts > 1 and not isinstance(base.job({}), DirectJob):
        raise table.error("only jobs of kind 'direct' have several starts", "starts", hint="Leave it out.")
    varied = read_varied(root)
    campaign = root.table("campaign")
    if not varied.names:
        raise root.error("a study of designs needs something that varies", hint="Give [grid], [together] or [random].")
    if varied.draws > 1 and not varied.random:
        raise campaign.error("all trials of a design would be the same", "trials", hint="Leave it out: one is enough.")
    return DesignStudy(base, varied.names, starts)
