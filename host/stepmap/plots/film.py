"""A motion as a moving picture: what stands is drawn once, what moves again in every picture."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from stepmap.arrays import Array
from stepmap.plots.motion import Motion, draw_pose, draw_stage
from stepmap.plots.style import COLORS, INK, blank, styled

PER_SECOND, LEAST, MOST = 12.5, 12, 250  # pictures
SIZE, DOTS, TINTS = (7.2, 4.4), 80, 160  # inches, per inch, colours of what stands
AFTER = 0.8  # s, how long the last picture stays


def film(motion: Motion) -> bytes:
    """A GIF that takes as long as the motion, with the path that lies ahead pale; the time stands in a corner."""
    last = float(motion.t[-1] - motion.t[0])
    count = int(np.clip(round(PER_SECOND * last), LEAST, MOST))
    chosen = np.searchsorted(motion.t, motion.t[0] + np.linspace(0.0, last, count + 1) - 1e-9)
    with styled():
        figure = blank(*SIZE)
        figure.set_dpi(DOTS)
        axes = draw_stage(figure, 111, motion)
        for points in _paths(motion):
            axes.plot(*points.T, color=COLORS[4], linewidth=0.8, alpha=0.5, zorder=1)
        canvas: Any = figure.canvas
        canvas.draw()
        figure.set_layout_engine("none")
        canvas.draw()
        empty = canvas.copy_from_bbox(figure.bbox)
        pictures = [_picture(figure, axes, empty, motion, int(k)) for k in chosen]
    return _gif(pictures, max(20, 10 * round(100 * last / count)))  # GIF counts hundredths of a second


def _picture(figure: Figure, axes: Axes, empty: Any, motion: Motion, k: int) -> Array:
    """Pixels (height, width, 3) of one pose."""
    canvas: Any = figure.canvas
    canvas.restore_region(empty)
    before = set(axes.lines)
    for points in _paths(motion):
        axes.plot(*points[: k + 1].T, color=COLORS[0], linewidth=1.3, zorder=1.5)
    draw_pose(axes, motion.parts, motion.page[k], motion.pen(1.0), zorder=2, slack=motion.slack[k])
    drawn = [line for line in axes.lines if line not in before]
    for line in sorted(drawn, key=lambda line: line.get_zorder()):
        axes.draw_artist(line)
        line.remove()
    time = figure.text(0.98, 0.03, f"{motion.t[k] - motion.t[0]:.2f} s", ha="right", color=INK)
    figure.draw_artist(time)
    time.remove()
    return np.array(canvas.buffer_rgba())[:, :, :3]


def _paths(motion: Motion) -> list[Array]:
    return [motion.page[:, index] for index, _ in motion.parts.masses if index not in motion.parts.carts]


def _gif(pictures: list[Array], milliseconds: int) -> bytes:
    from PIL import Image

    # One palette for all: pixels that stay are then equal, and only what changes is stored.
    sample = Image.fromarray(np.concatenate(pictures[:: max(1, len(pictures) // 4)])).quantize(TINTS)
    own = [round(255 * part) for name in ("white", INK, *COLORS) for part in to_rgb(name)]
    palette = Image.new("P", (1, 1))
    palette.putpalette([*(sample.getpalette() or [])[: 3 * TINTS], *own])  # what moves keeps its colours
    made = [Image.fromarray(one).quantize(palette=palette, dither=Image.Dither.NONE) for one in pictures]
    durations = [milliseconds] * (len(made) - 1) + [milliseconds + round(1000 * AFTER)]
    out = io.BytesIO()
    made[0].save(out, "GIF", save_all=True, append_images=made[1:], duration=durations, loop=0)
    return out.getvalue()
