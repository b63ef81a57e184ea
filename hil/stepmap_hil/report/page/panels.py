"""Charts of a run: errors, coordinates with ± 3 σ, innovations, NIS, commands, following errors, tick time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from stepmap.arrays import Array
from stepmap.report.charts import Chart, Limit, Line, Ribbon
from stepmap.units import small, whole
from stepmap_hil.report.page.view import RunView
from stepmap_hil.report.plots import off_panels
from stepmap_hil.runs.diagnosis import NIS_LIMIT

MOST = 8  # coordinates or inputs with a chart of their own
TOGETHER = 6  # lines of a chart
WINDOW = 16  # ticks, over which squares of innovations are averaged
WIDTH = 3.0  # σ, of the ribbon around an estimate


def charts(view: RunView) -> list[Chart]:
    """All charts of a run, from the question to the details."""
    makers: list[Callable[[RunView], Iterator[Chart]]] = [
        *(tracking, coordinates, innovations, nis, forces, positions, following, timing)
    ]
    return [chart for make in makers for chart in make(view)]


def tracking(view: RunView) -> Iterator[Chart]:
    """How far masses and angles are off their reference, with and without feedback."""
    s, o = view.series, view.opened
    others = dict(off_panels(view.controller, o.coordinates, o.reference)) if o is not None else {}
    estimates = dict(off_panels(view.controller, s.estimate, s.coordinates)) if s.known else {}
    for unit, off in off_panels(view.controller, s.coordinates, s.reference):
        shown = small(unit, view.angles)
        lines = [Line("from the reference", shown.factor * view.place(off), "plant")]
        if unit in estimates:
            lines.append(Line("estimate from the plant", shown.factor * view.place(estimates[unit]), "estimate"))
        if unit in others:
            far = shown.factor * view.place(others[unit], o)
            lines.insert(0, Line("without feedback", far, "open", scaled=False))
        of = "masses" if unit == "m" else "angles" if unit == "rad" else "coordinates"
        yield Chart(f"tracking-{unit or '1'}", f"Error of {of}", shown.symbol, tuple(lines), low=0.0)


def coordinates(view: RunView) -> Iterator[Chart]:
    """Each coordinate minus its reference, and the estimate with three standard deviations on either side."""
    step, s, o = view.controller.plant.step, view.series, view.opened
    tangent, layout, sigma = step.system.tangent, step.layout, view.history.sigma
    plant = tangent.difference(layout.pose(s.reference), s.coordinates)
    estimate = tangent.difference(layout.pose(s.reference), layout.pose(s.estimate))
    without = None if o is None else tangent.difference(layout.pose(o.reference), o.coordinates)
    for k in chosen(plant, [unit for _, unit in tangent.entries]):
        name, unit = tangent.entries[k]
        shown = small(unit, view.angles)
        middle, wide = (view.place(shown.factor * values) for values in (estimate[:, k], WIDTH * sigma[:, k]))
        lines = [Line("estimate", middle, "estimate")]
        if s.known:
            lines.insert(0, Line("plant", view.place(shown.factor * plant[:, k]), "plant"))
        if without is not None:
            lines.insert(0, Line("without feedback", view.place(shown.factor * without[:, k], o), "open", scaled=False))
        ribbons = (Ribbon("estimate ± 3 σ", middle - wide, middle + wide),) if np.isfinite(wide).any() else ()
        base = None if tangent.balls else shown.factor * view.place(layout.pose(s.reference)[:, k])
        title = f"{name}, minus its reference, with the estimate ± 3 σ"
        yield Chart(f"coordinate-{name}", title, shown.symbol, tuple(lines), ribbons, base=base)


def chosen(values: Array, units: list[str]) -> list[int]:
    """Columns with a chart: all, or those that are largest compared with others of their unit."""
    if values.shape[1] <= MOST:
        return list(range(values.shape[1]))
    reach = np.abs(values).max(axis=0)
    largest = {unit: max(r for r, of in zip(reach, units, strict=True) if of == unit) for unit in units}
    part = [r / max(largest[unit], 1e-12) for r, unit in zip(reach, units, strict=True)]
    return sorted(sorted(range(len(part)), key=lambda k: -part[k])[:MOST])


def innovations(view: RunView) -> Iterator[Chart]:
    """Measured minus expected, in standard deviations, with the gate; what it rejected is red."""
    history, gate = view.history, view.controller.plant.settings.gate
    names = [name for name, _ in view.controller.plant.step.system.sensor_channels]
    if not np.isfinite(history.innovation).any():
        return
    limits = () if gate is None else (Limit(gate, f"gate, {gate:g} σ"), Limit(-gate, ""))
    for first in range(0, len(names), TOGETHER):
        group = list(enumerate(names))[first : first + TOGETHER]
        lines = [Line(name, view.place(history.innovation[:, k]), f"c{k % 8}", width=1.1) for k, name in group]
        out = np.where(history.taken | ~np.isfinite(history.innovation), np.nan, history.innovation)
        lines += [
            Line(f"{name} rejected", view.place(out[:, k]), "limit", points=True)
            for k, name in group
            if np.isfinite(out[:, k]).any()
        ]
        key = f"innovation-{first // TOGETHER}" if first else "innovation"
        yield Chart(key, "Innovations", "σ", tuple(lines), limits=limits)


def nis(view: RunView) -> Iterator[Chart]:
    """The mean squared innovation of the last ticks, with the band in which a filter that fits is 95 % of the time."""
    squares, count = view.history.squares, view.history.taken.sum(axis=1).astype(float)
    if not np.isfinite(squares).any():
        return
    mean, low, high = windowed(squares, count)
    lines = (Line(f"over {WINDOW} ticks", view.place(mean), "estimate"),)
    ribbons = (Ribbon("95 % band", view.place(low), view.place(high), "other"),)
    yield Chart(
        "nis",
        "Mean squared innovation (NIS per channel)",
        "σ²",
        lines,
        ribbons,
        limits=(Limit(NIS_LIMIT, f"limit of the supervisor, {NIS_LIMIT:g}"),),
        low=0.0,
        note="1 is expected; above the band the filter is too sure of itself, below it too cautious.",
    )


def windowed(squares: Array, count: Array) -> tuple[Array, Array, Array]:
    """Mean of the squares of the last ticks per channel, with its 95 % band, by the chi-square law."""
    from scipy.special import chdtri

    sums = np.where(np.isfinite(squares), squares * count, 0.0)
    window = np.ones(WINDOW)
    total, degrees = (np.convolve(values, window)[: len(values)] for values in (sums, count))
    known = degrees > 0
    safe = np.where(known, degrees, 1.0)
    found = [total / safe, chdtri(safe, 0.975) / safe, chdtri(safe, 0.025) / safe]
    mean, low, high = (np.where(known, values, np.nan) for values in found)
    return mean, low, high


def forces(view: RunView) -> Iterator[Chart]:
    """Forces that were commanded, with those of the plan, limits, and ticks at a limit."""
    system, s = view.controller.plant.step.system, view.series
    for k, given in list(enumerate(system.inputs))[:MOST]:
        shown = whole(given.unit, view.angles)
        command = shown.factor * s.command[:, k]
        bounds = [shown.factor * value for value in (given.low, given.high) if value is not None]
        near = 1e-3 * (max(bounds) - min(bounds)) if len(bounds) == 2 else 0.0
        at = np.any([np.abs(command - value) <= near for value in bounds], axis=0) if bounds else np.zeros(len(command))
        lines = [
            Line("plan", view.place(shown.factor * s.plan[:, k]), "reference", width=3.0),
            Line("command", view.place(command), "plant"),
        ]
        if np.any(at):
            lines.append(Line("at its limit", view.place(np.where(at, command, np.nan)), "limit", points=True))
        limits = tuple(Limit(value, "limit") for value in bounds)
        yield Chart(f"command-{given.name}", f"Command of {given.name}", shown.symbol, tuple(lines), limits=limits)


def positions(view: RunView) -> Iterator[Chart]:
    """Positions that were commanded, as the velocities they ask for, with the fastest that an axis may go."""
    step, s = view.controller.plant.step, view.series
    first = len(step.system.inputs)
    for k, moved in list(enumerate(step.system.kinematic))[:MOST]:
        shown = whole(f"{moved.unit}/s", view.angles)
        fastest = shown.factor * view.controller.axes[first + k].speed
        command, plan = (
            shown.factor * np.diff(view.place(values[:, first + k]), append=np.nan) / step.dt
            for values in (s.command, s.plan)
        )
        lines = [Line("plan", plan, "reference", width=3.0), Line("command", command, "plant")]
        with np.errstate(invalid="ignore"):
            at = np.abs(command) >= (1 - 1e-3) * fastest
        if at.any():
            lines.append(Line("at its limit", np.where(at, command, np.nan), "limit", points=True))
        limits = (Limit(fastest, "fastest"), Limit(-fastest, "fastest"))
        title = f"Command of {moved.name}, as a velocity"
        yield Chart(f"command-{moved.name}", title, shown.symbol, tuple(lines), limits=limits)


def following(view: RunView) -> Iterator[Chart]:
    """How far motors are behind their commands."""
    step, s = view.controller.plant.step, view.series
    first = len(step.system.inputs)
    by_unit: dict[str, list[int]] = {}
    for k, moved in enumerate(step.system.kinematic):
        by_unit.setdefault(moved.unit, []).append(k)
    for unit, columns in by_unit.items():
        shown = small(unit, view.angles)
        axes = [view.controller.axes[first + k] for k in columns]
        least = shown.factor * min(axis.following_limit for axis in axes)
        lines = tuple(
            Line(
                step.system.kinematic[k].name,
                view.place(shown.factor * (s.command[:, first + k] - s.coordinates[:, step.layout["rho"]][:, k])),
                f"c{k % 8}",
                width=1.2,
            )
            for k in columns[:TOGETHER]
        )
        limits = (Limit(least, "following limit"), Limit(-least, "following limit"))
        yield Chart(f"following-{unit}", "Motors behind their commands", shown.symbol, lines, limits=limits)


def timing(view: RunView) -> Iterator[Chart]:
    """From the frame to the command, by the computer's clock; in lock-step there is nothing to tell."""
    if view.run.lockstep:
        return
    rows = {row.tick: row for row in view.run.rows if row.running and row.measured}
    found = np.array(
        [[getattr(rows.get(int(k)), name, np.nan) for name in ("latency_ms", "jitter_ms")] for k in view.ticks]
    )
    lines = (
        Line("from the frame to the command", found[:, 0], "plant", width=1.2),
        Line("the frame was late by", found[:, 1], "measured", width=1.2),
    )
    period = 1e3 * view.controller.program.period
    yield Chart("timing", "Tick time", "ms", lines, limits=(Limit(period, "period"),), low=0.0)
