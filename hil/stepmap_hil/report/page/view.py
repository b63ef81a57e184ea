"""A run on the time axis of its report: one row per tick, also for ticks that no telemetry came of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.jobs import Job
from stepmap.report.charts import onto
from stepmap_codegen import Controller
from stepmap_hil.report.series import Series, moving
from stepmap_hil.runs.filter_replay import FilterHistory, replay_filter
from stepmap_hil.runs.log import Run

AFTER = 1.2  # times the length of a run that ended early, for which a run without feedback is shown


@dataclass(frozen=True)
class Origin:
    """Where a run comes from, as far as it is known."""

    job: Job | None = None
    text: str = ""  # the job file
    begun: str = ""  # date and time
    stepmap: str = ""  # the version that made the run
    acts: tuple[tuple[float, str], ...] = ()  # of a play: when each begins
    recording: str = ""  # name of its file, beside the page
    parameters: Mapping[str, float] = field(default_factory=dict)  # of the plant, where they differ from the model's


@dataclass(frozen=True, eq=False)
class RunView:
    """Everything the page shows of one run."""

    controller: Controller
    run: Run
    series: Series
    opened: Series | None
    summary: Mapping[str, Any]
    origin: Origin

    @property
    def angles(self) -> str:
        return str(self.summary.get("angles") or "rad")

    @cached_property
    def begin(self) -> float:
        """The time of the command to run, as in rows."""
        return next((row.time for row in self.run.rows if row.running), 0.0)

    @cached_property
    def ticks(self) -> Array:
        """Numbers of ticks on the time axis; None are missing, whatever was lost."""
        last = int(self.series.tick.max())
        other = last if self.opened is None or not len(self.opened.tick) else int(self.opened.tick.max())
        shown = max(last, min(other, int(AFTER * last) + 1))
        return np.arange((shown if self.run.stop is None else max(shown, int(AFTER * last) + 3)) + 1)

    @cached_property
    def time(self) -> Array:
        """Of ``ticks``, since the command to run [s]."""
        s, dt = self.series, self.controller.plant.step.dt
        first = np.unique(s.tick, return_index=True)[1]
        tick, time = s.tick[first], s.time[first]
        inside: Array = np.interp(self.ticks, tick, time)
        later, earlier = self.ticks > tick[-1], self.ticks < tick[0]
        inside[later] = time[-1] + dt * (self.ticks[later] - tick[-1])
        inside[earlier] = time[0] - dt * (tick[0] - self.ticks[earlier])
        return inside

    def place(self, values: Array, of: Series | None = None) -> Array:
        """Values of the ticks of a series, on the time axis; not a number where there are none."""
        s, values = of or self.series, np.asarray(values, dtype=float)
        out = np.full((len(self.ticks), *values.shape[1:]), np.nan)
        inside = s.tick < len(out)
        out[s.tick[inside]] = values[inside]
        return out

    def onto(self, other: RunView, values: Array) -> Array:
        """Values of this run's time axis on that of another run."""
        return onto(other.time, self.time, values)

    @cached_property
    def history(self) -> FilterHistory:
        """Of the filter, one row per tick of the series."""
        found = replay_filter(self.controller, self.run)
        kept = set(map(id, moving(self.run)))
        rows = np.array([id(row) in kept for row in self.run.rows], dtype=bool)
        return FilterHistory(found.sigma[rows], found.innovation[rows], found.taken[rows])
