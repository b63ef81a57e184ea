"""All public names of ``import stepmap as sm`` by the package they come from, for mkdocstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import stepmap as sm

ROOMS = {
    "mechanics": "Mechanisms",
    "mechanics.symbols": "Functions of expressions",
    "descriptions": "Robots of others",
    "steps": "The one-step map",
    "optimal": "Optimal trajectories and gains",
    "optimal.terms": "Terms of a cost",
    "optimal.direct": "Motions that have to be found",
    "optimal.design": "Design of parameters",
    "optimal.switching_times": "Times to change",
    "optimal.planner": "From pose to pose",
    "optimal.grasps": "Grasps",
    "estimate": "Filters",
    "identification": "Identification",
    "geometry": "Shapes",
    "errors": "Errors",
}


def page() -> str:
    lines = [
        "# Python API",
        "",
        "```",
        "import stepmap as sm",
        "```",
        "",
        f"All {len(sm.__all__)} names of `sm`, by what they are for. A test compares them and their signatures with",
        "`tests/data/public_api.txt`, so none changes unnoticed.",
        "",
        "| | |",
        "|---|---|",
    ]
    rooms = sorted_names()
    for room, names in rooms.items():
        links = ", ".join(f"[`{name}`](#{anchor(name)})" for name in names)
        lines.append(f"| {ROOMS[room]} | {links} |")
    lines.append("| The catalog | [`systems`](#the-catalog) |")
    for room, names in rooms.items():
        lines += ["", f"## {ROOMS[room]}"]
        for name in names:
            lines += ["", f"::: {anchor(name)}"]
    return "\n".join([*lines, "", *catalog()]) + "\n"


def sorted_names() -> dict[str, list[str]]:
    """Names by the longest part of their module that has a title."""
    found: dict[str, list[str]] = {room: [] for room in ROOMS}
    for name in sm.__all__:
        thing = getattr(sm, name)
        if inspect.ismodule(thing):
            continue
        parts = thing.__module__.split(".")[1:]
        room = next(r for size in range(len(parts), 0, -1) if (r := ".".join(parts[:size])) in ROOMS)
        found[room].append(name)
    return {room: names for room, names in found.items() if names}


def anchor(name: str) -> str:
    thing = getattr(sm, name)
    return f"{thing.__module__}.{thing.__qualname__}"


def catalog() -> Iterator[str]:
    """The functions of sm.systems, and all systems with their arguments."""
    yield from ("## The catalog", "", "`sm.systems.names()` and `sm.systems.get(name, **arguments)`:", "")
    yield from ("| system | arguments | |", "|---|---|---|")
    for name in sm.systems.names():
        make = sm.systems.maker(name)
        arguments = ", ".join(f"`{p.name} = {p.default}`" for p in inspect.signature(make).parameters.values())
        told = (inspect.getdoc(make) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        yield f"| `{name}` | {arguments} | {told} |"
