"""Murphey & Johnson, Fig. 4b: a marionette's arm is lifted from the stretched pose of hanging, waves, and drops."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepmap import systems
from stepmap.arrays import Array
from stepmap.figures.published import Progress, Published
from stepmap.optimal import Problem, Solution
from stepmap.optimal.composite import Cost
from stepmap.optimal.homotopy import homotopy
from stepmap.optimal.terms import SpeedChange, Tension, Track
from stepmap.simulation import Simulation
from stepmap.steps import VariationalStep, discretize

DT, STEPS = 0.02, 300
HANG, LIFTED = np.array([-np.pi / 2, 0.0]), np.array([-1.0, 1.9])  # angles of shoulder and elbow [rad]
ASIDE = 0.4  # m, from the hand to above which the string is led: in line with the arm it could not move it at all
WAVE, HZ = 0.3, 1.0  # of the elbow [rad]
CHANGE = 200.0  # weight of changes of the string's speed
LEAST, STAGES = 0.5, (0.0, 1.0, 10.0)  # N, and weights of what tension lacks of it
SHOWN = (0.0, 1.0, 1.5, 2.25, 2.75, 4.3, 4.8, 6.0)  # s
ASSUMPTIONS = (
    "the paper gives no numbers: rods of 0.5 kg on 0.25 m, damping 0.01 N m s, at 50 Hz for 6 s",
    "the string's end is 0.4 m aside of the hand: right above it the string would be in line with the hanging "
    "arm, where its length has no slope",
    "reference: elbow and shoulder lifted within 1.5 s, the elbow waves by 0.3 rad at 1 Hz, both drop within 1.2 s; no "
    "motion of the arm follows it exactly",
    "weights: angles 100, string's end and momenta 10, its speed 0.01, inputs 0.001, changes of its speed 200; tension "
    "below 0.5 N in stages 0, 1 and 10",
)


def make(progress: Progress) -> Published:
    """The figure."""
    step, wanted = task()
    progress(0.1, "optimizing")
    found = solve(step, wanted).require()
    wire = solve(step, wanted, STAGES[:1], change=0.0).require()
    progress(0.9, "drawing")
    path, (pulls, pushes) = found.trajectory, (tension(step, s) for s in (found, wire))
    far = np.sqrt(np.mean((path.x[:, :2] - wanted[:, :2]) ** 2))
    names = [c.name for c in step.system.coordinates]
    return Published(
        title="A marionette's arm waves",
        source="Murphey & Johnson, Fig. 4b",
        caption="Above: the arm hangs stretched, is lifted, waves and drops; the string in blue. Below: its angles "
        "beside the reference, dashed, and the force of the string.",
        figure=_draw(step, found, wanted, pulls),
        rows=[
            {"t": float(path.t[k]), **dict(zip(names, map(float, path.x[k, :4]), strict=True)), "tension_N": float(T)}
            for k, T in enumerate(pulls)
        ],
        key_figures=[
            ("iterations", f"{len(found.history)} in {len(STAGES)} stages"),
            ("tension of the string", f"{pulls.min():.2f} N to {pulls.max():.1f} N"),
            ("without a cost on speed changes and tension", f"{pushes.min():.0f} N to {pushes.max():.0f} N, as a wire"),
            ("from the reference", f"{far:.2f} rad, root mean square"),
            ("elbow", f"stretched at the start; {path.x[:, 1].min():.2g} to {path.x[:, 1].max():.2g} rad on the way"),
        ],
        assumptions=ASSUMPTIONS,
    )


def task() -> tuple[VariationalStep, Array]:
    """The map, and a reference that begins at rest in the stretched pose."""
    arm = systems.get("planar_arm")
    step = discretize(arm, DT)
    hang = {"theta1": HANG[0], "theta2": HANG[1], "x": ASIDE, "L": 1.6}
    start, _ = step.equilibrium(arm.satisfy_constraints(hang, fixed=["theta1", "theta2", "x"]))
    t = DT * np.arange(STEPS + 1)
    lifted = _rising(t, 0.5, 2.0) - _rising(t, 4.0, 5.2)
    waving = _rising(t, 1.8, 2.2) - _rising(t, 3.7, 4.1)
    wanted = np.tile(start, (STEPS + 1, 1))
    wanted[:, :2] += np.outer(lifted, LIFTED - HANG)
    wanted[:, 1] += WAVE * waving * np.sin(2 * np.pi * HZ * (t - 2.0))
    names = list(arm.frame_names)
    hand = arm.positions(step.layout.pose(wanted))[:, names.index("tip")]
    rail = arm.positions(step.layout.pose(start))[names.index("rail"), 1]
    wanted[:, 2], wanted[:, 3] = hand[:, 0] + ASIDE, np.hypot(ASIDE, rail - hand[:, 1])
    return step, wanted


def solve(step: VariationalStep, wanted: Array, stages: tuple[float, ...] = STAGES, change: float = CHANGE) -> Solution:
    """The motion nearest to the reference, its string asked to pull more firmly in every stage."""
    Q, R = np.diag([100, 100, 10, 10, 10, 10, 1e-2, 1e-2]), 1e-3 * np.eye(2)
    held = wanted[:-1, 2:4]

    def at(weight: float) -> Problem:
        terms: list[Any] = [Track(Q, R, Q, wanted, held)]
        terms += [SpeedChange(change)] if change else []
        terms += [Tension(low=LEAST, weight=weight)] if weight else []
        return Problem(step, Cost(step, *terms), wanted[0])

    return homotopy(at, stages)


def tension(step: VariationalStep, solution: Solution) -> Array:
    """Force of the string at every step [N]."""
    forces: Array = Simulation(step, solution.trajectory).multipliers[:, 0]
    return forces


def _rising(t: Array, begin: float, end: float) -> Array:
    """0 before, 1 after, smooth to the second derivative."""
    s = np.clip((t - begin) / (end - begin), 0.0, 1.0)
    out: Array = s**3 * (10 - 15 * s + 6 * s**2)
    return out


def _draw(step: VariationalStep, found: Solution, wanted: Array, pulls: Array) -> Any:
    from stepmap.plots.style import COLORS, FAINT, INK, blank, styled

    path, system = found.trajectory, step.system
    where = system.positions(step.layout.pose(path.x))
    at = {name: where[:, i, :2] for i, name in enumerate(system.frame_names)}
    with styled():
        figure = blank(9.0, 5.4)
        rows: Any = figure.subfigures(2, 1, height_ratios=(1.25, 1))
        for axes, time in zip(rows[0].subplots(1, len(SHOWN), sharey=True), SHOWN, strict=True):
            k = round(time / DT)
            axes.plot(*at["tip"][max(0, k - 50) : k + 1].T, color=FAINT, linewidth=1.0)
            axes.plot(*np.array([at["tip"][k], at["string"][k]]).T, color=COLORS[0], linewidth=0.9)
            axes.plot(*at["string"][k], "s", color=COLORS[0], markersize=5)
            arm = np.array([[0.0, 0.0], at["elbow"][k], at["tip"][k]])
            axes.plot(*arm.T, "o-", color=INK, linewidth=2.6, markersize=4, markerfacecolor="white")
            axes.set_xlim(-0.1, 0.85)
            axes.set_aspect("equal")
            axes.axis("off")
            axes.set_title(f"{time:.2f} s", fontsize=9)
        left, right = rows[1].subplots(1, 2)
        for i, name in enumerate(("shoulder", "elbow")):
            left.plot(path.t, wanted[:, i], color=COLORS[i], linestyle="--", linewidth=0.9)
            left.plot(path.t, path.x[:, i], color=COLORS[i], label=name)
        left.set_ylabel("rad")
        left.legend(loc="upper right")
        right.plot(path.t[:-1], pulls, color=COLORS[0])
        right.axhline(0, color=INK, linewidth=0.8)
        right.set_ylabel("tension [N]")
        for axes in (left, right):
            axes.set_xlim(0, path.t[-1])
            axes.set_xlabel("time [s]")
    return figure
