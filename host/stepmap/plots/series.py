"""Quantities over time: coordinates, energy, constraint forces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from stepmap.arrays import Array
from stepmap.mechanics.constraints import Distance
from stepmap.plots.events import draw_events
from stepmap.plots.style import COLORS, FAINT, INK
from stepmap.simulation import Simulation

SHOWN = 6  # lines with a colour and a name of their own; the others are grey


@dataclass(frozen=True)
class Panel:
    """Quantities of one unit that share a pair of axes: values (times, names)."""

    label: str
    t: Array
    values: Array
    names: tuple[str, ...]


def panels(simulation: Simulation) -> list[Panel]:
    """Coordinates by kind and unit, and those inputs that were used."""
    trajectory, system = simulation.trajectory, simulation.system
    kinds = [("kinematic" if c.kinematic else "coordinates", c.unit) for c in system.coordinates]
    names = [c.name for c in system.coordinates]
    found = grouped(kinds, names, trajectory.t, simulation.poses)
    used = [i for i in range(len(system.inputs)) if trajectory.u[:, i].any()]
    kinds = [("inputs", system.inputs[i].unit) for i in used]
    names = [system.inputs[i].name for i in used]
    return found + grouped(kinds, names, trajectory.t[:-1], trajectory.u[:, used])


def grouped(kinds: Sequence[tuple[str, str]], names: Sequence[str], t: Array, values: Array) -> list[Panel]:
    """Columns of values that share a (kind, unit), one panel each."""
    made = []
    for kind, unit in dict.fromkeys(kinds):
        columns = [i for i, other in enumerate(kinds) if other == (kind, unit)]
        label = f"{kind} [{unit}]" if unit else kind
        made.append(Panel(label, t, values[:, columns], tuple(names[i] for i in columns)))
    return made


def draw_panel(axes: Axes, panel: Panel) -> None:
    """Quantities of one unit; of many, those that move most are named."""
    _draw(axes, panel.t, panel.values, panel.names)
    axes.set_ylabel(panel.label)


def draw_energy(axes: Axes, simulation: Simulation) -> None:
    """Kinetic energy, and potential and total energy relative to the start."""
    t = simulation.trajectory.t
    axes.plot(t, simulation.kinetic, label="kinetic", color=COLORS[0], linewidth=1.1)
    axes.plot(t, simulation.potential - simulation.potential[0], label="potential", color=COLORS[1], linewidth=1.1)
    axes.plot(t, simulation.energy - simulation.energy[0], label="total", color=INK)
    axes.set_ylabel("energy [J]")
    legend(axes)


def draw_forces(axes: Axes, simulation: Simulation) -> None:
    """Constraint forces, one value a step; a wire must pull, so below zero it would be slack. Strings and contacts are
    shaded while they are open."""
    t = simulation.trajectory.t
    middle = (t[1:] + t[:-1]) / 2
    _draw(axes, middle, simulation.multipliers, simulation.system.constraint_names)
    draw_events(axes, simulation)
    if simulation.multipliers.min() < 0:
        axes.axhline(0.0, color=INK, linewidth=0.8)
    else:
        axes.set_ylim(bottom=0.0)
    strings = all(isinstance(c, Distance) for c in simulation.system.constraints) and simulation.multipliers.min() >= 0
    axes.set_ylabel("tension [N]" if strings else "constraint force [N]")


def _draw(axes: Axes, t: Array, values: Array, names: Sequence[str]) -> None:
    moved = np.argsort(-np.ptp(values, axis=0), kind="stable")
    named = set(range(len(names))) if len(names) <= len(COLORS) else {int(i) for i in moved[:SHOWN]}
    rest = [i for i in range(len(names)) if i not in named]
    for order, i in enumerate(rest):
        label = f"{len(rest)} more" if order == 0 else None
        axes.plot(t, values[:, i], color=FAINT, linewidth=0.6, alpha=0.7, label=label, zorder=1)
    for color, i in zip(COLORS, sorted(named), strict=False):
        axes.plot(t, values[:, i], color=color, label=names[i].replace("_", " "), zorder=2)
    legend(axes)


def legend(axes: Axes) -> None:
    """Names beside the axes, "n more" and the reference last."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: (labels[i].endswith(" more"), labels[i] == "reference"))
    axes.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="upper left",
        bbox_to_anchor=(1.0, 1.05),
        borderaxespad=0.2,
    )
    axes.margins(x=0.0)
