"""Pekarek, Fig. 3.5: the centre and the angle of a wedge that falls from one foot onto the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepmap.figures._wedge import ASSUMPTIONS, END, Rocking, benchmark, mapped
from stepmap.figures.published import Progress, Published


def make(progress: Progress) -> Published:
    """The figure."""
    truth, found = benchmark(), mapped()
    progress(0.7, "drawing")
    step = int(np.searchsorted(found.t, found.impact - 1e-12))
    return Published(
        title="A wedge goes over from one foot to the other",
        source="Pekarek, Fig. 3.5",
        caption="Left: the path of the centre of mass. Right: the angle over time; the dotted line is the impact.",
        figure=_draw(truth, found),
        rows=[
            {"t": float(t), "x": float(x), "y": float(y), "theta": float(theta)}
            for t, (x, y, theta) in zip(found.t, found.q, strict=True)
        ],
        key_figures=[
            ("impact in step", f"{step} (printed: 16)"),
            ("time of impact", f"{found.impact:.4f} s (printed: 0.158 s)"),
            ("off the benchmark's", f"{abs(found.impact - truth.impact):.3g} s (printed: 3.75e-05 s)"),
        ],
        assumptions=ASSUMPTIONS,
    )


def _draw(truth: Rocking, found: Rocking) -> Any:
    from stepmap.plots.style import COLORS, FAINT, blank, styled

    with styled():
        figure = blank(8.0, 3.4)
        path, angle = figure.subplots(1, 2)
        path.plot(1e3 * truth.q[:, 0], 1e3 * truth.q[:, 1], color=COLORS[0], label="benchmark")
        path.plot(1e3 * found.q[:, 0], 1e3 * found.q[:, 1], "o", color=COLORS[1], markersize=4, label="map, 10 ms")
        path.set_aspect("equal", adjustable="datalim")
        path.set_xlabel("x [mm]")
        path.set_ylabel("y [mm]")
        angle.axvline(found.impact, color=FAINT, linestyle=":")
        angle.plot(truth.t, truth.q[:, 2], color=COLORS[0])
        angle.plot(found.t, found.q[:, 2], "o", color=COLORS[1], markersize=4)
        angle.set_xlim(0, END)
        angle.set_xlabel("time [s]")
        angle.set_ylabel("θ [rad]")
        handles, labels = path.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure
