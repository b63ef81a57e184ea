"""Kinds of jobs, found by entry points of the group ``stepmap.jobs``.

An entry point's name is the kind; it loads to a function ``read(root: Table, name: str) -> Job``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TypeAlias, cast

from stepmap.jobs import track
from stepmap.jobs.stage import digest, digest_sources
from stepmap.jobs.task import Job
from stepmap.toml.tables import Table, nearest

Reader: TypeAlias = Callable[[Table, str], Job]

GROUP = "stepmap.jobs"
DEFAULT = "track"
OWN: dict[str, Reader] = {DEFAULT: track.read}  # come first: no other package replaces them


def names() -> list[str]:
    """The kinds that are installed."""
    return sorted({*OWN, *(entry.name for entry in entry_points(group=GROUP))})


def reader(root: Table) -> Reader:
    """The function that reads a job of the kind that its table [job] names."""
    table = root.table("job")
    table.only(("kind",))
    kind = table.text("kind") if "kind" in table else DEFAULT
    if kind in OWN:
        return OWN[kind]
    entry = _entry(kind)
    if entry is None:
        raise table.error(f"no job kind is called {kind!r}", "kind", hint=nearest(kind, names()))
    try:
        loaded = entry.load()
        if not callable(loaded):
            raise TypeError(f"expected a function, got {type(loaded).__name__}")
    except (Exception, SystemExit) as error:  # whatever another package does while it is imported
        owner = f" of {entry.dist.name}" if entry.dist is not None else ""
        raise table.error(
            f"job kind {kind!r}{owner} ({entry.value}) cannot be loaded",
            "kind",
            cause=f"{type(error).__name__}: {error}",
            hint="Reinstall that package, or remove it.",
        ) from error
    return cast(Reader, loaded)


def source_digest(kind: str) -> str | None:
    """Digest of the sources that read and solve a kind; None for those of stepmap, whose own are digested anyway."""
    entry = None if kind in OWN else _entry(kind)
    return None if entry is None else entry_digest(entry)


def entry_digest(entry: EntryPoint) -> str | None:
    """Digest of the sources of the package that an entry point comes from."""
    package = entry.module.partition(".")[0]
    module = import_module(package)
    if hasattr(module, "__path__"):
        return digest_sources(package, ["."])
    return digest(Path(module.__file__).read_bytes()) if module.__file__ is not None else None


def _entry(kind: str) -> EntryPoint | None:
    return next(iter(entry_points(group=GROUP, name=kind)), None)
