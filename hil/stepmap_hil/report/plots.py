"""Pictures of a run: the path, tracking, estimates, commands (Schultz & Murphey, Figs. 2 and 4), latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stepmap.arrays import Array
from stepmap_codegen import Controller
from stepmap_hil.report.summary import Series, common, lengths
from stepmap_hil.runs.log import errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAST = 2.0  # s, the part that Fig. 2 shows
WIDER = 2.2  # times: the panel with a whole path, than that with its end


def _axes(rows: int, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with panels above each other that share their time axis."""
    from stepmap.plots.style import blank

    made = blank(6.4, rows * height + 0.4)
    first = made.add_subplot(rows, 1, 1)
    return made, [first, *(made.add_subplot(rows, 1, k + 1, sharex=first) for k in range(1, rows))]


def tracking(controller: Controller, closed: Series, opened: Series | None) -> Figure:
    """Where the mechanism should be, and where it is with and without feedback."""
    from stepmap.plots.style import COLORS, FAINT, INK

    step = controller.plant.step
    names = [(c.name, c.unit) for c in step.system.dynamic][:3]
    made, axes = _axes(len(names), 2.0)
    for k, ((name, unit), axis) in enumerate(zip(names, axes, strict=True)):
        axis.plot(closed.time, closed.reference[:, k], color=FAINT, linewidth=4, label="reference")
        if opened is not None:
            axis.plot(opened.time, opened.coordinates[:, k], color=COLORS[1], linewidth=1.2, label="open loop")
        axis.plot(closed.time, closed.coordinates[:, k], color=COLORS[0], linewidth=1.2, label="closed loop")
        axis.set_ylabel(f"{name} [{unit}]")
        if closed.time[-1] > LAST:
            axis.axvspan(closed.time[-1] - LAST, closed.time[-1], color=INK, alpha=0.04)
        if opened is not None and opened.tick[-1] > closed.tick[-1]:
            axis.axvline(closed.time[-1], color=COLORS[0], linewidth=1.0, linestyle=":", label="ended here")
    _finish(axes)
    return made


def _finish(axes: Sequence[Axes]) -> None:
    axes[-1].set_xlabel("time [s]")
    axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4)


def setpoint(controller: Controller, closed: Series, opened: Series | None) -> Figure:
    """Paths in the plane, and their last two seconds at the set point; open loop above closed loop (Fig. 2)."""
    from stepmap.plots.style import COLORS, FAINT, INK, blank

    trials = [(closed, COLORS[0], "closed loop")]
    if opened is not None:
        trials.insert(0, (opened, COLORS[1], "open loop"))
    names = [f"{c.name} [{c.unit}]" if c.unit else c.name for c in controller.plant.step.system.dynamic]
    everything = np.vstack([closed.reference[:, :2], *(s.coordinates[:, :2] for s, _, _ in trials)])
    low, size = everything.min(axis=0), np.maximum(np.ptp(everything, axis=0), 1e-3)
    shape = min(max(size[1] / size[0], 0.2), 0.7)
    made = blank(9.2, len(trials) * (0.75 + 6.0 * shape))
    axes = made.subplots(len(trials), 2, width_ratios=(WIDER, 1.0), squeeze=False)
    target = closed.reference[-1, :2]
    # Both panels of a row have one height, and panels of a column one scale.
    around = np.array([1.0, WIDER * shape])
    around = around * 1.15 * max(0.002, *(float((np.abs(_late(s) - target) / around).max()) for s, _, _ in trials))
    for (whole, near), (s, color, name), letter in zip(axes, trials, "ab", strict=False):
        whole.plot(*closed.reference[:, :2].T, color=FAINT, linewidth=3, alpha=0.6, label="reference")
        whole.plot(*s.coordinates[:, :2].T, color=color, linewidth=0.9, label="path")
        whole.set_title(f"({letter}) {name}" if opened is not None else name)
        whole.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.2)
        near.set_title("last two seconds" if s.time[-1] > LAST else "all of it", fontweight="normal")
        for axis, centre, reach in ((whole, low + 0.5 * size, 0.54 * size), (near, target, around)):
            axis.plot(*_late(s).T, color=color, linewidth=2.2)
            axis.plot(*target, marker="+", markersize=9, markeredgewidth=1.2, color=INK, linestyle="none")
            axis.set(xlabel=names[0], ylabel=names[1], aspect="equal")
            axis.set_xlim(centre[0] - reach[0], centre[0] + reach[0])
            axis.set_ylim(centre[1] - reach[1], centre[1] + reach[1])
    return made


def _late(s: Series) -> Array:
    """The first two coordinates in the last two seconds."""
    late: Array = s.coordinates[s.time >= s.time[-1] - LAST, :2]
    return late


def commands(controller: Controller, closed: Series) -> Figure:
    """Commands from raw and from filtered measurements, as velocities (Fig. 4); forces are shown as they are."""
    from stepmap.plots.style import COLORS, FAINT

    curves = (
        (closed.plan, FAINT, 4.0, "reference"),
        (closed.raw_command, COLORS[1], 0.9, "raw measurements"),
        (closed.command, COLORS[0], 1.3, "filtered measurements"),
    )
    names = command_names(controller)[:2]
    made, axes = _axes(len(names), 2.3)
    for k, ((name, moves), axis) in enumerate(zip(names, axes, strict=True)):
        for values, color, width, label in curves:
            if moves:
                axis.plot(
                    _between(closed.time), speeds(closed, values)[:, k], color=color, linewidth=width, label=label
                )
            else:
                axis.plot(closed.time, values[:, k], color=color, linewidth=width, label=label)
        axis.set_ylabel(name)
    _finish(axes)
    return made


def command_names(controller: Controller) -> list[tuple[str, bool]]:
    """Labels of the inputs, and whether each is a position, shown by the velocity it asks for."""
    system = controller.plant.step.system
    forces = [(f"{f.name} [{f.unit}]" if f.unit else f.name, False) for f in system.inputs]
    return [*forces, *((f"velocity of {c.name} [{c.unit or 1}/s]", True) for c in system.kinematic)]


def _between(time: Array) -> Array:
    middle: Array = 0.5 * (time[1:] + time[:-1])
    return middle


def speeds(s: Series, commands: Array) -> Array:
    """Velocities that commands ask for, tick by tick: finite differences over the period, (ticks − 1, inputs)."""
    period = float(np.median(np.diff(s.time))) if len(s.time) > 1 else 1.0
    return np.diff(commands, axis=0) / period


def estimates(controller: Controller, closed: Series) -> Figure:
    """Errors of measurements and estimates, as summary.json counts them; a gap where something was not seen."""
    from stepmap.plots.style import COLORS, FAINT

    made, (axis,) = _axes(1, 2.4)
    channels = lengths(controller)
    if channels:
        raw = np.linalg.norm((closed.measured - closed.truth)[:, channels], axis=1)
        raw[~closed.valid.all(axis=1)] = np.nan
        axis.plot(closed.time, 1e3 * raw, color=FAINT, linewidth=1.0, label="measurement")
    estimated = errors(controller, closed.estimate, closed.coordinates)
    axis.plot(closed.time, 1e3 * estimated, color=COLORS[0], linewidth=1.2, label="estimate")
    axis.set_ylabel("error [mm]")
    _finish([axis])
    return made


def draw(controller: Controller, closed: Series, opened: Series | None) -> dict[str, Figure]:
    """All figures by name; CAPTIONS says what each shows."""
    from stepmap.plots.style import styled

    with styled():
        return _draw(controller, closed, opened)


def _draw(controller: Controller, closed: Series, opened: Series | None) -> dict[str, Figure]:
    made = {"tracking": tracking(controller, closed, opened)}
    if controller.plant.step.nd >= 2 and len({c.unit for c in controller.plant.step.system.dynamic[:2]}) == 1:
        made["setpoint"] = setpoint(controller, *_both(closed, opened))
    if controller.plant.step.nu:
        made["commands"] = commands(controller, closed)
    if closed.known:
        made["estimates"] = estimates(controller, closed)
    return made


def _both(closed: Series, opened: Series | None) -> tuple[Series, Series | None]:
    """Both runs over the same ticks; without any the closed loop alone."""
    if opened is None:
        return closed, None
    mine, other = common(closed, opened)
    return (mine, other) if len(mine.tick) else (closed, None)


CAPTIONS = {
    "tracking": "The motion with and without feedback; the last two seconds of a longer run are shaded, and a dotted "
    "line marks where a run ended early.",
    "setpoint": "Paths in the plane with and without feedback over the same ticks, and their last two seconds (compare "
    "Schultz & Murphey, Fig. 2).",
    "commands": "Commands, positions as the velocities they ask for: of the reference, and what the same gains make of "
    "raw and of filtered measurements (compare Schultz & Murphey, Fig. 4).",
    "estimates": "How far the simulated plant is from what is measured, in the channels that are lengths, and how far "
    "its masses are from where the estimate has them.",
}
