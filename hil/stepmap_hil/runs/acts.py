"""Acts of a play in a run: which of them the board has come to, when, and how well it followed each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stepmap.arrays import Array
from stepmap.jobs import Job
from stepmap.optimal.plan import NODE
from stepmap_hil.wire import dialect

if TYPE_CHECKING:
    from stepmap_hil.runs.log import Row

Acts = tuple[tuple[float, str], ...]  # begin [s] in the plan, name
WORD = "act: "  # before the name, in events
RUNNING = dialect.value("STEPMAP_STATE_RUNNING")


class Ticked(Protocol):
    """Times and numbers of ticks."""

    @property
    def time(self) -> Array: ...
    @property
    def tick(self) -> Array: ...


def named(job: Job, begins: Sequence[float]) -> Acts:
    """Begins of acts with their names."""
    return tuple(zip(begins, getattr(job, "act_names", ()), strict=False))


def first_tick(at: float, period: float) -> int:
    """The tick at which an act has begun."""
    return ceil(at / period - NODE)


@dataclass
class Begins:
    """Acts that a run has not come to yet, by the ticks that the board reports: it is the board that plays."""

    acts: Acts
    period: float

    def passed(self, row: Row) -> Iterator[str]:
        """Names of the acts that begin with this tick."""
        while self.acts and row.running and row.state == RUNNING and row.tick >= first_tick(*self._next):
            yield self.acts[0][1]
            self.acts = self.acts[1:]

    @property
    def _next(self) -> tuple[float, float]:
        return self.acts[0][0], self.period


def metrics(acts: Acts, period: float, ticks: Ticked, off: Array | None) -> list[dict[str, Any]]:
    """Of each act its begin in the plan and in the run [s], and the RMS distance from the plan [m].

    ``off`` are distances tick by tick, where bodies can travel.
    """
    ends = [first_tick(at, period) for at, _ in acts[1:]] + [np.iinfo(np.int64).max]
    rows = []
    for (at, name), end in zip(acts, ends, strict=True):
        inside = (ticks.tick >= first_tick(at, period)) & (ticks.tick < end)
        far = off[inside] if off is not None and inside.any() else None
        rows.append(
            {
                "name": name,
                "planned": at,
                "begins": float(ticks.time[inside][0]) if inside.any() else None,
                "tracking_rms_m": None if far is None else float(np.sqrt(np.mean(far**2))),
            }
        )
    return rows
