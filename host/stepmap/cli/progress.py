"""A live table of iterations, for searches that take long enough to be looked at."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.live import Live
from rich.table import Table

from stepmap.cli.output import Screen, grid
from stepmap.optimal import Iteration
from stepmap.steps import Trajectory

PATIENCE = 2.0  # s before anything is shown
ROWS = 12
HEADINGS = ("iteration", "cost", "|Dg|", "step", "direction", "s")


class IterationTable:
    """Called after every iteration; shows the last of them on stderr, if that is a terminal."""

    def __init__(self, live: Live | None) -> None:
        self.live = live
        self.begin = time.monotonic()
        self.rows: list[tuple[str, ...]] = []

    def __call__(self, number: int, iteration: Iteration, trajectory: Trajectory) -> None:
        seconds = time.monotonic() - self.begin
        self.rows.append(
            (
                str(len(self.rows)),
                f"{iteration.cost:.8g}",
                f"{-iteration.slope:.2e}",
                f"{iteration.length:.3g}",
                iteration.method,
                f"{seconds:.1f}",
            )
        )
        self._show(HEADINGS, seconds)

    def tell(self, columns: Mapping[str, str]) -> None:
        """The same for searches that have other columns: planners tell nodes, distance and rate."""
        seconds = time.monotonic() - self.begin
        self.rows.append((*columns.values(), f"{seconds:.1f}"))
        self._show((*columns, "s"), seconds)

    def _show(self, headings: Sequence[str], seconds: float) -> None:
        if self.live is None or seconds < PATIENCE:
            return
        if not self.live.is_started:
            self.live.start()
        self.live.update(self.table(headings), refresh=True)

    def table(self, headings: Sequence[str] = HEADINGS) -> Table:
        return grid(headings, self.rows[-ROWS:])


@contextmanager
def iterations() -> Iterator[IterationTable]:
    """The table while the block runs; what it showed last stays."""
    console = Screen(stderr=True)
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    try:
        yield IterationTable(live)
    finally:
        if live is not None and live.is_started:
            live.stop()
