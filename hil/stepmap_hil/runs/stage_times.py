"""Stages of a command, each with its wall time, its CPU time and whether an earlier result was reused.

They say how a run came about, and depend on the computer: no digest of a run holds them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

IMPORTED = time.perf_counter()


@dataclass(frozen=True)
class StageTime:
    """One stage that is done."""

    name: str
    reused: bool | None  # None: a stage of which nothing is kept for the next run
    seconds: float
    cpu_seconds: float  # of this process and of children that have ended within the stage

    @property
    def result(self) -> str:
        """What came of it, in a word or three."""
        return {True: "up to date", False: "made", None: "done"}[self.reused]


def ignore(stage: StageTime) -> None:
    """Called after each stage where nothing is to be shown."""


class StageClock:
    """Times stages that follow each other without a gap; the first begins with the process."""

    def __init__(self, on_end: Callable[[StageTime], None] = ignore, first: str = "start") -> None:
        self.done: list[StageTime] = []
        self.on_end = on_end
        self._name = first
        self._reused: bool | None = None
        self._begun, self._cpu = time.perf_counter() - process_age(), 0.0

    def begin(self, name: str) -> None:
        """Ends the stage that goes on, and begins the next; time since the end of the last one belongs to it."""
        self.end()
        self._name, self._reused = name, None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stage that ends with the block; one that an error leaves is not done."""
        self.begin(name)
        yield
        self.end()

    def end(self) -> None:
        """Ends the stage that goes on, if one does."""
        if not self._name:
            return
        now, cpu = time.perf_counter(), cpu_seconds()
        made = StageTime(self._name, self._reused, round(now - self._begun, 3), round(cpu - self._cpu, 3))
        self._name, self._begun, self._cpu = "", now, cpu
        self.done.append(made)
        self.on_end(made)

    def mark_reused(self, reused: bool) -> None:
        """Says of the stage that goes on whether it is up to date, or made now."""
        self._reused = reused

    def document(self) -> list[dict[str, Any]]:
        """The stages so far, as plain data."""
        return [asdict(stage) for stage in self.done]


def cpu_seconds() -> float:
    """CPU time of this process and of all its children that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def process_age() -> float:
    """Seconds since this process began; where the system does not tell, since this module was imported."""
    try:
        after_name = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        began = int(after_name[19]) / os.sysconf("SC_CLK_TCK")  # field 22 of proc(5), from the start of the system
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - began, 0.0)
    except (OSError, ValueError, IndexError, AttributeError):
        return time.perf_counter() - IMPORTED
