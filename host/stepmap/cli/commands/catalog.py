"""``stepmap systems``: what the catalog holds."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from stepmap import systems as catalog
from stepmap.cli.output import complain, console, grid
from stepmap.errors import StepmapError


def systems(
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the systems of the catalog with their sizes and arguments."""
    entries, notes = [], []
    for name in catalog.names():
        try:
            entries.append(describe(name))
        except (Exception, SystemExit) as error:  # whatever another package does; the others are listed all the same
            if catalog.is_own(name):
                raise
            said = f"{type(error).__name__}: {error}"
            if isinstance(error, StepmapError):
                said = ": ".join(filter(None, (str(error), error.cause)))
            notes.append(f"system {name!r} is not listed: {said}")
    if json_:
        typer.echo(json.dumps(entries, indent=2, ensure_ascii=False))
    else:
        _print(entries)
    for note in notes:
        complain(note, kind="note")


def _print(entries: Sequence[dict[str, Any]]) -> None:
    headings = ("system", "dynamic", "kinematic", "inputs", "constraints", "what it is, and --set arguments")
    console().print(grid(headings, [_row(entry) for entry in entries]))


def describe(name: str) -> dict[str, Any]:
    """A system of the catalog as plain data."""
    make = catalog.maker(name)
    system = make()
    units = {p.name: p.unit for p in system.parameters}
    parameters = inspect.signature(make).parameters
    return {
        "name": name,
        "description": _first_line(inspect.getmodule(make).__doc__ or make.__doc__ or ""),
        "dynamic": [c.name for c in system.dynamic],
        "kinematic": [c.name for c in system.kinematic],
        "inputs": [i.name for i in system.inputs],
        "constraints": list(system.constraint_names),
        "arguments": [
            {"name": p.name, "default": p.default, "unit": units.get(p.name, "")} for p in parameters.values()
        ],
        "example": dict(catalog.example(name)),
    }


def _row(entry: dict[str, Any]) -> tuple[str | Text, ...]:
    sizes = (str(len(entry[part])) for part in ("dynamic", "kinematic", "inputs", "constraints"))
    arguments = ", ".join(f"{a['name']}={a['default']} {a['unit']}".strip() for a in entry["arguments"])
    return entry["name"], *sizes, Text.assemble(f"{entry['description']}\n", (arguments, "dim"), "\n")


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""
