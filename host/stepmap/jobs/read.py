"""From a job file to the task it describes, by its kind."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepmap.errors import JobError, ModelError, ShapeError
from stepmap.jobs import identified, kinds
from stepmap.jobs.parts import RESERVED
from stepmap.jobs.task import Job
from stepmap.jobs.weights import read_filter
from stepmap.text import printable
from stepmap.toml.tables import Table, read

__all__ = ["RESERVED", "load", "parse"]


def load(path: str | os.PathLike[str]) -> Job:
    """The job that a file describes. Raises JobError, with file and line, at the first thing that is wrong."""
    if Path(path).is_dir():
        raise JobError("is a folder, and not a job file", file=str(path), hint="Name the job file (TOML) itself.")
    name = job_name(Path(path))
    return parse(read(Path(path)), name)


def job_name(path: Path) -> str:
    """The name of the job in a file: the file's, without its ending. Raises JobError where it cannot be a folder's."""
    return require_name(path.stem, str(path))


def require_name(name: str, file: str) -> str:
    """The name, where it can be that of a folder in the build folder; raises JobError where it cannot."""
    if not name or name.startswith(".") or set(name) & set("/\\") or printable(name) != name:
        raise JobError(
            f"{name!r} cannot be the name of a job",
            file=file,
            cause="A job and its build folder have the name of the job file, and this one begins with a dot or holds a "
            "character that a folder's name may not have.",
            hint="Rename the file.",
        )
    return name


def parse(root: Table, name: str) -> Job:
    """The job of a document's outermost table; as `load`."""
    root, files = identified.merged(root)
    job = kinds.reader(root)(root, name)
    if files:
        made: Any = job
        job = replace(made, files={**job.files, **files})
    return job if "filter" not in root else _with_filter(root, job)


def _with_filter(root: Table, job: Job) -> Job:
    """The job with the filter of its table [filter]."""
    made: Any = job
    noise = read_filter(root, job.noise)
    try:
        found: Job = replace(made, noise=noise)
        noise.make_filter(found.step)  # its options make sense
    except (ModelError, ShapeError) as error:
        raise root.table("filter").error(str(error), hint=error.hint) from None
    return found
