"""Help as it is written: brackets stay, paragraphs wrap at any width, choices are words that are not cut."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

from rich.markup import escape

PANELS = {
    "Model": ("new", "systems", "simulate"),
    "Controller": ("check", "optimize", "tune", "generate", "ranges"),
    "Board": ("build", "flash", "upload", "monitor", "stop", "key"),
    "Run": ("demo", "bench", "campaign", "robot", "calibrate"),
    "Look": ("report", "live", "animate", "replay", "identify", "figure", "runs", "recover"),
    "Machine": ("doctor",),
}
OTHER = "Other"  # commands of other packages
WIDE = 12  # characters of choices, or of a range, that fit beside an option


def panel(name: str, *, own: bool) -> str:
    """The panel that a command is listed in."""
    return next((title for title, names in PANELS.items() if own and name in names), OTHER)


def ordered(names: Sequence[str]) -> list[str]:
    """Names of commands in the order of the panels, others last."""
    known = [name for names in PANELS.values() for name in names]
    return sorted(names, key=lambda name: known.index(name) if name in known else len(known))


# Commands and parameters are Any: typer carries its own copy of click, or not, depending on its version.


def tidy(command: Any, context: Any) -> None:
    """Makes the help of a command what its texts say.

    typer reads texts as markup of rich, which takes "[s]" for a style, and keeps the line ends of a docstring.
    """
    command.help = escape(_paragraphs(command.help or ""))
    for param in [*command.params, command.get_help_option(context)]:
        if param is not None:
            _tidy_parameter(param)


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


def _tidy_parameter(param: Any) -> None:
    text = _paragraphs(getattr(param, "help", None) or "")
    names = choices(param)
    if param.param_type_name == "argument":
        if param.required:  # JOB, not {JOB}
            param.get_usage_pieces = lambda _: [param.metavar or param.name.upper()]
    elif getattr(param, "is_flag", False):
        param.metavar = param.metavar or ""  # a flag takes no value: not <bool>
    elif len("|".join(names)) > WIDE and param.metavar is None:
        param.metavar = "NAME"
        said, mark, default = text.partition(" [default:")
        text = f"{said} One of {', '.join(names)}.{mark}{default}"
    if _tells_range(param, text):
        param._get_number_range_help_str = str
    param.help = escape(text)


def _tells_range(param: Any, text: str) -> bool:
    """Whether the text of an option has its range in words, so that the column beside it can be narrow."""
    shown = getattr(param, "_get_number_range_help_str", str)() or ""
    return " to ".join(re.findall(r"\d+", shown)) in text if len(shown) <= 1.5 * WIDE and shown else bool(shown)


def choices(param: Any) -> list[str]:
    """The words that an option takes, where it takes only some."""
    kind = getattr(param, "type_descriptor", None) or param.type
    return [str(getattr(choice, "value", choice)) for choice in getattr(kind, "choices", None) or ()]
