"""Pictures of a run: the path, tracking, estimates, commands (Schultz & Murphey, Figs. 2 and 4), latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stepmap import units
from stepmap.arrays import Array
from stepmap.geometry import Shape
from stepmap.mechanics.quantity import Coordinate, Input
from stepmap.mechanics.system import System
from stepmap_codegen import Controller
from stepmap_hil.report.quantities import bodies_travel
from stepmap_hil.report.series import Series, common
from stepmap_hil.report.summary import measured_in
from stepmap_hil.runs.log import errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAST = 2.0  # s, the part that Fig. 2 shows
PANELS = 6  # of coordinates or inputs in a figure
CUT = 2.0  # times its own range by which a panel is higher than what it is about
TALL, FLAT = 0.7, 0.2  # height over width of a picture of a path
WIDER = 2.2  # times: the panel with a whole path, than that with its end


def _axes(rows: int, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with panels above each other that share their time axis."""
    from stepmap.plots.style import blank

    made = blank(6.4, rows * height + 0.4)
    first = made.add_subplot(rows, 1, 1)
    return made, [first, *(made.add_subplot(rows, 1, k + 1, sharex=first) for k in range(1, rows))]


def tracking(controller: Controller, closed: Series, opened: Series | None, angles: str = "rad") -> Figure:
    """Where the mechanism should be, and where it is with and without feedback: a panel per coordinate."""
    from stepmap.plots.style import COLORS, FAINT, INK

    chosen = moving_most(controller, closed)
    made, axes = _axes(len(chosen), 2.0 if len(chosen) <= 3 else 1.5)
    for k, axis in zip(chosen, axes, strict=True):
        coordinate = controller.plant.step.system.dynamic[k]
        shown = units.whole(coordinate.unit, angles)
        axis.plot(closed.time, shown.factor * closed.reference[:, k], color=FAINT, linewidth=4, label="reference")
        if opened is not None:
            axis.plot(
                opened.time, shown.factor * opened.coordinates[:, k], color=COLORS[1], linewidth=1.2, label="open loop"
            )
        axis.plot(
            closed.time, shown.factor * closed.coordinates[:, k], color=COLORS[0], linewidth=1.2, label="closed loop"
        )
        _around(axis, shown.factor * np.concatenate([closed.reference[:, k], closed.coordinates[:, k]]))
        axis.set_ylabel(shown.label(coordinate.name))
        if closed.time[-1] > LAST:
            axis.axvspan(closed.time[-1] - LAST, closed.time[-1], color=INK, alpha=0.04)
        if opened is not None and opened.tick[-1] > closed.tick[-1]:
            axis.axvline(closed.time[-1], color=COLORS[0], linewidth=1.0, linestyle=":", label="ended here")
    _finish(axes)
    return made


def moving_most(controller: Controller, closed: Series) -> list[int]:
    """Coordinates with a panel of their own: all, or those that move most compared with others of their unit."""
    system = controller.plant.step.system
    reach = np.ptp(
        np.concatenate([closed.reference[:, : len(system.dynamic)], closed.coordinates[:, : len(system.dynamic)]]),
        axis=0,
    )
    largest = {
        c.unit: max(r for r, o in zip(reach, system.dynamic, strict=True) if o.unit == c.unit) for c in system.dynamic
    }
    part = [r / max(largest[c.unit], 1e-12) for r, c in zip(reach, system.dynamic, strict=True)]
    return sorted(sorted(range(len(part)), key=lambda k: -part[k])[:PANELS])


def _around(axis: Axes, values: Array) -> None:
    """Limits that show these values, however far an open loop went: it is cut off where it is off by far."""
    low, high = float(values.min()), float(values.max())
    room = CUT * max(high - low, 1e-9)
    bottom, top = axis.get_ylim()
    if bottom < low - room or top > high + room:
        axis.set_ylim(max(bottom, low - room), min(top, high + room))


def _finish(axes: Sequence[Axes]) -> None:
    """Names the time axis, and all curves once, above the first panel."""
    axes[-1].set_xlabel("time [s]")
    curves = [axis.get_legend_handles_labels() for axis in axes]
    named = {label: handle for handles, labels in curves for handle, label in zip(handles, labels, strict=True)}
    axes[0].legend(named.values(), named.keys(), loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4)


def setpoint(controller: Controller, closed: Series, opened: Series | None) -> Figure:
    """Paths in the plane, and their last two seconds at the set point; open loop above closed loop (Fig. 2)."""
    from stepmap.plots.style import COLORS, FAINT, INK, blank

    trials = [(closed, COLORS[0], "closed loop")]
    if opened is not None:
        trials.insert(0, (opened, COLORS[1], "open loop"))
    names = [f"{c.name} [{c.unit}]" if c.unit else c.name for c in controller.plant.step.system.dynamic]
    wanted = np.vstack([closed.reference[:, :2], closed.coordinates[:, :2]])
    room = max(float(np.ptp(wanted, axis=0).max()), 1e-3)  # an open loop that goes farther away is cut off
    everything = np.vstack([wanted, *(s.coordinates[:, :2] for s, _, _ in trials)])
    everything = everything.clip(wanted.min(axis=0) - room, wanted.max(axis=0) + room)
    low, size = everything.min(axis=0), np.maximum(np.ptp(everything, axis=0), 1e-3)
    middle = low + 0.5 * size
    shape = min(max(size[1] / size[0], FLAT), TALL)
    size = np.maximum(size, [size[1] / shape, size[0] * shape])  # a path along an axis has room beside it
    made = blank(9.2, len(trials) * (0.75 + 6.0 * shape))
    axes = made.subplots(len(trials), 2, width_ratios=(WIDER, 1.0), squeeze=False)
    target = closed.reference[-1, :2]
    # Both panels of a row have one height, and panels of a column one scale.
    around = np.array([1.0, WIDER * shape])
    farthest = [min(float((np.abs(_late(s) - target) / around).max()), 0.5 * room) for s, _, _ in trials]
    around = around * 1.15 * max(0.002, *farthest)
    for (whole, near), (s, color, name), letter in zip(axes, trials, "ab", strict=False):
        whole.plot(*closed.reference[:, :2].T, color=FAINT, linewidth=3, alpha=0.6, label="reference")
        whole.plot(*s.coordinates[:, :2].T, color=color, linewidth=0.9, label="path")
        whole.set_title(f"({letter}) {name}" if opened is not None else name)
        whole.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.2)
        near.set_title("last two seconds" if s.time[-1] > LAST else "all of it", fontweight="normal")
        for axis, centre, reach in ((whole, middle, 0.54 * size), (near, target, around)):
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


def commands(controller: Controller, closed: Series, angles: str = "rad") -> Figure:
    """Commands from raw and from filtered measurements, as velocities (Fig. 4); forces are shown as they are."""
    from stepmap.plots.style import COLORS, FAINT, INK

    curves = (
        (closed.plan, FAINT, 4.0, "reference"),
        (closed.raw_command, COLORS[1], 0.9, "raw measurements"),
        (closed.command, COLORS[0], 1.3, "filtered measurements"),
    )
    system = controller.plant.step.system
    first = len(system.inputs)  # positions come behind forces
    declared: list[Input | Coordinate] = [*system.inputs, *system.kinematic]
    names = command_names(controller, angles)[:PANELS]
    made, axes = _axes(len(names), 2.3 if len(names) <= 3 else 1.7)
    for k, (name, axis) in enumerate(zip(names, axes, strict=True)):
        unit, low, high = declared[k].unit, declared[k].low, declared[k].high
        factor = units.whole(unit, angles).factor
        for values, color, width, label in curves:
            if k >= first:
                rates = factor * speeds(closed, values)[:, k]
                axis.plot(_between(closed.time), rates, color=color, linewidth=width, label=label)
            else:
                axis.plot(closed.time, values[:, k], color=color, linewidth=width, label=label)
        if k < first:
            _around(axis, closed.command[:, k])
            for limit in (low, high):
                if limit is not None and axis.get_ylim()[0] <= limit <= axis.get_ylim()[1]:
                    axis.axhline(limit, color=INK, linewidth=0.8, linestyle="--", label="_limit")
        axis.set_ylabel(name)
    _finish(axes)
    return made


def command_names(controller: Controller, angles: str = "rad") -> list[str]:
    """Labels of the inputs: forces, then the velocities that commanded positions ask for."""
    system = controller.plant.step.system
    forces = [units.whole(f.unit).label(f.name) for f in system.inputs]
    return [
        *forces,
        *(units.whole(f"{c.unit or 1}/s", angles).label(f"velocity of {c.name}") for c in system.kinematic),
    ]


def _between(time: Array) -> Array:
    middle: Array = 0.5 * (time[1:] + time[:-1])
    return middle


def speeds(s: Series, commands: Array) -> Array:
    """Velocities that commands ask for, tick by tick: finite differences over the period, (ticks − 1, inputs)."""
    period = float(np.median(np.diff(s.time))) if len(s.time) > 1 else 1.0
    return np.diff(commands, axis=0) / period


def estimates(controller: Controller, closed: Series, angles: str = "rad") -> Figure:
    """Errors of measurements and estimates, as summary.json counts them; a gap where something was not seen."""
    from stepmap.plots.style import COLORS, FAINT

    panels = off_panels(controller, closed.estimate, closed.coordinates)
    made, axes = _axes(len(panels), 2.4 if len(panels) == 1 else 1.9)
    for (unit, estimated), axis in zip(panels, axes, strict=True):
        shown, channels = units.small(unit, angles), measured_in(controller, unit)
        if channels:
            raw = np.linalg.norm((closed.measured - closed.truth)[:, channels], axis=1)
            raw[~closed.valid.all(axis=1)] = np.nan
            axis.plot(closed.time, shown.factor * raw, color=FAINT, linewidth=1.0, label="measurement")
        axis.plot(closed.time, shown.factor * estimated, color=COLORS[0], linewidth=1.2, label="estimate")
        axis.set_ylabel(shown.label("error" if len(panels) == 1 else f"error of {_plural(unit, controller)}"))
    _finish(axes)
    return made


def tracking_errors(controller: Controller, closed: Series, opened: Series | None, angles: str = "rad") -> Figure:
    """How far the mechanism is off its reference with and without feedback: a panel per unit."""
    from stepmap.plots.style import COLORS

    mine = off_panels(controller, closed.coordinates, closed.reference)
    others = dict(off_panels(controller, opened.coordinates, opened.reference)) if opened is not None else {}
    made, axes = _axes(len(mine), 2.0 if len(mine) == 1 else 1.6)
    for (unit, off), axis in zip(mine, axes, strict=True):
        shown = units.small(unit, angles)
        if opened is not None:
            axis.plot(
                opened.time, shown.factor * others[unit], color=COLORS[1], linewidth=1.2, label="open loop", zorder=1
            )
        axis.plot(closed.time, shown.factor * off, color=COLORS[0], linewidth=1.2, label="closed loop")
        axis.set_ylim(bottom=0.0)
        _around(axis, shown.factor * np.append(off, 0.0))
        axis.set_ylabel(shown.label("error" if len(mine) == 1 else f"error of {_plural(unit, controller)}"))
    _finish(axes)
    return made


def off_panels(controller: Controller, states: Array, other: Array) -> list[tuple[str, Array]]:
    """(unit, distance) between poses or states: how far the masses are off, then coordinates that are no lengths."""
    step = controller.plant.step
    found: list[tuple[str, Array]] = []
    if bodies_travel(step.system):
        found.append(("m", errors(controller, states, other)))
    tangent = step.system.tangent
    off = tangent.difference(step.layout.pose(other), step.layout.pose(states))
    kinds = [unit for _, unit in tangent.entries[: tangent.nd]]
    for unit in dict.fromkeys(kinds):
        if unit != "m" or not found:
            found.append((unit, np.linalg.norm(off[:, [k for k, of in enumerate(kinds) if of == unit]], axis=1)))
    return found


def _plural(unit: str, controller: Controller) -> str:
    tangent = controller.plant.step.system.tangent
    names = [name for name, of in tangent.entries[: tangent.nd] if of == unit]
    return "masses" if unit == "m" else names[0] if len(names) == 1 else units.plural(unit)


def draw(
    controller: Controller,
    closed: Series,
    opened: Series | None,
    angles: str = "rad",
    shapes: Sequence[Shape] = (),
) -> dict[str, Figure]:
    """All figures by name; `captions` says what each shows. ``shapes`` are obstacles."""
    from stepmap.plots.style import styled

    with styled():
        made = {"motion": motion(controller, closed, shapes), "tracking": tracking(controller, closed, opened, angles)}
        made["errors"] = tracking_errors(controller, closed, opened, angles)
        if two_lengths(controller):
            made["setpoint"] = setpoint(controller, *_both(closed, opened))
        if controller.plant.step.nu:
            made["commands"] = commands(controller, closed, angles)
        if closed.known:
            made["estimates"] = estimates(controller, closed, angles)
    return made


def motion(controller: Controller, closed: Series, shapes: Sequence[Shape] = ()) -> Figure:
    """The mechanism at several times of the run, with the paths of its masses and those of the reference."""
    from stepmap.plots.figures import poses
    from stepmap.plots.motion import Motion

    step = controller.plant.step
    run = Motion.of(step.system, closed.time, closed.coordinates, shapes)
    return poses(run, step.layout.pose(closed.reference), "plant" if closed.known else "estimate")


def two_lengths(controller: Controller) -> bool:
    """Whether the first two coordinates span a plane in which a path can be drawn."""
    dynamic = controller.plant.step.system.dynamic
    return len(dynamic) >= 2 and all(c.unit == "m" for c in dynamic[:2])


def _both(closed: Series, opened: Series | None) -> tuple[Series, Series | None]:
    """Both runs over the same ticks; without any the closed loop alone."""
    if opened is None:
        return closed, None
    mine, other = common(closed, opened)
    return (mine, other) if len(mine.tick) else (closed, None)


def captions(controller: Controller, *, compared: bool = True) -> dict[str, str]:
    """What each figure shows, in the words of this system; ``compared``: there is an open loop to compare with."""
    system, known = controller.plant.step.system, len(controller.plant.step.system.dynamic)
    x, y = ([c.name for c in system.dynamic] + ["", ""])[:2]
    most = f", of {PANELS} of {known} coordinates, those that move most" if known > PANELS else ""
    both = " with and without feedback" if compared else ""
    far = " An open loop that goes far away is cut off." if compared else ""
    forces, positions = bool(system.inputs), bool(system.kinematic)
    which = {
        (True, False): "Inputs",
        (False, True): "Commands, positions as the velocities they ask for",
        (True, True): "Commands, forces as they are and positions as the velocities they ask for",
    }.get((forces, positions), "Commands")
    off = "masses are" if only_lengths(system) else "masses, and coordinates that are no lengths, are"
    apart = "" if only_lengths(system) else ", and coordinates that are no lengths from their estimates"
    return {
        "motion": "The mechanism at times evenly spaced, the last one strongest, and the paths of its masses; the "
        "paths of the reference are broad and grey.",
        "tracking": f"The motion{both}{most}; the last two seconds of a longer run are shaded, and "
        f"a dotted line marks where a run ended early.{far}",
        "errors": f"How far {off} from the reference{both}.{far}",
        "setpoint": f"Paths in the plane of {x} and {y}{both}{' over the same ticks' * compared}, and their last "
        "two seconds (compare Schultz & Murphey, Fig. 2).",
        "commands": f"{which}: of the reference, and what the same gains make of raw and of filtered measurements "
        f"(compare Schultz & Murphey, Fig. 4).{' Dashed lines are limits.' if forces else ''}",
        "estimates": "How far the simulated plant is from what is measured, in the channels that measure the "
        f"mechanism, and how far its masses are from where the estimate has them{apart}.",
    }


def only_lengths(system: System) -> bool:
    return all(c.unit == "m" for c in system.dynamic)
