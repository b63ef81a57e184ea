"""Kobilarov et al., Fig. 5: forces of both rotors and angles of the main rotor's blades over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepmap.figures.canyon._canyon import ASSUMPTIONS, Flight, flight
from stepmap.figures.published import Progress, Published

NAMES = ("lift", "yaw", "pitch", "roll")  # u_c and u_ψ [N], α_p and α_r [rad]


def make(progress: Progress) -> Published:
    """The figure."""
    found = flight(progress)
    u = found.solution.trajectory.u
    return Published(
        title="Forces and angles of the blades over time",
        source="Kobilarov et al., Fig. 5",
        caption="Left: forces of the main rotor and of the tail's. Right: the main rotor's tilt, forward and sideways.",
        figure=_draw(found),
        rows=[
            {"t": float(t), **dict(zip(NAMES, map(float, row), strict=True))}
            for t, row in zip(found.t[:-1], u, strict=True)
        ],
        key_figures=[
            *found.key_figures,
            ("lift", f"{u[:, 0].min():.1f} to {u[:, 0].max():.1f} N"),
            ("largest tilt", f"{np.abs(u[:, 2:]).max():.3f} rad"),
        ],
        assumptions=ASSUMPTIONS,
    )


def _draw(found: Flight) -> Any:
    from stepmap.plots.style import COLORS, blank, styled

    u, labels = found.solution.trajectory.u, ("collective u_c", "yaw u_ψ", "pitch α_p", "roll α_r")
    with styled():
        figure = blank(8.6, 3.4)
        pushed, tilted = figure.subplots(1, 2)
        for i, label in enumerate(labels):
            axes = (pushed, tilted)[i // 2]
            axes.step(found.t, np.append(u[:, i], u[-1, i]), where="post", color=COLORS[i], label=label)
        for axes, label in ((pushed, "force [N]"), (tilted, "angle [rad]")):
            axes.set_xlabel("time [s]")
            axes.set_ylabel(label)
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    return figure
