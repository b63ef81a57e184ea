"""A dancer and the mechanism that imitates it, side by side: as a strip of moments, and moving."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from stepmap.arrays import Array
from stepmap.mechanics import System
from stepmap.mocap.bodies import before
from stepmap.mocap.rehearsal import Rehearsal
from stepmap.plots.style import COLORS, INK, blank, styled
from stepmap.wireframe import view as views
from stepmap.wireframe.skeleton import skeleton

MOMENTS, PER_SECOND, MOST = 7, 10.0, 200
STRING = 0.25  # of the mechanism's height, how much of its strings is shown
MARGIN = 0.06  # of the same


@dataclass(frozen=True, eq=False)
class Pair:
    """What is drawn, on the page [m]: lines of the dancer, of the mechanism and of its strings (times, lines, 2, 2)."""

    t: Array
    dancer: Array
    links: Array
    strings: Array

    @classmethod
    def of(cls, system: System, made: Rehearsal, t: Array, poses: Array) -> Pair:
        where, parts = system.positions(poses), skeleton(system)
        view = views.choose(system, where[:, parts.visible])
        at = {name: i for i, name in enumerate(made.names)}
        carried = {f.name: before(f, made.names) for f in system.frames if f.name in at}
        bones = [(at[carrier], at[name]) for name, carrier in carried.items() if carrier is not None]
        dancer, page = view.project(made.dancer), view.project(where)
        lines = [page[:, np.array(pairs, dtype=int).reshape(-1, 2)] for pairs in (parts.links, parts.strings)]
        return cls(t, dancer[:, np.array(bones, dtype=int).reshape(-1, 2)], *lines)

    @property
    def box(self) -> tuple[Array, Array]:
        """Corners of what dancer and mechanism need, with a piece of the strings above."""
        points = np.concatenate([part.reshape(-1, 2) for part in (self.dancer, self.links)])
        low, high = points.min(axis=0), points.max(axis=0)
        height = high[1] - low[1]
        return low - MARGIN * height, high + np.array([MARGIN, STRING]) * height

    def lines(self, k: int) -> tuple[list[LineCollection], list[LineCollection]]:
        """The dancer at a time, and the mechanism."""
        bones = LineCollection(list(self.dancer[k]), colors=COLORS[1], linewidths=2.2, capstyle="round")
        links = LineCollection(list(self.links[k]), colors=INK, linewidths=2.2, capstyle="round")
        return [bones], [LineCollection(list(self.strings[k]), colors=COLORS[0], linewidths=0.8), links]


def strip(pair: Pair) -> Figure:
    """Moments from left to right, the dancer above the mechanism."""
    low, high = pair.box
    chosen = np.linspace(0, len(pair.t) - 1, MOMENTS).round().astype(int)
    width = 9.4
    height = 2 * width / MOMENTS * (high[1] - low[1]) / (high[0] - low[0]) + 0.4
    with styled():
        figure = blank(width, float(np.clip(height, 2.0, 8.0)))
        grid: Any = figure.subplots(2, MOMENTS, squeeze=False)
        for column, k in enumerate(chosen):
            for axes, lines in zip(grid[:, column], pair.lines(int(k)), strict=True):
                _stage(axes, low, high)
                for line in lines:
                    axes.add_collection(line)
            grid[0, column].set_title(f"{pair.t[k]:.2f} s", fontsize=9)
    return figure


def animation(pair: Pair) -> bytes:
    """A GIF that takes as long as the motion: the dancer on the left, the mechanism on the right."""
    low, high = pair.box
    last = float(pair.t[-1] - pair.t[0])
    count = int(np.clip(round(PER_SECOND * last), 2, MOST))
    chosen = np.linspace(0, len(pair.t) - 1, count).round().astype(int)
    with styled():
        figure = blank(6.4, 4.0)
        both: Any = figure.subplots(1, 2)
        for axes, title in zip(both, ("dancer", "mechanism"), strict=True):
            _stage(axes, low, high)
            axes.set_title(title, fontsize=9)
        canvas: Any = figure.canvas
        canvas.draw()
        figure.set_layout_engine("none")  # it is the same in every picture

        def show(number: int) -> list[LineCollection]:
            shown = []
            for axes, lines in zip(both, pair.lines(int(chosen[number])), strict=True):
                for old in list(axes.collections):
                    old.remove()
                for line in lines:
                    shown.append(axes.add_collection(line))
            return shown

        made = FuncAnimation(figure, show, frames=count)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "dance.gif"
            made.save(path, writer=PillowWriter(fps=max(1, round(count / max(last, 0.1)))), dpi=70)
            return path.read_bytes()


def _stage(axes: Any, low: Array, high: Array) -> None:
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.axis("off")
