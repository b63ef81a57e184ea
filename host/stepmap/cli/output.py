"""Where the command line writes: results to stdout, everything else to stderr.

Names of files, texts of boards and of recordings are among what is written. Nothing here is read as markup, and nothing
reaches a terminal that it would obey.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stepmap.text import printable

WIDTH = 120  # of tables that do not go to a terminal
PADDING = (0, 2, 0, 0)


class Screen(Console):
    """A console that writes texts as they are, but for characters that are not printable."""

    def __init__(self, **given: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **given)

    def render_str(self, text: str, **given: Any) -> Text:
        return super().render_str(printable(text, lines=True), **given)


def console() -> Screen:
    """Standard output; made anew at each call, so that a redirected stream is seen."""
    made = Screen()
    return made if made.is_terminal else Screen(width=WIDTH)


def complain(text: str, kind: str = "error", *, cause: str = "", hint: str = "") -> None:
    """A message on stderr: what is wrong, why, and what to do, each in a line of its own.

    A terminal gets lines wrapped at words. Elsewhere nothing is wrapped, so that it can be searched for.
    """
    said = [f"{name}: {part}" for name, part in ((kind, text), ("cause", cause), ("hint", hint)) if part]
    lines = printable("\n".join(said), lines=True).splitlines()
    if sys.stderr.isatty():
        lines = [part for line in lines for part in wrapped(line, Screen(stderr=True).width)]
    print("\n".join(lines), file=sys.stderr)


def wrapped(line: str, width: int) -> list[str]:
    """A line broken at blanks; what has none, such as a path, stays whole."""
    made = textwrap.wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return made or [line]


@contextmanager
def working(text: str) -> Iterator[None]:
    """A spinner with a text while the block runs; nothing where stderr is not a terminal."""
    with Screen(stderr=True).status(plain(text)):
        yield


def plain(text: str) -> Text:
    """A text for those parts of rich that read every string as markup."""
    return Text(printable(text))


def figures(rows: Iterable[tuple[str, str]], title: str | None = None) -> Table:
    """A table of names and values."""
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None, padding=PADDING)
    table.add_column(style="dim")
    table.add_column()
    for name, value in rows:
        table.add_row(name, value)
    return table


def grid(headings: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table with headings."""
    table = Table(box=None, padding=PADDING, header_style="bold")
    for heading in headings:
        table.add_column(heading, vertical="top")
    for row in rows:
        table.add_row(*row)
    return table
