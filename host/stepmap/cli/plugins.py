"""Commands of other packages, found by entry points of the group ``stepmap.commands``.

An entry point loads to a typer.Typer or to a function; its name is the command's. It is loaded when it is called or
listed, not before, and one that is broken costs a warning and nothing else.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer

from stepmap.cli.output import complain
from stepmap.errors import StepmapError

GROUP = "stepmap.commands"
OWN = ("stepmap_codegen", "stepmap_hil")


class BrokenCommandError(StepmapError):
    """A command of another package that cannot be loaded."""


def names() -> list[str]:
    """Names of all commands that other packages offer."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def command(name: str) -> Any:
    """The command of that name, or None where there is none or it is broken; the latter after a warning."""
    try:
        return _find(name)
    except BrokenCommandError as error:
        complain(str(error), kind="warning")
        return None


def of_stepmap(name: str) -> bool:
    """Whether a command is one of stepmap's own packages."""
    entry = _entry(name)
    return entry is not None and entry.module.partition(".")[0] in OWN


def is_function(name: str) -> bool:
    """Whether a command is made from a function, whose docstring is plain text."""
    entry = _entry(name)
    return entry is not None and not isinstance(entry.load(), typer.Typer)


def require(name: str) -> None:
    """Raises BrokenCommandError where the command exists and cannot be loaded."""
    _find(name)


@cache
def _find(name: str) -> Any:
    entry = _entry(name)
    return None if entry is None else _load(entry)


def _entry(name: str) -> EntryPoint | None:
    return next((entry for entry in entry_points(group=GROUP) if entry.name == name), None)


def _load(entry: EntryPoint) -> Any:
    try:
        loaded = entry.load()
        if isinstance(loaded, typer.Typer):
            made = typer.main.get_command(loaded)
        elif callable(loaded):
            app = typer.Typer(add_completion=False)
            app.command(entry.name)(loaded)
            made = typer.main.get_command(app)
        else:
            raise TypeError(f"expected a typer.Typer or a function, got {type(loaded).__name__}")
    except (Exception, SystemExit) as error:  # whatever another package does while it is imported
        owner = f" of {entry.dist.name}" if entry.dist is not None else ""
        raise BrokenCommandError(
            f"command {entry.name!r}{owner} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}; "
            "reinstall that package or remove it"
        ) from error
    made.name = entry.name
    return made
