"""Stroboscopic pictures of a motion: planar mechanisms in their plane, spatial ones in three dimensions, those of
many parts as a row of poses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec

from stepmap.arrays import Array
from stepmap.geometry import Shape
from stepmap.mechanics.gravity import upward
from stepmap.mechanics.system import System
from stepmap.plots import space
from stepmap.plots.obstacles import scenery
from stepmap.plots.style import COLORS, FAINT, GRID, INK
from stepmap.simulation import Simulation
from stepmap.wireframe import view as views
from stepmap.wireframe.skeleton import Pair, Skeleton, normals, skeleton, slack
from stepmap.wireframe.view import View

ABOVE = 48.0  # degrees, of the camera over obstacles: it looks into valleys
FLASHES, ROW = 13, 7  # poses on one spot, poses in a row
SMALL = 0.1  # of its way: a mechanism that is drawn finer
PARTS = 16  # links and strings that poses on one spot may have; of more, poses stand in a row


@dataclass(frozen=True)
class Pen:
    """Colours and line widths of one pose; ``strength`` 0 is paper, 1 is ink."""

    strength: float = 1.0
    link: float = 2.6
    mass: float = 11.0

    def color(self, name: str) -> tuple[float, float, float]:
        r, g, b = (1 - self.strength * (1 - c) for c in to_rgb(name))
        return r, g, b


@dataclass(frozen=True, eq=False)
class Motion:
    """Poses of a system over time, and how they are looked at."""

    system: System
    t: Array
    parts: Skeleton
    positions: Array  # of all frames, (times, frame, 3) [m]
    view: View
    slack: Array  # of all strings, (times, strings) [m]
    shapes: tuple[Shape, ...] = ()  # obstacles

    @classmethod
    def of(cls, system: System, t: Array, poses: Array, shapes: Sequence[Shape] = ()) -> Motion:
        parts, positions = skeleton(system), system.positions(poses)
        view = views.choose(system, positions[:, parts.visible])
        return cls(system, t, parts, positions, view, slack(system, poses), tuple(shapes))

    @classmethod
    def simulated(cls, simulation: Simulation, shapes: Sequence[Shape] = ()) -> Motion:
        return cls.of(simulation.system, simulation.trajectory.t, simulation.poses, shapes)

    def pen(self, strength: float) -> Pen:
        """Finer where the mechanism is small beside its way."""
        seen = self.positions[:, self.parts.visible]
        size = float(np.ptp(seen[0], axis=0).max(initial=0.0))
        small = size < SMALL * float(np.ptp(seen.reshape(-1, 3), axis=0).max())
        return Pen(strength, link=1.6, mass=5.5) if small else Pen(strength)

    @property
    def planar(self) -> bool:
        return self.view.labels is not None

    @property
    def in_a_row(self) -> bool:
        """Whether poses on one spot would hide each other."""
        return not self.planar and len(self.parts.links) + len(self.parts.strings) > PARTS

    @property
    def page(self) -> Array:
        """Positions to be drawn: those of the plane (times, frame, 2), or in space (times, frame, 3)."""
        return self.view.project(self.positions) if self.planar or self.in_a_row else self.positions


def draw_motion(figure: Figure, place: SubplotSpec | int, motion: Motion) -> Axes:
    """Axes with the mechanism at several times, the last one strongest, with the paths of its masses."""
    if motion.in_a_row:
        axes = figure.add_subplot(place)
        _draw_row(axes, motion)
        return axes
    axes = draw_stage(figure, place, motion)
    _draw_flashes(axes, motion)
    return axes


def draw_stage(figure: Figure, place: SubplotSpec | int, motion: Motion) -> Axes:
    """Axes for a motion, with what stands: floors, walls and obstacles."""
    seen = motion.positions[:, motion.parts.visible]
    low, high = scenery.box_around(seen)
    if motion.view.labels is not None:
        axes = figure.add_subplot(place)
        axes.set_aspect("equal", adjustable="datalim")
        scenery.draw_flat(axes, motion.shapes, motion.view.project, low, high)
        _draw_planes(axes, motion)
        axes.set_xlabel(motion.view.labels[0])
        axes.set_ylabel(motion.view.labels[1])
        axes.update_datalim(motion.page[:, motion.parts.visible].reshape(-1, 2))
        axes.autoscale_view()
    elif motion.shapes:
        corners = np.array([low, high])
        axes = space.add_axes(figure, place, corners, upward(motion.system), elevation=ABOVE, zoom=1.04)
        scenery.draw_solids(axes, motion.shapes, low, high)
    else:
        axes = space.add_axes(figure, place, seen, upward(motion.system))
    return axes


def draw_paths(axes: Axes, motion: Motion, wanted: Motion) -> bool:
    """Draws the paths that masses were to take, broad and grey, below a motion; False where there are none to draw.

    Not dashed as elsewhere: a path that is taken twice fills its own gaps.
    """
    if motion.in_a_row:
        return False
    page = motion.view.project(wanted.positions) if motion.planar else wanted.positions
    paths = [page[:, index] for index, _ in motion.parts.masses if index not in motion.parts.carts]
    for points in paths:
        axes.plot(*points.T, color=FAINT, linewidth=5, alpha=0.45, zorder=0.5)
    return bool(paths)


def _draw_planes(axes: Axes, motion: Motion) -> None:
    """Floors and walls that stand across the page, as far as the motion goes, with some of what is behind them."""
    page, parts = motion.page, motion.parts
    points = page[:, parts.visible].reshape(-1, 2)
    depth = 0.03 * float(np.ptp(points, axis=0).max())
    for plane, normal in zip(parts.planes, motion.view.project(normals(motion.system, parts.planes)), strict=True):
        if np.linalg.norm(normal) < 0.99:
            continue
        along = np.array([normal[1], -normal[0]])
        places = (points - page[0, plane]) @ along
        ends = page[0, plane] + np.outer([places.min() - 2 * depth, places.max() + 2 * depth], along)
        axes.fill(*np.vstack([ends, ends[::-1] - depth * normal]).T, color=GRID, linewidth=0, zorder=0.1)
        axes.plot(*ends.T, color=FAINT, linewidth=1.2, zorder=0.2)


def _draw_flashes(axes: Axes, motion: Motion) -> None:
    parts, page = motion.parts, motion.page
    count = min(FLASHES, len(page))
    chosen = np.unique(np.linspace(0, len(page) - 1, count).astype(int))
    for index, _ in parts.masses:
        if index not in parts.carts:
            axes.plot(*page[:, index].T, color=COLORS[4], linewidth=0.9, alpha=0.8, zorder=1)
    for index in parts.carts:
        axes.plot(*page[:, index].T, color=FAINT, linewidth=0.8, zorder=0)
    for order, k in enumerate(chosen):
        last = k == chosen[-1]
        strength = 1.0 if last else 0.13 + 0.4 * order / len(chosen)
        draw_pose(axes, parts, page[k], motion.pen(strength), zorder=2 + order, slack=motion.slack[k])


def draw_pose(axes: Axes, parts: Skeleton, page: Array, pen: Pen, zorder: float, slack: Array) -> None:
    """One pose of a mechanism whose frames are at ``page``, (frames, 2), or (frames, 3) in axes of space."""
    for (a, b), loose in zip(parts.strings, slack, strict=True):
        axes.plot(*hanging(page[a], page[b], loose).T, color=pen.color(COLORS[0]), linewidth=1.0, zorder=zorder)
    for pair in parts.springs:
        axes.plot(*coil(page[pair[0]], page[pair[1]]).T, color=pen.color(COLORS[2]), linewidth=1.0, zorder=zorder)
    for pair in parts.links:
        _line(axes, page, pair, color=pen.color(INK), linewidth=pen.link, zorder=zorder + 0.1)
    for index in parts.pivots:
        axes.plot(
            *page[[index]].T, "o", color="white", markeredgecolor=pen.color(INK), markersize=4, zorder=zorder + 0.2
        )
    for index in parts.carts:
        axes.plot(*page[[index]].T, "s", color=pen.color(INK), markersize=7, zorder=zorder + 0.2)
    bobs = [(index, mass) for index, mass in parts.masses if index not in parts.carts]
    heaviest = max((mass for _, mass in bobs), default=1.0)
    for index, mass in bobs:
        size = pen.mass * max(0.4, float(np.cbrt(mass / heaviest)))
        color = pen.color(COLORS[1])
        axes.plot(*page[[index]].T, "o", color=color, markeredgecolor="white", markersize=size, zorder=zorder + 0.3)


def _draw_row(axes: Axes, motion: Motion) -> None:
    """Poses side by side, each with its time; what is farther away is paler. Strings run out of the picture."""
    parts, page, depth = motion.parts, motion.page, motion.positions @ motion.view.toward
    chosen = np.unique(np.linspace(0, len(page) - 1, min(ROW, len(page))).astype(int))
    solid = [i for i in parts.visible if i not in parts.carts]
    shown = page[chosen][:, solid]
    low, high = shown.min(axis=1), shown.max(axis=1)
    pitch = 1.1 * float((high - low)[:, 0].max())
    floor, top = float(low[:, 1].min()), float(high[:, 1].max())
    height = top - floor
    near, far = depth[chosen][:, solid].max(axis=1), depth[chosen][:, solid].min(axis=1)
    for order, k in enumerate(chosen):
        at = page[k] + (order * pitch - (low[order, 0] + high[order, 0]) / 2, 0.0)
        _draw_solid(axes, parts, at, motion.slack[k], (depth[k] - far[order]) / max(near[order] - far[order], 1e-12))
        label = f"{motion.t[k]:.2f} s"
        axes.text(order * pitch, floor - 0.05 * height, label, ha="center", va="top", fontsize=8, color=INK)
    axes.set_xlim(-0.55 * pitch, (len(chosen) - 0.45) * pitch)
    axes.set_ylim(floor - 0.15 * height, top + 0.25 * height)
    _draw_triad(axes, motion.view, np.array([-0.5 * pitch, floor]), 0.16 * height)
    axes.set_aspect("equal", adjustable="box")
    axes.axis("off")


def _draw_triad(axes: Axes, view: View, corner: Array, size: float) -> None:
    """The world's axes, with their length."""
    length = float(f"{size:.0e}")
    tips = view.project(length * np.eye(3))
    corner = corner - tips.min(axis=0).clip(max=0.0)
    for tip, name in zip(tips, "xyz", strict=True):
        axes.plot(*np.array([corner, corner + tip]).T, color=FAINT, linewidth=1.2, zorder=5)
        x, y = corner + 1.25 * tip
        axes.text(x, y, name, ha="center", va="center", fontsize=7, color=INK)
    x, y = corner + 1.7 * tips[np.argmax(tips[:, 1])]
    axes.text(x, y, f"{length:g} m", ha="left", va="bottom", fontsize=7, color=INK)


def _draw_solid(axes: Axes, parts: Skeleton, page: Array, slack: Array, nearness: Array) -> None:
    ends = {i for pair in parts.strings for i in pair}
    parents = {a for a, _ in parts.links}
    for (a, b), loose in zip(parts.strings, slack, strict=True):
        axes.plot(*hanging(page[a], page[b], loose).T, color=COLORS[4], linewidth=0.8, zorder=1)
    for pair in parts.links:
        near = float(nearness[list(pair)].mean())
        stub = pair[1] in ends and pair[1] not in parents
        width = 0.8 if stub else 3.8
        _line(axes, page, pair, color=Pen(0.35 + 0.65 * near).color(INK), linewidth=width, zorder=2 + near)
    for index in parts.carts:
        axes.plot(*page[index], "s", color=COLORS[0], markersize=2.5, zorder=4)
    for index, _ in parts.masses:
        near = float(nearness[index])
        size = 8 if index in parents else 13
        axes.plot(*page[index], "o", color=COLORS[1], markeredgecolor="white", markersize=size, zorder=2.1 + near)


def _line(axes: Axes, page: Array, pair: Pair, **look: object) -> None:
    axes.plot(*page[list(pair)].T, **look)  # type: ignore[arg-type]


def coil(a: Array, b: Array, turns: int = 8) -> Array:
    """The zigzag of a spring from a to b, (points, 2), or (points, 3) in space."""
    along = b - a
    flat = np.array([-along[1], along[0], *([0.0] * (len(along) - 2))])
    if not flat.any():  # along the third axis
        flat[0] = np.linalg.norm(along)
    across = 0.04 * flat
    t = np.linspace(0.15, 0.85, 2 * turns + 1)
    side = np.where(np.arange(len(t)) % 2, 1.0, -1.0)
    side[0] = side[-1] = 0.0
    return np.vstack([a, a + t[:, None] * along + side[:, None] * across, b])


def hanging(a: Array, b: Array, loose: float, points: int = 25) -> Array:
    """A string from a to b that is longer than their distance by ``loose`` [m]: a flat parabola of about its length."""
    chord = float(np.linalg.norm(b - a))
    if loose < 1e-6 or chord < 1e-9:
        return np.stack([a, b])
    along = (b - a) / chord
    aside = -np.eye(len(a))[-1]  # down
    aside = aside - (aside @ along) * along
    if np.linalg.norm(aside) < 1e-3:  # it hangs straight: to the side
        aside = np.eye(len(a))[0] - along[0] * along
    depth = min(chord * np.sqrt(0.375 * loose / chord), (chord + loose) / 2)
    s = np.linspace(0, 1, points)[:, None]
    curve: Array = a + s * (b - a) + 4 * depth * s * (1 - s) * aside / np.linalg.norm(aside)
    return curve
