"""Kinds of jobs, found by entry points of the group ``stepmap.jobs``.

An entry point's name is the kind; it loads to a function ``read(root: Table, name: str) -> Job``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TypeAlias

from stepmap.errors import ModelError
from stepmap.jobs import design, direct, imitate, plans, script, track
from stepmap.jobs.gaits import read as gait
from stepmap.jobs.stage import digest, digest_sources
from stepmap.jobs.task import Job
from stepmap.registry import Registry
from stepmap.toml.tables import Table

Reader: TypeAlias = Callable[[Table, str], Job]

DEFAULT = "track"
OWN: dict[str, Reader] = {
    DEFAULT: track.read,
    "design": design.read,
    "direct": direct.read,
    "gait": gait.read,
    "imitate": imitate.read,
    "plan": plans.read,
    "script": script.read,
}
KINDS = Registry[Reader].of("stepmap.jobs", "job kind", OWN)

names = KINDS.names


def reader(root: Table) -> Reader:
    """The function that reads a job of the kind that its table [job] names."""
    table = root.table("job")
    table.only(("kind",))
    try:
        return KINDS.get(table.text("kind") if "kind" in table else DEFAULT)
    except ModelError as error:
        raise table.error(str(error), "kind", cause=error.cause, hint=error.hint) from error


def source_digest(kind: str) -> str | None:
    """Digest of the sources that read and solve a kind; None for those of stepmap, whose own are digested anyway."""
    entry = KINDS.added(kind)
    return None if entry is None else entry_digest(entry)


def entry_digest(entry: EntryPoint) -> str | None:
    """Digest of the sources of the package that an entry point comes from."""
    package = entry.module.partition(".")[0]
    module = import_module(package)
    if hasattr(module, "__path__"):
        return digest_sources(package, ["."])
    return digest(Path(module.__file__).read_bytes()) if module.__file__ is not None else None
