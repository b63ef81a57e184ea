"""What a kind of campaign is to the rest: it makes trials of one chunk at a time, wherever a worker is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, Self

from stepmap import jobs
from stepmap.campaigns.columns import OK, REASON, Column, Row, Value
from stepmap.campaigns.varied import Trial, Varied
from stepmap.errors import StepmapError, ToolchainError
from stepmap.jobs import Job
from stepmap.jobs.parts import RESERVED
from stepmap.toml.tables import Table

__all__ = ["Base", "Job", "Study", "each", "failed"]


@dataclass(frozen=True, eq=False)
class Base:
    """The job of a campaign as its file says it, to be read anew with other values, here or on another computer."""

    root: Table
    name: str
    files: Mapping[str, bytes] = field(default_factory=dict)  # contents of the files it names

    @classmethod
    def load(cls, path: Path) -> Base:
        """That of a job file; raises JobError at the first thing that is wrong."""
        job = jobs.load(path)
        root = replace(job.root, lines=dict(job.root.lines), known=dict(job.files))
        return cls(root, job.name, dict(job.files))

    def with_values(self, values: Mapping[str, Value]) -> Table:
        """The outermost table with values in place of its own, by keys with dots."""
        entries = deepcopy(dict(self.root.entries))
        for name, value in values.items():
            *parents, last = name.split(".")
            at: dict[str, Any] = entries
            for place in parents:
                inner = at.setdefault(place, {})
                if not isinstance(inner, dict):
                    raise self.root.error(f"{name!r} is within {place!r}, which is no table", *parents)
                at = inner
            at[last] = value
        return replace(self.root, entries=entries)

    def job(self, values: Mapping[str, Value]) -> Job:
        """The job with these values, read and checked."""
        return _parsed(self, tuple(sorted(values.items(), key=lambda pair: pair[0])))

    def parsed(self, values: tuple[tuple[str, Value], ...]) -> Job:
        return jobs.parse(self.with_values(dict(values)), self.name)


@lru_cache(maxsize=16)
def _parsed(base: Base, values: tuple[tuple[str, Value], ...]) -> Job:
    """Jobs of the last points: trials of one point follow each other."""
    return base.parsed(values)


class Study(Protocol):
    """A campaign of one kind, as plain data that go to workers as a pickle.

    ``chunk`` is how many trials go together where the file does not say; ``preload`` names modules that workers import
    while they start.
    """

    @property
    def chunk(self) -> int: ...
    @property
    def preload(self) -> tuple[str, ...]: ...
    @property
    def columns(self) -> tuple[Column, ...]:
        """What a trial comes to, in the order of the table."""

    def inputs(self) -> dict[str, str]:
        """Digests of what decides the results, besides the tables of campaign and job, the job's files and stepmap."""

    def check(self, name: str, value: Value) -> None:
        """Raises ModelError where a parameter of that name, or with that value, means nothing to this kind."""

    def prepared(self, varied: Varied, build: Path) -> Self:
        """With all that is made once, before any trial: plans, libraries, a firmware."""

    def run(self, trials: Sequence[Trial]) -> list[Row]:
        """What trials came to, in their order."""

    def tells(self, columns: Mapping[str, Any]) -> list[tuple[str, str]]:
        """(name, value) of what the campaign says as a whole, from columns of the trials that went through."""


Fatal = (OSError, MemoryError, ToolchainError)
"""What is wrong with a computer, and not with a trial: the campaign ends, and goes on when that is mended."""


def failed(error: Exception) -> Row:
    """The row of a trial that could not be made; raises again what is no fault of the trial."""
    if isinstance(error, Fatal) and not isinstance(error, StepmapError):
        raise error
    if isinstance(error, ToolchainError):
        raise error
    said = str(error).strip().partition("\n")[0]
    return {OK: False, REASON: said if isinstance(error, StepmapError) else f"{type(error).__name__}: {said}"}


def each(trials: Sequence[Trial], make: Callable[[Trial], Row]) -> list[Row]:
    """Trials made one by one; one that fails is a row with its reason."""
    rows: list[Row] = []
    for trial in trials:
        try:
            rows.append({OK: True, REASON: None, **make(trial)})
        except Exception as error:
            rows.append(failed(error))
    return rows


def job_values(values: Mapping[str, Value], *apart: str) -> dict[str, Value]:
    """Values that are keys of the job: those whose first part is not one of ``apart``."""
    return {name: value for name, value in values.items() if name.partition(".")[0] not in apart}


def require_key(base: Base, name: str, value: Value, allowed: Sequence[str]) -> None:
    """Raises ModelError, or the job's own error, where a value does not make a job."""
    from stepmap.errors import ModelError
    from stepmap.text import nearest

    first = name.partition(".")[0]
    if first not in allowed:
        raise ModelError(f"this kind of campaign does not vary {name!r}", hint=nearest(first, list(allowed)))
    if first not in RESERVED:
        base.parsed(((name, value),))
