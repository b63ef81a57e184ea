"""Whole figures of a simulation."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stepmap.arrays import Array
from stepmap.geometry import Shape
from stepmap.plots.motion import Motion, draw_motion, draw_paths
from stepmap.plots.series import draw_energy, draw_forces, draw_panel, panels
from stepmap.plots.style import COLORS, FAINT, blank, styled
from stepmap.simulation import Simulation

WIDTH, PANEL = 8.6, 1.55  # of a figure, and height of one panel over time [inches]


def motion(simulation: Simulation, shapes: Sequence[Shape] = ()) -> Figure:
    """The mechanism at several times, among obstacles; as wide as the motion is."""
    with styled():
        return _poses(Motion.simulated(simulation, shapes))[0]


def poses(motion: Motion, wanted: Array, label: str) -> Figure:
    """The same of any motion, with the paths that its masses were to take in poses ``wanted``, where they can be drawn.

    ``label`` is the name of the motion beside that of its reference.
    """
    with styled():
        figure, axes = _poses(motion)
        if draw_paths(axes, motion, Motion.of(motion.system, motion.t, wanted)):
            axes.plot(*_nothing(motion), color=FAINT, linewidth=5, alpha=0.45, label="reference")
            axes.plot(*_nothing(motion), color=COLORS[4], linewidth=0.9, label=label)
            figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


def _nothing(motion: Motion) -> list[list[float]]:
    return [[]] * motion.page.shape[-1]


def _poses(motion: Motion) -> tuple[Figure, Axes]:
    figure = blank(WIDTH, 3.4)
    axes = draw_motion(figure, 111, motion)
    if motion.planar:
        shape = axes.dataLim.width / max(axes.dataLim.height, 1e-9)
        figure.set_size_inches(min(max(3.9 * shape + 1.0, 4.6), WIDTH), 4.2)
    elif not motion.in_a_row:
        figure.set_size_inches(*(WIDTH, 6.0) if motion.shapes else (6.4, 5.2))
    return figure, axes


def coordinates(simulation: Simulation) -> Figure:
    """All coordinates over time, one panel a unit."""
    parts = panels(simulation)
    with styled():
        figure = blank(WIDTH, PANEL * len(parts) + 0.4)
        rows = figure.subplots(len(parts), 1, sharex=True, squeeze=False)[:, 0]
        for axes, part in zip(rows, parts, strict=True):
            draw_panel(axes, part)
        rows[-1].set_xlabel("time [s]")
    return figure


def energy(simulation: Simulation) -> Figure:
    """Energy over time."""
    with styled():
        figure = blank(WIDTH, PANEL + 0.4)
        axes = figure.add_subplot()
        draw_energy(axes, simulation)
        axes.set_xlabel("time [s]")
    return figure


def forces(simulation: Simulation) -> Figure:
    """Constraint forces over time; only for a system that has constraints."""
    with styled():
        figure = blank(WIDTH, PANEL + 0.4)
        axes = figure.add_subplot()
        draw_forces(axes, simulation)
        axes.set_xlabel("time [s]")
    return figure


def overview(simulation: Simulation) -> Figure:
    """One picture of everything: the motion on top, below it all quantities over time."""
    parts = panels(simulation)
    count = len(parts) + 1 + bool(simulation.step.nc)
    with styled():
        figure = blank(WIDTH, 3.6 + PANEL * count)
        grid = figure.add_gridspec(count + 1, 1, height_ratios=[3.4, *[PANEL] * count])
        draw_motion(figure, grid[0], Motion.simulated(simulation))
        first = figure.add_subplot(grid[1])
        rows = [first, *(figure.add_subplot(grid[i], sharex=first) for i in range(2, count + 1))]
        for axes, part in zip(rows, parts, strict=False):
            draw_panel(axes, part)
        draw_energy(rows[len(parts)], simulation)
        if simulation.step.nc:
            draw_forces(rows[-1], simulation)
        for axes in rows[:-1]:
            axes.tick_params(labelbottom=False)
        rows[-1].set_xlabel("time [s]")
        figure.suptitle(simulation.system.name.replace("_", " "), x=0.01, ha="left", fontweight="bold")
    return figure
