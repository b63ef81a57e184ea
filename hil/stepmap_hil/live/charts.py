"""Strip charts of the last seconds of a run, drawn by uPlot, which viser's page brings along."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
import viser
from viser import uplot

from stepmap.arrays import Array
from stepmap_hil.live.frame import Chart

WINDOW = 10.0  # s
ROWS = 600  # at most in a chart
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
HEIGHT, LEGEND = 92, 14  # pixels


class Strips:
    """Keeps what is new at every tick; draws when asked. Lines without any number are not drawn."""

    def __init__(self, gui: viser.GuiApi, charts: Sequence[Chart]) -> None:
        self.names = [name for chart in charts for name in chart.lines]
        self._rows: deque[tuple[float, ...]] = deque(maxlen=ROWS)
        self._seen: set[str] = set()
        self._strips = [Strip(gui, chart) for chart in charts]

    def add(self, time: float, numbers: Mapping[str, float]) -> None:
        """A number that is missing stays what it was: uPlot draws nothing at all where one is not finite."""
        if self._rows and time < self._rows[-1][0]:  # another run begins
            self._rows.clear()
        last = self._rows[-1][1:] if self._rows else (0.0,) * len(self.names)
        new = [float(numbers.get(name, math.nan)) for name in self.names]
        self._rows.append((time, *(n if math.isfinite(n) else old for n, old in zip(new, last, strict=True))))
        if len(self._seen) < len(self.names):
            self._seen.update(name for name, n in zip(self.names, new, strict=True) if math.isfinite(n))

    def draw(self) -> None:
        if len(self._rows) < 2:
            return
        rows = np.array(self._rows)
        rows = rows[rows[:, 0] >= rows[-1, 0] - WINDOW]
        columns = dict(zip(self.names, np.ascontiguousarray(rows[:, 1:].T), strict=True))
        for strip in self._strips:
            shown = {name: columns[name] for name in strip.chart.lines if name in self._seen}
            strip.draw(np.ascontiguousarray(rows[:, 0]), shown)


class Strip:
    """One chart, which appears with its first number."""

    def __init__(self, gui: viser.GuiApi, chart: Chart) -> None:
        self.chart = chart
        self._lines: tuple[str, ...] = chart.lines
        legend = len(chart.lines) > 1
        self._handle = gui.add_uplot(
            data=(np.zeros(0),) * (1 + len(chart.lines)),
            series=self._series(),
            title=f"{chart.title} [{chart.unit}]",
            scales={"x": uplot.Scale(time=False), "y": uplot.Scale(auto=True)},
            axes=(uplot.Axis(size=26), uplot.Axis(size=44)),
            legend=uplot.Legend(show=legend, live=False),
            cursor=uplot.Cursor(show=False),
            height=HEIGHT + LEGEND * legend,
            padding=(8, 20, LEGEND * legend, 0),
            visible=False,
        )

    def _series(self) -> tuple[uplot.Series, ...]:
        colors = dict(zip(self.chart.lines, COLORS, strict=False))
        drawn = (
            uplot.Series(label=name, stroke=colors.get(name, "#595959"), width=1.5, points={"show": False})
            for name in self._lines
        )
        return (uplot.Series(label="s"), *drawn)

    def draw(self, time: Array, lines: Mapping[str, Array]) -> None:
        if not lines:
            return
        if tuple(lines) != self._lines:
            self._lines = tuple(lines)
            self._handle.series = self._series()
        self._handle.data = (time, *lines.values())
        if not self._handle.visible:
            self._handle.visible = True
