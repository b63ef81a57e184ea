"""Pictures of gaits: snapshots, energy, the ground's force in its cone, torques with their limits, several steps."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure

from stepmap.arrays import Array
from stepmap.mechanics.gravity import upward
from stepmap.mechanics.system import System
from stepmap.optimal.gaits.cycle import Cycle
from stepmap.optimal.gaits.hold import onward
from stepmap.plots.figures import PANEL, WIDTH, energy, motion
from stepmap.plots.style import COLORS, INK, blank, styled
from stepmap.simulation import Simulation
from stepmap.steps import Trajectory
from stepmap.wireframe import view as views
from stepmap.wireframe.skeleton import skeleton
from stepmap.wireframe.view import View

STEPS, FRAMES = 4, 12  # of the animation, and pictures per step
TURN, TILT = np.radians(25.0), np.radians(10.0)  # of the view of a walk in space: about the vertical, and down


def figures(
    cycle: Cycle, trajectory: Trajectory, limits: Array, friction: Mapping[str, float | None]
) -> dict[str, Figure]:
    """Figures by name."""
    simulation = Simulation(cycle.maps[0], trajectory)
    return {
        "path": motion(simulation),
        "energy": energy(simulation),
        "ground": ground(cycle, trajectory, friction),
        "inputs": torques(cycle, limits),
    }


def ground(cycle: Cycle, trajectory: Trajectory, friction: Mapping[str, float | None]) -> Figure:
    """Normal and tangential force of every contact over time, with the cone where one was asked for."""
    names, forces = cycle.system.constraint_names, trajectory.multipliers
    closed = [name for name in cycle.system.gap_names if any(name in s.closed for s in cycle.stretches)]
    with styled():
        figure = blank(WIDTH, PANEL * max(1, len(closed)) + 0.4)
        rows = figure.subplots(max(1, len(closed)), 1, sharex=True, squeeze=False)[:, 0]
        for axes, name in zip(rows, closed, strict=False):
            assert forces is not None  # those of the program
            normal = forces[:, names.index(name)]
            tangents = [i for i, label in enumerate(names) if label.startswith(f"{name}.")]
            axes.plot(trajectory.t[:-1], normal, color=COLORS[0], label=f"normal, {name}")
            if tangents:
                side = np.linalg.norm(forces[:, tangents], axis=1)
                axes.plot(trajectory.t[:-1], side, color=COLORS[1], label="tangential")
            if friction.get(name):
                axes.plot(trajectory.t[:-1], (friction[name] or 0.0) * normal, color=INK, linestyle=":", label="cone")
            axes.set_ylabel("force [N]")
            axes.legend(loc="best")
        rows[-1].set_xlabel("time [s]")
    return figure


def torques(cycle: Cycle, limits: Array) -> Figure:
    """Inputs over time, each with its limits, dashed, where it comes near them."""
    with styled():
        figure = blank(WIDTH, 1.6 * PANEL + 0.4)
        axes = figure.subplots(1, 1)
        for color, given, u, ends in zip(COLORS * 9, cycle.system.inputs, cycle.u.T, limits.T, strict=False):
            axes.step(cycle.t[:-1], u, where="post", color=color, label=given.name.replace("_", " "))
            for end in ends[np.isfinite(ends)]:
                if np.abs(end) <= 3 * np.abs(cycle.u).max():
                    axes.axhline(end, color=color, linestyle="--", linewidth=0.8)
        axes.set_ylabel(f"inputs [{cycle.system.inputs[0].unit}]" if cycle.system.inputs else "inputs")
        axes.set_xlabel("time [s]")
        if cycle.system.inputs:
            axes.legend(loc="best")
    return figure


def animation(cycle: Cycle) -> bytes:
    """Several periods as a GIF; after each one the mechanism is drawn where its next foot stands."""
    system = cycle.system
    chosen = np.linspace(0, cycle.steps, FRAMES, endpoint=False).astype(int)
    periods, moved = [system.positions(cycle.x[chosen, : system.tangent.nq])], onward(cycle)
    for _ in range(STEPS - 1):
        periods.append(periods[-1] @ moved[:3] + moved[3])
    parts = skeleton(system)
    links, view = parts.links, _seen(system, np.concatenate(periods)[:, parts.visible])
    shown = view.project(np.concatenate(periods))
    with styled():
        figure = blank(WIDTH, 3.0)
        axes = figure.subplots(1, 1)
        everything = shown[:, parts.visible].reshape(-1, 2)
        low, high = everything.min(axis=0) - 0.1, everything.max(axis=0) + 0.1
        label = "" if view.labels is None else view.labels[0]
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal", xlabel=label)
        lines = [axes.plot([], [], color=INK, linewidth=2.2, solid_capstyle="round")[0] for _ in links]

        def frame(number: int) -> list[object]:
            for line, pair in zip(lines, links, strict=True):
                line.set_data(*shown[number][list(pair)].T)
            return list(lines)

        made = FuncAnimation(figure, frame, frames=STEPS * FRAMES)  # type: ignore[arg-type]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "walk.gif"
            made.save(path, writer=PillowWriter(fps=FRAMES / max(cycle.t[-1], 0.1)), dpi=80)
            return path.read_bytes()


def _seen(system: System, positions: Array) -> View:
    """The plane of a planar walk; one in space is seen from a little ahead and above, its way along the page."""
    chosen = views.choose(system, positions)
    if chosen.labels is not None:
        return chosen
    up = upward(system)
    way = positions[-1].mean(axis=0) - positions[0].mean(axis=0)
    way = way - up * (way @ up)
    way = way / np.linalg.norm(way) if np.linalg.norm(way) > 1e-9 else chosen.right
    right = np.cos(TURN) * way + np.sin(TURN) * np.cross(up, way)
    return View(right, np.cos(TILT) * up - np.sin(TILT) * np.cross(right, up), None)
