"""Commands, found by name: those of the host, then entry points of the group ``stepmap.commands``.

An entry point loads to a typer.Typer or to a function; its name is the command's. It is loaded when it is called, or
listed by another package, not before, and one that is broken costs a warning and nothing else.
"""

from __future__ import annotations

import ast
import inspect
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from stepmap.cli.output import complain
from stepmap.errors import StepmapError

GROUP = "stepmap.commands"
OWN = ("stepmap", "stepmap_codegen", "stepmap_hil")
HOST = {
    name: EntryPoint(name, f"stepmap.cli.commands.{module}:{name}", GROUP)
    for name, module in (
        ("new", "new"),
        ("systems", "catalog"),
        ("simulate", "simulate"),
        ("optimize", "optimize"),
        ("campaign", "campaign"),
        ("figure", "figure"),
        ("demo", "demo"),
        ("doctor", "doctor"),
    )
}


class BrokenCommandError(StepmapError):
    """A command of another package that cannot be loaded."""


def names() -> list[str]:
    """Names of all commands."""
    return sorted({*HOST, *_installed()})


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


def summary(name: str) -> str | None:
    """The docstring of one of stepmap's own commands, read from its source: imports of all would take a second."""
    entry = _entry(name)
    return _docstring(entry.module, entry.attr) if entry is not None and of_stepmap(name) else None


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


@cache
def _installed() -> dict[str, EntryPoint]:
    """Entry points by name; of several with one name the first that is found counts."""
    return {entry.name: entry for entry in reversed(tuple(entry_points(group=GROUP)))}


def _entry(name: str) -> EntryPoint | None:
    return HOST.get(name) or _installed().get(name)


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


def _docstring(module: str, function: str) -> str | None:
    """That of a function in a module, or in the one that this imports it from; None where there is none."""
    source = _source(module)
    body = [] if source is None else ast.parse(source.read_text(encoding="utf-8")).body
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return inspect.cleandoc(ast.get_docstring(node) or "")
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module and function in {alias.name for alias in node.names}:
            return _docstring(node.module, function)
    return None


def _source(module: str) -> Path | None:
    """The file of a module, found without importing the packages around it."""
    top, *inner = module.split(".")
    spec = find_spec(top)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder, *inner)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return file
    return None
