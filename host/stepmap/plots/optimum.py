"""Figures of an optimization: the optimum beside its reference, and how the search got there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stepmap.arrays import Array
from stepmap.optimal import Iteration
from stepmap.plots.events import mark_events
from stepmap.plots.figures import PANEL, WIDTH, poses
from stepmap.plots.motion import Motion
from stepmap.plots.series import SHOWN, Panel, grouped, legend
from stepmap.plots.style import COLORS, INK, blank, styled
from stepmap.simulation import Simulation
from stepmap.steps import Event

DASHES = (0, (4, 2))
NEAR = 2.0  # times the largest input: limits farther away are not drawn


def tracking(simulation: Simulation, x_ref: Array) -> Figure:
    """Coordinates over time, each with its reference, dashed."""
    coordinates = simulation.system.coordinates
    kinds = [("kinematic" if c.kinematic else "coordinates", c.unit) for c in coordinates]
    names = [c.name for c in coordinates]
    t = simulation.trajectory.t
    found, wanted = (grouped(kinds, names, t, values[:, : len(names)]) for values in (simulation.trajectory.x, x_ref))
    return _beside(found, wanted, simulation.trajectory.events)


def commands(simulation: Simulation, u_ref: Array) -> Figure:
    """Inputs over time, each with its reference, dashed; of kinematic coordinates their velocities."""
    step, trajectory = simulation.step, simulation.trajectory
    system, forces = step.system, step.nu - step.nk
    kinds = [("inputs", i.unit) for i in system.inputs]
    kinds += [("velocity", f"{c.unit}/s" if c.unit else "") for c in system.kinematic]
    names = [*(i.name for i in system.inputs), *(c.name for c in system.kinematic)]
    begin = trajectory.x[:1, step.layout["rho"]]
    found, wanted = (
        grouped(kinds, names, trajectory.t[:-1], np.hstack([u[:, :forces], _rates(u[:, forces:], begin, step.dt)]))
        for u in (trajectory.u, u_ref)
    )
    return _beside(found, wanted, trajectory.events)


def inputs(simulation: Simulation, low: Array, high: Array) -> Figure:
    """Inputs over time with their limits, dashed, where these are near; of kinematic coordinates their velocities."""
    step, trajectory = simulation.step, simulation.trajectory
    system, forces = step.system, step.nu - step.nk
    units = [i.unit for i in system.inputs] + [f"{c.unit}/s" if c.unit else "" for c in system.kinematic]
    names = [*(i.name for i in system.inputs), *(c.name for c in system.kinematic)]
    rates = _rates(trajectory.u[:, forces:], trajectory.x[:1, step.layout["rho"]], step.dt)
    values = np.hstack([trajectory.u[:, :forces], rates])
    kinds = list(dict.fromkeys(units))
    with styled():
        figure = blank(WIDTH, 1.3 * PANEL * len(kinds) + 0.4)
        rows = figure.subplots(len(kinds), 1, sharex=True, squeeze=False)[:, 0]
        for axes, unit in zip(rows, kinds, strict=True):
            own = [i for i, other in enumerate(units) if other == unit]
            reach = NEAR * max(float(np.abs(values[:, own]).max()), 1e-12)
            for color, i in zip(COLORS * len(own), own, strict=False):
                axes.step(trajectory.t[:-1], values[:, i], where="post", color=color, label=names[i].replace("_", " "))
                for end in {float(low[i]), float(high[i])}:
                    if abs(end) <= reach:
                        axes.axhline(end, color=color, linestyle=DASHES, linewidth=0.9, alpha=0.8)
            axes.set_ylabel(f"inputs [{unit}]" if unit else "inputs")
            legend(axes)
        rows[-1].set_xlabel("time [s]")
    return figure


def path(simulation: Simulation, x_ref: Array) -> Figure:
    """The motion, with the paths that its masses were to take, broad and grey."""
    wanted = x_ref[:, : len(simulation.system.coordinates)]
    return poses(Motion.simulated(simulation), wanted, "optimum")


def convergence(history: Sequence[Iteration]) -> Figure:
    """|directional derivative| and cost of every iteration; a Newton step of full length is a filled mark."""
    with styled():
        figure = blank(WIDTH, 3.0)
        left, right = figure.subplots(1, 2)
        number = np.arange(len(history))
        slopes, costs = np.array([(-entry.slope, entry.cost) for entry in history]).reshape(-1, 2).T
        for axes, values, label in ((left, slopes, "|Dg| along the direction"), (right, costs, "cost")):
            axes.plot(number, values, color=COLORS[0], zorder=1)
            _marks(axes, number, values, history)
            if len(values) and values.min() > 0:
                axes.set_yscale("log")
            axes.set_xlabel("iteration")
            axes.set_ylabel(label)
            axes.xaxis.get_major_locator().set_params(integer=True)
        if len(history):
            left.legend(loc="best")
    return figure


def _marks(axes: Axes, number: Array, values: Array, history: Sequence[Iteration]) -> None:
    full = np.array([entry.method == "newton" and entry.length in (0.0, 1.0) for entry in history], dtype=bool)
    for chosen, color, label in ((full, COLORS[0], "full Newton step"), (~full, "white", "other step")):
        if chosen.any():
            look = {"markerfacecolor": color, "markeredgecolor": COLORS[0], "markersize": 5, "label": label}
            axes.plot(number[chosen], values[chosen], "o", zorder=2, **look)  # type: ignore[arg-type]


def _rates(rho_next: Array, begin: Array, dt: float) -> Array:
    rates: Array = np.diff(rho_next, axis=0, prepend=begin) / dt
    return rates


def _beside(found: Sequence[Panel], wanted: Sequence[Panel], events: Sequence[Event]) -> Figure:
    with styled():
        figure = blank(WIDTH, PANEL * len(found) + 0.4)
        rows = figure.subplots(len(found), 1, sharex=True, squeeze=False)[:, 0]
        for axes, one, other in zip(rows, found, wanted, strict=True):
            _draw_pair(axes, one, other)
            mark_events(axes, events)
        rows[-1].set_xlabel("time [s]")
    return figure


def _draw_pair(axes: Axes, found: Panel, wanted: Panel) -> None:
    """Each quantity with its reference in one colour; of many, those that move most."""
    moved = np.argsort(-np.maximum(np.ptp(found.values, axis=0), np.ptp(wanted.values, axis=0)), kind="stable")
    count = len(found.names) if len(found.names) <= len(COLORS) else SHOWN
    for color, i in zip(COLORS, sorted(moved[:count]), strict=False):
        axes.plot(wanted.t, wanted.values[:, i], color=color, linestyle=DASHES, linewidth=0.9, alpha=0.8)
        axes.plot(found.t, found.values[:, i], color=color, label=found.names[i].replace("_", " "))
    axes.plot([], [], color=INK, linestyle=DASHES, linewidth=0.9, label="reference")
    axes.set_ylabel(found.label)
    legend(axes)
