"""The picture of a sweep: one map per quantity over both factors, with the present and the chosen point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from stepmap.arrays import Array
from stepmap.plots.figures import WIDTH
from stepmap.plots.style import COLORS, INK, blank, styled

HEIGHT = 6.6
GOOD, BAD = "viridis_r", "viridis"  # pale is good


def factor_maps(
    state_factors: Sequence[float],
    speed_factors: Sequence[float],
    maps: Sequence[tuple[str, Array, bool]],
    lost: Array,
    marks: Sequence[tuple[str, tuple[float, float]]],
) -> Figure:
    """Maps (title, values (speed, state), whether less is better) of a sweep; cells that ``lost`` are crossed out.

    ``marks`` are names of points with their state and speed factors.
    """
    with styled():
        figure = blank(WIDTH, HEIGHT)
        grid = figure.subplots(2, 2, sharex=True, sharey=True)
        for axes, (title, values, less) in zip(grid.flat, maps, strict=True):
            _map(axes, values, lost, less=less)
            axes.set_title(title)
            _marks(axes, state_factors, speed_factors, marks)
        for axes in grid[-1]:
            axes.set_xlabel("state_factor")
        for axes in grid[:, 0]:
            axes.set_ylabel("speed_factor")
        for axes in grid.flat:
            axes.set_xticks(range(len(state_factors)), [f"{factor:.3g}" for factor in state_factors])
            axes.set_yticks(range(len(speed_factors)), [f"{factor:.3g}" for factor in speed_factors])
            axes.grid(visible=False)
        handles, names = grid.flat[0].get_legend_handles_labels()
        title = "pale is better; × loses runs" if lost.any() else "pale is better"
        figure.legend(handles, names, loc="outside lower center", ncols=len(names), title=title, title_fontsize=8)
    return figure


def _map(axes: Axes, values: Array, lost: Array, *, less: bool) -> None:
    shown = np.ma.masked_array(values, mask=lost | ~np.isfinite(values))
    low, high = float(shown.min()), float(shown.max())
    if shown.count() == 0:
        low, high = 0.0, 1.0
    wide = less and low > 0 and high > 3 * low
    norm: Normalize = LogNorm(low, high) if wide else Normalize(low, high if high > low else low + 1)
    axes.imshow(shown, origin="lower", aspect="auto", norm=norm, cmap=GOOD if less else BAD, alpha=0.85)
    for (i, j), value in np.ndenumerate(values):
        if lost[i, j]:
            axes.text(j, i, "×", ha="center", va="center", color=INK, fontsize=9)
            continue
        pale = norm(value) < 0.55 if less else norm(value) > 0.45
        axes.text(j, i, f"{value:.2g}", ha="center", va="center", fontsize=7, color=INK if pale else "white")


def _marks(
    axes: Axes,
    state_factors: Sequence[float],
    speed_factors: Sequence[float],
    marks: Sequence[tuple[str, tuple[float, float]]],
) -> None:
    for number, (name, (state, speed)) in enumerate(marks):
        x, y = _place(state, state_factors), _place(speed, speed_factors)
        if not (-0.5 <= x <= len(state_factors) - 0.5 and -0.5 <= y <= len(speed_factors) - 0.5):
            continue
        inset, style = 0.06 * number, "solid" if number else (0, (2, 1.5))
        frame = Rectangle(
            (x - 0.5 + inset, y - 0.5 + inset),
            1 - 2 * inset,
            1 - 2 * inset,
            fill=False,
            linewidth=2,
            edgecolor=COLORS[1] if number else INK,
            linestyle=style,
            label=f"{name}: {state:.3g}, {speed:.3g}",
            zorder=3,
        )
        axes.add_patch(frame)


def _place(factor: float, factors: Sequence[float]) -> float:
    """Where a factor is on an axis whose ticks are the factors, which rise evenly in their logarithm."""
    if len(factors) == 1:
        return 0.0 if np.isclose(factor, factors[0]) else -9.0
    return float(np.log(factor / factors[0]) / np.log(factors[1] / factors[0]))
