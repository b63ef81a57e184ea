"""Pictures of gaits: snapshots, energy, the ground's force in its cone, torques with their limits, several steps."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure

from stepmap.arrays import Array
from stepmap.optimal.gaits.cycle import Cycle
from stepmap.plots.figures import PANEL, WIDTH, energy, motion
from stepmap.plots.skeleton import skeleton
from stepmap.plots.style import COLORS, INK, blank, styled
from stepmap.simulation import Simulation
from stepmap.steps import Trajectory

STEPS, FRAMES = 4, 12  # of the animation, and pictures per step


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
    n, system = len(cycle.system.dynamic), cycle.system
    chosen = np.linspace(0, cycle.steps, FRAMES, endpoint=False).astype(int)
    shown = system.positions(cycle.x[chosen, :n])
    end, begin = system.positions(cycle.x[-1, :n]), system.positions(cycle.renaming.pose(cycle.x[-1, :n]))
    contact = next(c for c in system.constraints if c.name == (cycle.stretches[0].closed or (system.gap_names[0],))[0])
    partner = next(c for c in system.constraints if c.name == cycle.renaming.partners[contact.name])
    shift = end[partner.point.index] - begin[contact.point.index]  # type: ignore[attr-defined]
    links = skeleton(system).links
    with styled():
        figure = blank(WIDTH, 3.0)
        axes = figure.subplots(1, 1)
        everything = np.concatenate([shown[:, :, :2].reshape(-1, 2) + i * shift[:2] for i in range(STEPS)])
        low, high = everything.min(axis=0) - 0.1, everything.max(axis=0) + 0.1
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal", xlabel="x [m]")
        lines = [axes.plot([], [], color=INK, linewidth=2.2, solid_capstyle="round")[0] for _ in links]

        def frame(number: int) -> list[object]:
            place = shown[number % FRAMES] + (number // FRAMES) * shift
            for line, pair in zip(lines, links, strict=True):
                line.set_data(place[list(pair), 0], place[list(pair), 1])
            return list(lines)

        made = FuncAnimation(figure, frame, frames=STEPS * FRAMES)  # type: ignore[arg-type]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "walk.gif"
            made.save(path, writer=PillowWriter(fps=FRAMES / max(cycle.t[-1], 0.1)), dpi=80)
            return path.read_bytes()
