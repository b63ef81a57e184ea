"""From a campaign file to the campaign it describes."""

from __future__ import annotations

import os
from pathlib import Path

from stepmap.campaigns import kinds
from stepmap.campaigns.campaign import Campaign
from stepmap.campaigns.study import Base, Study
from stepmap.campaigns.tables import MOST, place_of, read_varied
from stepmap.campaigns.varied import Varied
from stepmap.errors import JobError, StepmapError
from stepmap.jobs.read import job_name
from stepmap.toml.tables import Table, read

TABLES = ("campaign", "grid", "together", "random")
KEYS = ("kind", "job", "trials", "seed", "chunk")


def load(path: str | os.PathLike[str]) -> Campaign:
    """The campaign that a file describes. Raises JobError, with file and line, at the first thing that is wrong."""
    path = Path(path)
    if path.is_dir():
        raise JobError("is a folder, and not a campaign file", file=str(path), hint="Name the file (TOML) itself.")
    name, root = job_name(path), read(path)
    if "campaign" not in root:
        raise root.error("the table [campaign] is missing", hint="docs/campaigns.md has campaigns to copy.")
    table = root.table("campaign")
    table.only(KEYS)
    kind_reader = kinds.reader(table)
    kind = table.text("kind")
    root.only((*TABLES, kind), "table")
    varied = read_varied(root)
    base = _base(path, table)
    study = kind_reader(root, base)
    _check(root, study, varied)
    chunk = table.whole("chunk", study.chunk)
    if not 1 <= chunk <= MOST:
        raise table.error(f"must be at least 1 trial, got {chunk}", "chunk")
    _require_apart(root, study, varied)
    return Campaign(name, kind, root, base, study, varied, chunk)


def _base(path: Path, table: Table) -> Base:
    table.need("job", 'Name the job file, such as job = "suspended_mass.toml".')
    job = path.parent / table.text("job")
    if not job.is_file():
        raise table.error(f"there is no file {job}", "job", hint="Its name is relative to the campaign file.")
    return Base.load(job)


def _check(root: Table, study: Study, varied: Varied) -> None:
    """Raises at the place of a parameter that the kind, or the job, does not take."""
    for name, value in varied.samples():
        try:
            study.check(name, value)
        except StepmapError as error:
            if not isinstance(error, ValueError):
                raise
            table, key = place_of(root, name)
            raise table.error(f"{name} = {value!r}: {error}", key, cause=error.cause, hint=error.hint) from None


def _require_apart(root: Table, study: Study, varied: Varied) -> None:
    """Raises where a parameter has the name of a column of results."""
    taken = {c.name for c in study.columns} | {"trial", "point", "draw", "seed", "ok", "reason"}
    for name in varied.names:
        if name in taken:
            table, key = place_of(root, name)
            raise table.error(f"{name!r} is a column of the table already", key)
