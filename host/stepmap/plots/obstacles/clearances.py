"""Room between what moves and what stands, over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from stepmap.arrays import Array
from stepmap.geometry.room import Room
from stepmap.plots.figures import PANEL, WIDTH
from stepmap.plots.style import COLORS, FAINT, INK, blank, styled

LOOKS = {"reference": (FAINT, 3.0), "open loop": (COLORS[1], 1.2)}


def clearances(curves: Mapping[str, tuple[Array, Sequence[Room]]]) -> Figure:
    """A panel per clearance with a curve per motion, its times and rooms by name; margins dashed, contact shaded."""
    labels = [room.label for room in next(iter(curves.values()))[1]]
    with styled():
        figure = blank(WIDTH, 1.35 * PANEL * len(labels) + 0.5)
        rows = figure.subplots(len(labels), 1, sharex=True, squeeze=False)[:, 0]
        for i, (axes, label) in enumerate(zip(rows, labels, strict=True)):
            for name, (t, rooms) in curves.items():
                color, width = LOOKS.get(name, (COLORS[0], 1.4))
                axes.plot(t, rooms[i].values, color=color, linewidth=width, label=name)
            margin = next(iter(curves.values()))[1][i].margin
            if margin > 0:
                axes.axhline(margin, color=INK, linestyle="--", linewidth=0.9, label="margin")
            shown = np.concatenate([rooms[i].values for name, (_, rooms) in curves.items() if name != "open loop"])
            axes.set_ylim(min(0.0, float(shown.min())) - 0.05 * float(np.ptp(shown)), 1.1 * float(shown.max()))
            axes.axhspan(-1e3, 0.0, color=COLORS[1], alpha=0.12, linewidth=0)
            axes.set_title(label, fontsize=9, fontweight="normal")
            axes.set_ylabel("room [m]")
        rows[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4)
        rows[-1].set_xlabel("time [s]")
    return figure
