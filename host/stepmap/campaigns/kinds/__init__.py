"""Kinds of campaigns, found by entry points of the group ``stepmap.campaigns``.

An entry point's name is the kind; it loads to a function ``read(root: Table, base: Base) -> Study``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias

from stepmap.campaigns.study import Base, Study
from stepmap.errors import ModelError
from stepmap.jobs.kinds import entry_digest
from stepmap.registry import Registry
from stepmap.toml.tables import Table

Reader: TypeAlias = Callable[[Table, Base], Study]

OWN = ("design", "filter", "search")


def _load(name: str) -> Reader:
    read: Reader = import_module(f"stepmap.campaigns.kinds.{name}").read
    return read


KINDS = Registry[Reader]("stepmap.campaigns", "kind of campaign", lambda: OWN, _load)


def reader(table: Table) -> Reader:
    """The function that reads campaigns of the kind that [campaign] names."""
    table.need("kind", f"There are {', '.join(KINDS.names())}.")
    try:
        return KINDS.get(table.text("kind"))
    except ModelError as error:
        raise table.error(str(error), "kind", cause=error.cause, hint=error.hint) from error


def source_digest(kind: str) -> str | None:
    """Digest of the sources of a kind of another package; None for those of stepmap, which are digested anyway."""
    entry = KINDS.added(kind)
    return None if entry is None else entry_digest(entry)
