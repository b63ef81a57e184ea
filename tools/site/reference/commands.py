"""All commands with their arguments and options, from the command line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from stepmap.cli import app
from stepmap.cli.help import OTHER, PANELS, choices, ordered, panel
from tools.site.reference.cells import cell


def page() -> str:
    root: Any = typer.main.get_command(app)
    context = root.make_context("stepmap", [], resilient_parsing=True)
    commands = {name: root.get_command(context, name) for name in ordered(root.list_commands(context))}
    lines = [
        "# Every command and option",
        "",
        "What `stepmap COMMAND --help` says, on one page. [cli.md](../cli.md) has formulas, files, exit codes and",
        "plug-ins.",
        "",
        "| | |",
        "|---|---|",
    ]
    panels: dict[str, list[str]] = {title: [] for title in (*PANELS, OTHER)}
    for name in commands:
        panels[panel(name, own=True)].append(name)
    for title, names in panels.items():
        if names:
            lines.append(f"| {title} | {', '.join(f'[`{name}`](#stepmap-{name})' for name in names)} |")
    for name, command in commands.items():
        lines += ["", *section(name, command)]
    return "\n".join(lines) + "\n"


def section(name: str, command: Any) -> Iterator[str]:
    """The text of a command, and a row per argument and option."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not getattr(p, "hidden", False)]
    usage = " ".join(metavar(p) if p.required else f"[{metavar(p)}]" for p in arguments)
    yield from (f"## stepmap {name}", "", "```", f"stepmap {name} [OPTIONS] {usage}".rstrip(), "```", "")
    yield from (prose(command.help), "")
    if command.params:
        yield from ("| | | |", "|---|---|---|")
    for parameter in arguments:
        yield f"| `{metavar(parameter)}` | | {told(parameter)} |"
    for parameter in options:
        names = ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))
        value = "" if getattr(parameter, "is_flag", False) else f"`{metavar(parameter)}`"
        yield f"| {names} | {value} | {told(parameter)} |"


def metavar(parameter: Any) -> str:
    words = choices(parameter)
    if parameter.metavar and parameter.metavar != "NAME":
        return str(parameter.metavar)
    return "\\|".join(words) if 0 < len(words) <= 3 else str(parameter.metavar or parameter.name.upper())


def told(parameter: Any) -> str:
    """The help of a parameter, with its default where it shows one."""
    text = cell(prose(getattr(parameter, "help", "") or ""))
    default = parameter.default
    shown = getattr(parameter, "show_default", True) and "[default:" not in text
    if shown and default not in (None, False, "", ()) and not callable(default):
        text += f" [default: {getattr(default, 'value', default)}]"
    return text


def prose(text: str | None) -> str:
    """Help as Markdown: brackets that rich would read are escaped there, and angles here."""
    return re.sub(r"\\(?=\[)", "", text or "").replace("<", "&lt;").replace("*", "\\*")
