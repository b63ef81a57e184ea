"""Kobilarov et al., Fig. 4: attitude and position of the helicopter over time."""

from __future__ import annotations

from typing import Any

from stepmap.figures.canyon._canyon import ASSUMPTIONS, Flight, flight
from stepmap.figures.published import Progress, Published

ANGLES, PLACES = ("roll", "pitch", "yaw"), ("x", "y", "z")


def make(progress: Progress) -> Published:
    """The figure."""
    found = flight(progress)
    return Published(
        title="Attitude and position over time",
        source="Kobilarov et al., Fig. 4",
        caption="Left: turns about x, then y, then z of the world. Right: the centre of mass.",
        figure=_draw(found),
        rows=[
            {"t": float(t), **dict(zip((*ANGLES, *PLACES), map(float, (*turns, *pose[:3])), strict=True))}
            for t, turns, pose in zip(found.t, found.angles, found.poses, strict=True)
        ],
        key_figures=found.key_figures,
        assumptions=ASSUMPTIONS,
    )


def _draw(found: Flight) -> Any:
    from stepmap.plots.style import COLORS, blank, styled

    with styled():
        figure = blank(8.6, 3.4)
        turned, placed = figure.subplots(1, 2)
        for axes, names, values in ((turned, ANGLES, found.angles), (placed, PLACES, found.poses)):
            for color, name, column in zip(COLORS, names, values.T, strict=False):
                axes.plot(found.t, column, color=color, label=name)
            axes.set_xlabel("time [s]")
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
        turned.set_ylabel("angle [rad]")
        placed.set_ylabel("position [m]")
    return figure
