"""Events over time: marks where gaps are struck, shades while they are open."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from stepmap.plots.style import COLORS, FAINT
from stepmap.simulation import Simulation
from stepmap.steps import Event


def draw_events(axes: Axes, simulation: Simulation) -> None:
    """Behind the lines of forces: a strip per gap, shaded while it is open, with marks of its events."""
    names, events = simulation.system.gap_names, simulation.trajectory.events
    own = dict(zip(simulation.system.constraint_names, COLORS, strict=False)) if len(names) <= len(COLORS) else {}
    for row, name in enumerate(names):
        bottom, top = 1.0 - (row + 1) / len(names), 1.0 - row / len(names)
        phases = [(begin, end - begin) for begin, end in simulation.open_phases(name)]
        across = axes.get_xaxis_transform()  # times, and parts of the height
        color = own.get(name, FAINT)
        axes.broken_barh(
            phases, (bottom, top - bottom), transform=across, color=color, alpha=0.12, linewidth=0, zorder=0
        )
        mark_events(axes, [event for event in events if event.name == name], bottom, top)


def mark_events(axes: Axes, events: Sequence[Event], bottom: float = 0.0, top: float = 1.0) -> None:
    """A line at every impact, and a dotted one at every release, between two parts of the height."""
    for event in events:
        dotted = event.kind == "release"
        style = ":" if dotted else "-"
        axes.axvline(event.time, bottom, top, color=FAINT, linewidth=0.9, linestyle=style, zorder=0)
