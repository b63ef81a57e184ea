"""From a job file to the task it describes, by its kind."""

from __future__ import annotations

import os
from pathlib import Path

from stepmap.errors import JobError
from stepmap.jobs import kinds
from stepmap.jobs.parts import RESERVED
from stepmap.jobs.task import Job
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
    return kinds.reader(root)(root, name)
