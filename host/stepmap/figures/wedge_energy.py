"""Pekarek, Fig. 3.6: the energy of the wedge through its impact, and pictures of it every 60 ms."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.figures._wedge import ASSUMPTIONS, DT, END, LENGTH, Rocking, benchmark, mapped
from stepmap.figures.published import Progress, Published

APART = 0.06  # between pictures of the wedge [s]


def make(progress: Progress) -> Published:
    """The figure."""
    truth, found = benchmark(), mapped()
    progress(0.7, "drawing")
    off = 100 * abs(found.loss / truth.loss - 1)
    drift = max(
        np.ptp(found.energy[found.t_energy < found.impact]), np.ptp(found.energy[found.t_energy > found.impact])
    )
    return Published(
        title="Energy is lost at the impact, and nowhere else",
        source="Pekarek, Fig. 3.6",
        caption="Above: total energy. Below: the wedge every 60 ms; after the impact it is slower.",
        figure=_draw(truth, found),
        rows=[{"t": float(t), "energy": float(energy)} for t, energy in zip(found.t_energy, found.energy, strict=True)],
        key_figures=[
            ("lost at the impact", f"{found.loss:.4f} J, benchmark {truth.loss:.4f} J"),
            ("off by", f"{off:.3g} % (printed: 0.00141 %)"),
            ("largest change between impacts", f"{1e3 * drift:.2g} mJ"),
        ],
        assumptions=ASSUMPTIONS,
    )


def outline(q: Array) -> Array:
    """Left foot, top and right foot, (3, 2) [m], of the wedge at (x, y, θ): the ends of its two rods."""
    low, high = -np.sqrt(3) / 4 * LENGTH, np.sqrt(3) / 4 * LENGTH
    corners = np.array([[-LENGTH / 2, low], [0.0, high], [LENGTH / 2, low]])
    c, s = np.cos(q[2]), np.sin(q[2])
    placed: Array = q[:2] + corners @ np.array([[c, s], [-s, c]])
    return placed


def _draw(truth: Rocking, found: Rocking) -> Any:
    from stepmap.plots.style import COLORS, FAINT, INK, blank, styled

    nodes = [int(np.argmin(np.abs(found.t - t))) for t in np.arange(0.0, END + DT / 2, APART)]
    with styled():
        figure = blank(8.0, 4.2)
        energy, wedges = figure.subplots(2, 1, height_ratios=(1.5, 1.0))
        energy.plot(truth.t_energy, truth.energy, color=COLORS[0], label="benchmark")
        energy.plot(found.t_energy, found.energy, "o", color=COLORS[1], markersize=4, label="map, 10 ms")
        energy.set_xlim(0, END)
        energy.set_ylim(0, None)
        energy.set_xlabel("time [s]")
        energy.set_ylabel("energy [J]")
        energy.legend(loc="lower left")
        for place, k in enumerate(nodes):
            at = 1.6 * LENGTH * place
            x, y = outline(found.q[k]).T
            wedges.fill(x + at, y, facecolor=COLORS[4], alpha=0.25, linewidth=0)
            wedges.plot(x + at, y, color=INK, linewidth=2.4)
            wedges.plot(found.q[k, 0] + at, found.q[k, 1], "o", color=COLORS[1], markersize=5)
            wedges.text(at + LENGTH / 2, -0.02, f"{found.t[k]:.2f} s", ha="center", va="top", fontsize=8)
        wedges.axhline(0.0, color=FAINT, linewidth=1.2)
        wedges.set_aspect("equal")
        wedges.set_ylim(-0.06, 0.21)
        wedges.axis("off")
    return figure
