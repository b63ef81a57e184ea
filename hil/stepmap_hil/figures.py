"""Pictures of a run: the path, tracking, estimates, commands (Schultz & Murphey, Figs. 2 and 4), latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stepmap_codegen import Controller
from stepmap_hil.summary import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAST = 2.0  # s, the part that Fig. 2 shows


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
        axis.axvspan(max(closed.time[-1] - LAST, 0.0), closed.time[-1], color=INK, alpha=0.04)
    _finish(axes)
    return made


def _finish(axes: Sequence[Axes]) -> None:
    axes[-1].set_xlabel("time [s]")
    axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)


def setpoint(controller: Controller, closed: Series, opened: Series | None) -> Figure:
    """The last two seconds in the plane, at the set point (Fig. 2)."""
    from stepmap.plots.style import COLORS, FAINT, INK

    made, (axis,) = _axes(1, 4.2)
    for s, color, label in ((opened, COLORS[1], "open loop"), (closed, COLORS[0], "closed loop")):
        if s is not None:
            late = s.time >= s.time[-1] - LAST
            axis.plot(s.coordinates[late, 0], s.coordinates[late, 1], color=color, linewidth=1.4, label=label)
    target = closed.reference[-1, :2]
    axis.plot(*target, marker="+", markersize=14, color=INK, linestyle="none", label="set point")
    axis.plot(closed.reference[:, 0], closed.reference[:, 1], color=FAINT, linewidth=0.8, zorder=0)
    names = [f"{c.name} [{c.unit}]" for c in controller.plant.step.system.dynamic]
    axis.set_xlabel(names[0])
    axis.set_ylabel(names[1])
    axis.set_aspect("equal")
    spread = [np.abs(s.coordinates[s.time >= s.time[-1] - LAST, :2] - target).max() for s in (opened, closed) if s]
    reach = 1.3 * max(*spread, 0.01) if len(spread) > 1 else 1.3 * max(spread[0], 0.01)
    axis.set_xlim(target[0] - reach, target[0] + reach)
    axis.set_ylim(target[1] - reach, target[1] + reach)
    axis.legend(loc="upper right")
    return made


def commands(controller: Controller, closed: Series) -> Figure:
    """Commands from raw and from filtered measurements (Fig. 4)."""
    from stepmap.plots.style import COLORS, FAINT

    names = list(controller.plant.step.input_names)[:2]
    made, axes = _axes(len(names), 2.0)
    for k, (name, axis) in enumerate(zip(names, axes, strict=True)):
        axis.plot(closed.time, closed.raw_command[:, k], color=FAINT, linewidth=1.0, label="from raw measurements")
        axis.plot(closed.time, closed.command[:, k], color=COLORS[0], linewidth=1.2, label="from the estimate")
        axis.set_ylabel(name)
    _finish(axes)
    return made


def estimates(controller: Controller, closed: Series) -> Figure:
    """Errors of measurements and estimates."""
    from stepmap.plots.style import COLORS, FAINT

    nd = controller.plant.step.nd
    made, (axis,) = _axes(1, 2.4)
    raw = np.linalg.norm((closed.measured - closed.truth)[:, :nd], axis=1)
    made_of = np.linalg.norm(closed.estimate[:, :nd] - closed.coordinates[:, :nd], axis=1)
    axis.plot(closed.time, 1e3 * raw, color=FAINT, linewidth=1.0, label="measurement")
    axis.plot(closed.time, 1e3 * made_of, color=COLORS[0], linewidth=1.2, label="estimate")
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
    if controller.plant.step.nd >= 2:
        made["setpoint"] = setpoint(controller, closed, opened)
    if controller.plant.step.nu:
        made["commands"] = commands(controller, closed)
    made["estimates"] = estimates(controller, closed)
    return made


CAPTIONS = {
    "tracking": "The motion with and without feedback; the last two seconds, at the set point, are shaded.",
    "setpoint": "The last two seconds in the plane (compare Schultz & Murphey, Fig. 2).",
    "commands": "Commands that the same gains make of raw measurements and of the estimate (compare their Fig. 4).",
    "estimates": "How far measurements and estimates are from the simulated plant.",
}
