"""Murphey & Johnson, Fig. 4a: a cart swings its pendulum up and lets it down again."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepmap import systems
from stepmap.figures.published import Progress, Published
from stepmap.optimal import Iteration, Problem, Solution, TrackingCost, optimize
from stepmap.steps import Trajectory, discretize

DT, STEPS = 0.02, 400
UP, DOWN = 2.0, 6.0  # the reference is upright between these times [s]
ASSUMPTIONS = (
    "cart 10 kg, pendulum 1 kg on 1 m, g = 9.8 m/s², damping 0.01 on both; dt = 0.02 s, 8 s, from hanging at rest",
    "reference: upright (θ = π) from 2 s to 6 s, hanging otherwise, cart at 0, force 0: jumps no trajectory can follow",
    "Q = diag(10, 100, 0.1, 0.1), R = 0.01, terminal weight Q; the initial guess is to hang still",
)


def make(progress: Progress) -> Published:
    """The figure."""

    def monitor(number: int, iteration: Iteration, trajectory: Trajectory) -> None:
        progress(min(1.0, number / 80), f"iteration {number}, cost {iteration.cost:.6g}")

    solution = optimize(pose(), monitor=monitor).require()
    best = solution.trajectory
    upright = (best.t > UP + 1) & (best.t < DOWN - 1)
    return Published(
        title="Swing-up and back",
        source="Murphey & Johnson, Fig. 4a",
        caption="The optimal motion, and angle, cart position and force over time; dashed: the reference.",
        figure=_draw(solution),
        rows=[
            {"t": float(t), "x": float(x[0]), "theta": float(x[1]), "force": float(u)}
            for t, x, u in zip(best.t, best.x, np.append(best.u[:, 0], np.nan), strict=True)
            if np.isfinite(u)
        ],
        key_figures=[
            ("cost", f"{solution.cost:.8g} after {len(solution.history) - 1} iterations"),
            ("largest angle from upright, 3 s to 5 s", f"{np.abs(best.x[upright, 1] - np.pi).max():.3f} rad"),
            ("largest force", f"{np.abs(best.u).max():.0f} N"),
        ],
        assumptions=ASSUMPTIONS,
    )


def pose() -> Problem:
    """The tracking problem."""
    step = discretize(systems.get("cart_pendulum"), DT)
    t = DT * np.arange(STEPS + 1)
    x_ref = np.zeros((STEPS + 1, 4))
    x_ref[(t >= UP) & (t < DOWN), 1] = np.pi
    Q = np.diag([10.0, 100.0, 0.1, 0.1])
    cost = TrackingCost(Q, [[0.01]], Q, x_ref, np.zeros((STEPS, 1)))
    return Problem(step, cost, start=step.rest({}))


def _draw(solution: Solution) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    from stepmap.plots.style import COLORS, FAINT, INK, blank, styled

    best = solution.trajectory
    with styled():
        figure = blank(8.6, 6.2)
        halves: Any = figure.subfigures(1, 2, width_ratios=(1.15, 1))
        left, right = halves
        shade = LinearSegmentedColormap.from_list("time", ["#cfe3f1", COLORS[0]])
        for k, (axes, (begin, end)) in enumerate(
            zip(left.subplots(2, 1), ((0.0, UP + 0.6), (DOWN - 0.6, best.t[-1])), strict=True)
        ):
            chosen = np.flatnonzero((best.t >= begin) & (best.t <= end))[::6]
            for place, i in enumerate(chosen):
                x, theta = best.x[i, :2]
                color = shade(place / max(1, len(chosen) - 1))
                axes.plot([x, x + np.sin(theta)], [0, -np.cos(theta)], color=color, linewidth=1.1)
                axes.plot(x + np.sin(theta), -np.cos(theta), "o", color=color, markersize=4)
                axes.plot(x, 0, "s", color=color, markersize=5)
            axes.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
            axes.set_aspect("equal")
            axes.set_title(("swing-up", "letting down")[k] + f", {begin:g} s to {end:g} s, light to dark")
            axes.set_ylabel("[m]")
        rows = right.subplots(3, 1, sharex=True)
        series = ((best.x[:, 1], "θ [rad]"), (best.x[:, 0], "x [m]"), (best.u[:, 0], "force [N]"))
        for axes, (values, label) in zip(rows, series, strict=True):
            axes.plot(best.t[: len(values)], values, color=COLORS[0])
            axes.set_ylabel(label)
        rows[0].step(
            [0, UP, DOWN, best.t[-1]], [0, np.pi, 0, 0], where="post", color=INK, linestyle="--", linewidth=0.9
        )
        rows[-1].set_xlabel("time [s]")
    return figure
