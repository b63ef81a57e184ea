"""The tree of a planner: its nodes as dots, the path taken through it, the mechanism at start and end, obstacles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stepmap.arrays import Array
from stepmap.geometry import Shape
from stepmap.mechanics.gravity import upward
from stepmap.mechanics.system import System
from stepmap.plots import space
from stepmap.plots.motion import Motion, Pen, draw_pose
from stepmap.plots.style import COLORS, INK, blank, styled
from stepmap.steps import Trajectory, VariationalStep
from stepmap.wireframe.skeleton import skeleton

MOST = 4000  # nodes that are drawn; more make one black patch


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree of states, the motion found in it and the smoothed one, the frames that are drawn, obstacles."""

    step: VariationalStep
    nodes: Array  # (count, nx)
    found: Trajectory
    smooth: Trajectory
    frames: tuple[int, ...]
    obstacles: tuple[Shape, ...]


def ends(system: System, links: Sequence[Any]) -> tuple[int, ...]:
    """Frames whose places tell a node: the last ones of the links, else of masses that nothing moving hangs on."""
    names = list(system.frame_names)
    firsts = {pair[0] for pair in links}
    last = [pair[1] for pair in links if pair[1] not in firsts]
    if last:
        return tuple(names.index(name) for name in dict.fromkeys(last))
    masses = [index for index, _ in skeleton(system).masses]
    return tuple(masses[-1:]) or (len(names) - 1,)


def tree(grown: Grown) -> Figure:
    """The picture."""
    system, pose = grown.step.system, grown.step.layout.pose
    chosen = np.unique(np.linspace(0, len(grown.nodes) - 1, min(MOST, len(grown.nodes))).astype(int))
    places = system.positions(pose(grown.nodes[chosen]))[:, list(grown.frames)]
    motion = Motion.of(system, grown.smooth.t, pose(grown.smooth.x))
    with styled():
        figure = blank(6.4, 5.2)
        if motion.planar:
            axes = figure.add_subplot()
            axes.set_aspect("equal", adjustable="datalim")
            assert motion.view.labels is not None  # of planar views
            axes.set_xlabel(motion.view.labels[0])
            axes.set_ylabel(motion.view.labels[1])
        else:
            around = np.concatenate([places.reshape(-1, 3), motion.positions[:, _solid_frames(motion)].reshape(-1, 3)])
            axes = space.add_axes(figure, 111, around, upward(system))
        _draw(axes, grown, motion, places)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def _draw(axes: Axes, grown: Grown, motion: Motion, places: Array) -> None:
    system, pose = grown.step.system, grown.step.layout.pose
    page = motion.view.project if motion.planar else np.asarray
    for shape in grown.obstacles:
        _solid(axes, page(shape.triangles()), motion)
    dots: dict[str, Any] = {"color": INK, "markersize": 1.6, "linestyle": "none", "alpha": 0.35, "zorder": 1}
    axes.plot(*page(places).reshape(-1, 2 if motion.planar else 3).T, marker=".", label="nodes", **dots)
    for path, color, width, label in (
        (grown.found, COLORS[1], 1.0, "path in the tree"),
        (grown.smooth, COLORS[0], 2.0, "smoothed"),
    ):
        line = page(system.positions(pose(path.x))[:, list(grown.frames)])
        for i in range(line.shape[1]):
            axes.plot(*line[:, i].T, color=color, linewidth=width, zorder=6, label=label if i == 0 else None)
    parts = motion.parts if motion.planar else replace(motion.parts, carts=())
    for k, strength in ((0, 0.45), (len(motion.t) - 1, 1.0)):
        at = motion.page[k] if motion.planar else _cut(axes, motion, k)
        draw_pose(axes, parts, at, Pen(strength), zorder=4 + strength, slack=motion.slack[k])


def _solid_frames(motion: Motion) -> list[int]:
    """What is visible but for the upper ends of strings, which run out of the picture."""
    return [i for i in motion.parts.visible if i not in motion.parts.carts]


def _cut(axes: Any, motion: Motion, k: int) -> Array:
    """A pose with strings that end where the axes do."""
    at = np.array(motion.page[k])
    up = int(np.argmax(np.abs(upward(motion.system))))
    top = getattr(axes, f"get_{space.NAMES[up]}lim")()[1]
    for pair in motion.parts.strings:
        for end, other in (pair, pair[::-1]):
            if at[end, up] > top > at[other, up]:
                at[end] = at[other] + (top - at[other, up]) / (at[end, up] - at[other, up]) * (at[end] - at[other])
    return at


def _solid(axes: Axes, triangles: Array, motion: Motion) -> None:
    """An obstacle: its silhouette in a plane, its surface in space."""
    if motion.planar:
        for corners in triangles:
            axes.fill(*corners.T, color=COLORS[3], linewidth=0.3, zorder=0.5)
        return
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    size = np.linalg.norm(normals, axis=1, keepdims=True)
    bright = 0.55 + 0.45 * np.abs((normals / np.where(size > 0, size, 1.0)) @ np.array([0.3, -0.5, 0.81]))
    base = np.array([0.80, 0.47, 0.65])  # of COLORS[3]
    colors = np.clip(base * bright[:, None], 0, 1)
    made: Any = Poly3DCollection(triangles, facecolors=colors, linewidths=0, zorder=0.5)
    space_axes: Any = axes
    space_axes.add_collection3d(made)
