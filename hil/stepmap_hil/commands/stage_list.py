"""Stages of a run and the memory of its board, as lines of a terminal that is 60 columns wide or more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from stepmap.cli.output import console
from stepmap_hil.report.sentences import memory
from stepmap_hil.runs.stage_times import StageTime

COLORS = {"made": "cyan", "up to date": "green", "done": ""}
NAME = 18  # columns
BAR = 10  # cells, as PlatformIO has
FULL = 0.9  # of a memory, from where on it is worth a look


class StageList:
    """Prints the stages that are done, and called with another its line; lines stay."""

    def __init__(self, done: Sequence[StageTime]) -> None:
        console().print(Text(f"{'stage':<{NAME}}{'result':<12}{'time':>9}{'CPU time':>11}", "bold"))
        for stage in done:
            self(stage)

    def __call__(self, stage: StageTime) -> None:
        times = f"{_seconds(stage.seconds):>9}{_seconds(stage.cpu_seconds):>11}"
        result = (f"{stage.result:<12}", COLORS[stage.result])
        console().print(Text.assemble(f"{stage.name:<{NAME}}", result, times))


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 100 else f"{value:.0f} s"


def print_memory(summary: Mapping[str, Any]) -> None:
    """A bar for each memory of the board that has a limit."""
    for name, used, total in memory(summary):
        part = used / total
        bar = "=" * min(round(BAR * part), BAR)
        color = "red" if part > 1 else "yellow" if part > FULL else "green"
        numbers = f"{100 * part:5.1f} %  {used} of {total} bytes"
        console().print(Text.assemble(f"{name:<6}[", (f"{bar:<{BAR}}", color), f"] {numbers}"))
