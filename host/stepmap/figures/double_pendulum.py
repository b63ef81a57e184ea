"""Murphey & Johnson, Fig. 3: the first Newton iterate nearly solves a double pendulum's tracking problem."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepmap import systems
from stepmap.arrays import Array
from stepmap.figures.published import Progress, Published
from stepmap.optimal import Iteration, Problem, Solution, TrackingCost, optimize
from stepmap.steps import Trajectory, discretize

DT, STEPS = 0.02, 250
ASSUMPTIONS = (
    "both joints driven; masses 1 kg, rods 1 m, g = 9.8 m/s², no damping; dt = 0.02 s, 5 s, from hanging at rest",
    "reference: θ1 = 1.2 sin²(πt/5), θ2 = −0.8 sin(2πt/5), momenta zero (so it is infeasible); "
    "Q = diag(100, 100, 1, 1), R = 0.01 I, terminal weight Q",
    "the initial guess is to hang still with no torque",
)


def make(progress: Progress) -> Published:
    """The figure."""
    problem, cost = pose()
    iterates: list[Trajectory] = []

    def monitor(number: int, iteration: Iteration, trajectory: Trajectory) -> None:
        iterates.append(trajectory)
        progress(min(1.0, number / 8), f"iteration {number}")

    solution = optimize(problem, monitor=monitor).require()
    first = iterates[1]
    gained = (solution.history[0].cost - solution.history[1].cost) / (solution.history[0].cost - solution.cost)
    distance = float(np.abs(first.x[:, :2] - solution.trajectory.x[:, :2]).max())
    return Published(
        title="One step nearly solves it",
        source="Murphey & Johnson, Fig. 3",
        caption="Grey: the zero guess; dotted: after one iteration; solid: the optimum; dashed: the reference.",
        figure=_draw(cost, iterates[0], first, solution.trajectory),
        rows=_rows(cost, first, solution),
        key_figures=[
            ("cost taken off by the first iteration", f"{100 * gained:.2f} % of all that can be"),
            ("largest angle between first iterate and optimum", f"{distance:.3f} rad"),
            ("iterations", f"{len(solution.history) - 1} to |Dg| = {abs(solution.history[-1].slope):.1g}"),
        ],
        assumptions=ASSUMPTIONS,
    )


def pose() -> tuple[Problem, TrackingCost]:
    """The tracking problem and its cost."""
    step = discretize(systems.get("double_pendulum"), DT)
    t = DT * np.arange(STEPS + 1)
    x_ref = np.zeros((STEPS + 1, 4))
    x_ref[:, 0] = 1.2 * np.sin(np.pi * t / 5) ** 2
    x_ref[:, 1] = -0.8 * np.sin(2 * np.pi * t / 5)
    Q = np.diag([100.0, 100.0, 1.0, 1.0])
    cost = TrackingCost(Q, 0.01 * np.eye(2), Q, x_ref, np.zeros((STEPS, 2)))
    return Problem(step, cost, start=step.rest({})), cost


def _rows(cost: TrackingCost, first: Trajectory, solution: Solution) -> list[dict[str, Any]]:
    best = solution.trajectory
    return [
        {
            "t": float(best.t[k]),
            **{
                f"theta{i + 1}_{name}": float(values[k, i])
                for i in (0, 1)
                for name, values in (("reference", cost.x_ref), ("first", first.x), ("optimal", best.x))
            },
        }
        for k in range(len(best.t))
    ]


def _draw(cost: TrackingCost, zero: Trajectory, first: Trajectory, best: Trajectory) -> Any:
    from stepmap.plots.style import COLORS, FAINT, blank, styled

    def curve(axes: Any, i: int, values: Array, label: str, color: str, style: str) -> None:
        axes.plot(best.t, values[:, i], color=color, linestyle=style, label=label)

    with styled():
        figure = blank(7.0, 4.4)
        panels = figure.subplots(2, 1, sharex=True)
        for i, axes in enumerate(panels):
            curve(axes, i, zero.x, "guess", FAINT, "-")
            curve(axes, i, cost.x_ref, "reference", COLORS[2], "--")
            curve(axes, i, best.x, "optimum", COLORS[0], "-")
            curve(axes, i, first.x, "after one iteration", COLORS[1], ":")
            axes.set_ylabel(f"θ{i + 1} [rad]")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4)
        panels[1].set_xlabel("time [s]")
    return figure
