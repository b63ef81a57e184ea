"""Kobilarov et al., Fig. 3: the flight through the canyon from above and from the side."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepmap.figures.canyon._canyon import ASSUMPTIONS, Flight, flight
from stepmap.figures.published import Progress, Published

TAIL, NOSE = -1.0, 0.7  # m, of the body's outline along its axis
EVERY = 4  # nodes between two outlines


def make(progress: Progress) -> Published:
    """The figure."""
    found = flight(progress)
    return Published(
        title="The flight from above and from the side",
        source="Kobilarov et al., Fig. 3",
        caption="Above: the rock's heights and the path. Below: the path over the rock below it; lines are the body.",
        figure=_draw(found),
        rows=[
            {"t": float(t), "x": float(x), "y": float(y), "z": float(z)}
            for t, (x, y, z) in zip(found.t, found.poses[:, :3], strict=True)
        ],
        key_figures=found.key_figures,
        assumptions=ASSUMPTIONS,
    )


def _draw(found: Flight) -> Any:
    from stepmap.plots.style import COLORS, GRID, INK, blank, styled

    x, y, z = (np.asarray(part) for part in (found.rock.x, found.rock.y, found.rock.z))
    path = found.poses[:, :3]
    with styled():
        figure = blank(8.6, 6.6)
        above, side = figure.subplots(2, 1, sharex=True, height_ratios=(20.0, 9.0))
        shades = above.contourf(x, y, z.T, levels=np.arange(-1.0, 10.5, 1.0), cmap="Greys", vmax=13.0)
        figure.colorbar(shades, ax=above, label="height of the rock [m]", pad=0.01)
        above.plot(*path[:, :2].T, color=COLORS[0])
        # The rock below the path.
        near = np.array([np.interp(path[:, 1], y, row) for row in z])
        below = np.array([np.interp(px, x, near[:, k]) for k, px in enumerate(path[:, 0])])
        side.fill_between(path[:, 0], below.min() - 1.0, below, color=GRID, linewidth=0)
        side.plot(path[:, 0], path[:, 2], color=COLORS[0])
        for place, ahead in zip(path[::EVERY], found.ahead[::EVERY], strict=True):
            ends = place + np.outer([TAIL, NOSE], ahead)
            above.plot(*ends[:, :2].T, color=INK, linewidth=1.8)
            side.plot(ends[:, 0], ends[:, 2], color=INK, linewidth=1.8)
            above.plot(*ends[1, :2], "o", color=COLORS[1], markersize=3)
            side.plot(ends[1, 0], ends[1, 2], "o", color=COLORS[1], markersize=3)
        above.set_aspect("equal")
        side.set_aspect("equal")
        above.set_ylabel("y [m]")
        side.set_ylabel("z [m]")
        side.set_xlabel("x [m]")
    return figure
