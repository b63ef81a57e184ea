"""Where the command line writes: results to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

WIDTH = 120  # of tables that do not go to a terminal
PADDING = (0, 2, 0, 0)


def console() -> Console:
    """Standard output; made anew at each call, so that a redirected stream is seen."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=WIDTH)


def complain(text: str, kind: str = "error") -> None:
    """One message on stderr, never wrapped, so that it can be searched for."""
    print(f"stepmap: {kind}: {text}", file=sys.stderr)


@contextmanager
def working(text: str) -> Iterator[None]:
    """A spinner with a text while the block runs; nothing where stderr is not a terminal."""
    with Console(stderr=True).status(text):
        yield


def figures(rows: Iterable[tuple[str, str]], title: str | None = None) -> Table:
    """A table of names and values."""
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None, padding=PADDING)
    table.add_column(style="dim")
    table.add_column()
    for name, value in rows:
        table.add_row(name, value)
    return table


def grid(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table with headings."""
    table = Table(box=None, padding=PADDING, header_style="bold")
    for heading in headings:
        table.add_column(heading, vertical="top")
    for row in rows:
        table.add_row(*row)
    return table
