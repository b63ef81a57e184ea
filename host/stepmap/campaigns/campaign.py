"""A campaign: a study, what varies in it, and where its table is made."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stepmap
from stepmap.campaigns import kinds
from stepmap.campaigns.cluster import ClusterWorkers
from stepmap.campaigns.columns import Row
from stepmap.campaigns.dispatch import Chunk, Dispatch
from stepmap.campaigns.folder import Folder
from stepmap.campaigns.study import Base, Study
from stepmap.campaigns.varied import Varied
from stepmap.campaigns.work import Done
from stepmap.campaigns.workers import GivenWorkers, LocalWorkers, Workers, usual_count
from stepmap.errors import ModelError
from stepmap.extras import require
from stepmap.jobs.stage import digest, digest_data, digest_sources, versions
from stepmap.jobs.system import source_of
from stepmap.toml.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

SOURCES = ("arrays.py", "campaigns", "estimate", "formula.py", "geometry", "graph", "jobs", "mechanics", "mocap",
           "optimal", "steps", "systems", "toml", "walking")  # fmt: skip
NEEDS = "pyarrow"

Watch = Callable[[int, int, float], None]
"""Told after every chunk: trials that are done, how many of those in this session, CPU seconds of the workers."""


@dataclass(frozen=True)
class Finished:
    """Where a campaign is, and what came of it."""

    folder: Folder
    fresh: int  # trials that were made in this session
    lost_workers: int = 0

    @property
    def table(self) -> pa.Table:
        """All trials."""
        import pyarrow.parquet as pq

        return pq.read_table(self.folder.table)


@dataclass(frozen=True, eq=False)
class Campaign:
    """A campaign as its file says it, checked; nothing is compiled or solved before ``run``."""

    name: str
    kind: str
    root: Table
    base: Base
    study: Study
    varied: Varied
    chunk: int

    def __len__(self) -> int:
        return len(self.varied)

    @cached_property
    def about(self) -> dict[str, Any]:
        """What the manifest says from the beginning on: inputs with their digests, versions, columns."""
        inputs = {
            "campaign": digest_data(self.root.entries),
            "job": digest_data(self.base.root.entries),
            **{f"file {name}": digest(content) for name, content in self.base.files.items()},
            **self.study.inputs(),
            "stepmap": digest_sources("stepmap", SOURCES),
        }
        foreign, added = kinds.source_digest(self.kind), source_of(self.base.job({})).content()
        inputs |= {} if foreign is None else {"kind": foreign}
        inputs |= {} if added is None else {"system": digest(added)}
        used = {"stepmap": stepmap.__version__, **versions("casadi", "numpy", "pyarrow")}
        columns = [{"name": c.name, "unit": c.unit, "about": c.about} for c in self.study.columns]
        return {
            "campaign": self.name,
            "kind": self.kind,
            "job": self.base.name,
            "seed": self.varied.seed,
            "trials": len(self.varied),
            "points": len(self.varied.points),
            "chunk": self.chunk,
            "varied": list(self.varied.names),
            "columns": columns,
            "digest": digest_data({"inputs": inputs, "versions": used}),
            "inputs": inputs,
            "versions": used,
        }

    @property
    def chunks(self) -> list[Chunk]:
        """Trials that go to a worker together."""
        total = len(self.varied)
        return [(first, min(first + self.chunk, total)) for first in range(0, total, self.chunk)]

    def folder(self, build: Path) -> Folder:
        return Folder.of(build, self.name, self.about)

    def trial(self, number: int, build: Path | str = "build") -> Row:
        """The row of one trial, made here."""
        if not 0 <= number < len(self.varied):
            raise ModelError(f"trial: there are 0 to {len(self.varied) - 1}, got {number}")
        (row,) = self.study.prepared(self.varied, Path(build)).run([self.varied.trial(number)])
        return row

    def run(
        self,
        executor: Executor | None = None,
        *,
        build: Path | str = "build",
        jobs: int | None = None,
        scheduler: str | None = None,
        watch: Watch | None = None,
        stage: Callable[[str], None] = lambda text: None,
    ) -> Finished:
        """All trials that are not there yet, and the table of all of them.

        They are made by an ``executor`` of ``concurrent.futures``, by workers of a Dask ``scheduler``, or by so many
        processes of this computer. ``stage`` is told what begins.
        """
        require("campaign", "a campaign", NEEDS)
        if sum(given is not None for given in (executor, jobs, scheduler)) > 1:
            raise ModelError("give one of executor, jobs and scheduler: they are workers all three")
        folder = self.folder(Path(build))
        if folder.complete:
            return Finished(folder, 0)
        stage("looking for workers")
        workers = self._workers(executor, jobs, scheduler)
        try:
            folder.path.parent.mkdir(parents=True, exist_ok=True)
            with folder.alone():
                if folder.complete:
                    return Finished(folder, 0)
                folder.prepare()
                return self._session(folder, workers, Path(build), watch, stage)
        finally:
            workers.stop()

    def _workers(self, executor: Executor | None, jobs: int | None, scheduler: str | None) -> Workers:
        if scheduler is not None:
            return ClusterWorkers(scheduler)
        if executor is not None:
            return GivenWorkers(executor)
        if jobs is not None and jobs < 1:
            raise ModelError(f"jobs: expected at least 1 process, got {jobs}")
        return LocalWorkers(min(jobs or usual_count(), len(self.chunks)), self.study.preload)

    def _session(
        self, folder: Folder, workers: Workers, build: Path, watch: Watch | None, stage: Callable[[str], None]
    ) -> Finished:
        """Works on what is missing; tells of it in the folder's sessions, however it ends."""
        from stepmap.campaigns.parts import Parts

        parts = Parts.found(folder, self)
        missing = [chunk for chunk in self.chunks if chunk not in parts.known]
        begun, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
        fresh, cpu, ended = 0, 0.0, "cut off"
        dispatch = None

        def keep(chunk: Chunk, done: Done) -> None:
            nonlocal fresh, cpu
            parts.keep(chunk, done.rows)
            fresh, cpu = fresh + chunk[1] - chunk[0], cpu + done.cpu_s
            if watch is not None:
                watch(parts.trials, fresh, cpu)

        try:
            if missing:
                stage("preparing")
                pickled = pickle.dumps((self.study.prepared(self.varied, build), self.varied))
                dispatch = Dispatch(workers, pickled, keep)
                if watch is not None:
                    watch(parts.trials, 0, 0.0)
                dispatch.run(missing)
            stage("writing")
            parts.finish()
            ended = "done"
        finally:
            lost = 0 if dispatch is None else dispatch.lost_workers
            told = {"begun": begun, "wall_s": round(time.perf_counter() - clock, 3), "cpu_s": round(cpu, 3)}
            folder.note({**told, "trials": fresh, "workers": workers.name, "lost_workers": lost, "ended": ended})
        return Finished(folder, fresh, lost)


__all__ = ["Campaign", "Finished"]
