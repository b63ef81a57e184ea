"""The picture of a design study: every inner solve, the surrogate through the best, slopes, and the exact gradient."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stepmap.arrays import Array
from stepmap.optimal.design import DesignStudy, Sample
from stepmap.plots.figures import WIDTH
from stepmap.plots.style import COLORS, FAINT, INK, blank, styled

WIDE = 30.0  # costs that are farther apart than by this factor have a logarithmic axis


def samples(study: DesignStudy, *, scale: float = 1.0, label: str = "least cost") -> Figure:
    """Cost over each parameter; costs are multiplied by ``scale``."""
    names = list(study.samples[0].values)
    with styled():
        figure = blank(WIDTH, 3.8)
        columns = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
        for axes, name in zip(columns, names, strict=True):
            draw(axes, study, name, scale)
        columns[0].set_ylabel(label)
        handles, labels = columns[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)
    return figure


def draw(axes: Axes, study: DesignStudy, name: str, scale: float) -> None:
    """One parameter's column."""
    good = [sample for sample in study.samples if sample.good]
    x = np.array([sample.values[name] for sample in good])
    costs = scale * np.array([sample.cost for sample in good])
    every = [(s.values[name], scale * answer.cost) for s in good for answer in s.good[1:]]
    values = np.concatenate([costs, [cost for _, cost in every]])
    if values.min() > 0 and values.max() > WIDE * values.min():
        axes.set_yscale("log")
    if study.method == "spline" and len(good) > 1:
        curve = _draw_spline(axes, x, costs)
        values = np.concatenate([values, curve]) if axes.get_yscale() == "linear" else values
    _draw_slopes(axes, good, name, scale)
    if every:
        axes.plot(*zip(*every, strict=True), "o", color=COLORS[4], markersize=4, label="other inner solves", zorder=2)
    axes.plot(x, costs, "o", color=COLORS[0], markersize=6, label="best inner solve, in order", zorder=3)
    for number, (at, cost) in enumerate(zip(x, costs, strict=True), start=1):
        axes.annotate(str(number), (at, cost), (4, 5), textcoords="offset points", fontsize=8, color=INK)
    exact = study.exact
    if exact is not None and exact.ok:
        axes.plot(
            exact.values[name],
            scale * exact.cost,
            "*",
            color=COLORS[1],
            markersize=13,
            label="exact gradient",
            zorder=4,
        )
        values = np.append(values, scale * exact.cost)
    unit = next((p.unit for p in study.system.parameters if p.name == name), "")
    axes.set_xlabel(f"{name.replace('_', ' ')} [{unit}]" if unit else name.replace("_", " "))
    axes.set_ylim(*_span(values, axes.get_yscale() == "log"))


def _span(values: Array, logarithmic: bool) -> tuple[float, float]:
    least, most = float(values.min()), float(values.max())
    if logarithmic:
        return least / 2, most * 2
    room = 0.08 * max(most - least, 1e-9 * max(abs(most), 1e-300))
    return least - room, most + 1.5 * room


def _draw_spline(axes: Axes, x: Array, costs: Array) -> Array:
    """Drawn between the samples; its values there."""
    from stepmap.optimal.design.surrogates import through

    fine = np.linspace(x.min(), x.max(), 300)
    curve = through(x, costs)(fine)
    axes.plot(fine, curve, color=FAINT, label="spline through the best", zorder=1)
    return curve


def _draw_slopes(axes: Axes, good: list[Sample], name: str, scale: float) -> None:
    """dJ/dβ by the program's multipliers: a line that the next sample lies on, where both are of one branch."""
    x = [sample.values[name] for sample in good]
    logarithmic = axes.get_yscale() == "log"
    half = (0.015 if logarithmic else 0.04) * (max(x) - min(x) or 1.0)
    for i, sample in enumerate(good):
        along = np.linspace(-half, half, 41)
        line = sample.cost + sample.slopes.get(name, np.nan) * along
        if logarithmic:  # as far as it stays near the sample
            line[(line < sample.cost / 3) | (line > 3 * sample.cost)] = np.nan
        label = "slope by multipliers" if i == 0 else None
        axes.plot(sample.values[name] + along, scale * line, color=COLORS[2], linewidth=2.0, label=label, zorder=2)
