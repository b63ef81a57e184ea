"""A play's score: acts over time as written and as found, and what each costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepmap import systems
from stepmap.figures.published import Progress, Published
from stepmap.optimal.switching_times import ScriptSolution, script
from stepmap.steps import discretize

NAMES = ("hang", "wave", "swing high", "aside")
ACTS: tuple[dict[str, str | float], ...] = (
    {},
    {"xm": "0.2*sin(3*t)", "xr": "0.2*sin(3*t)"},
    {"xm": "0.3*sin(2*t)", "xr": "0.3*sin(2*t)"},
    {"xm": 0.25, "xr": 0.25},
)
AT, GIVE, BLEND, STEPS = (1.2, 3.6, 6.0), 0.3, 0.6, 240
ASSUMPTIONS = (
    "suspended mass at 30 Hz, 8 s, hanging 0.8 m below its robot at first",
    "weights: coordinates 100, momenta 0.1, rates 1, inputs 1; begins of acts may give 0.3 s, changes take 0.6 s",
)


def make(progress: Progress) -> Published:
    """The figure."""
    solution = play(lambda number: progress(min(1.0, number / 10), f"iteration {number}"))
    written, found = (0.0, *AT), solution.plan.acts
    ends = (*found[1:], float(solution.trajectory.t[-1]))
    costs = solution.act_costs
    rows: list[dict[str, Any]] = [
        {"act": name, "written_s": w, "found_s": f, "until_s": end, "cost": cost}
        for name, w, f, end, cost in zip(NAMES, written, found, ends, costs, strict=True)
    ]
    return Published(
        title="The score of a play",
        source="after Murphey & Johnson, section IV",
        caption="Above: acts as written, pale, and as found; below: the mass beside what the acts ask for, dashed.",
        figure=_draw(solution, rows),
        rows=rows,
        key_figures=[
            ("iterations", str(solution.iterations)),
            ("cost", f"{solution.cost:.4g}"),
            ("largest shift of a begin", f"{max(abs(r['found_s'] - r['written_s']) for r in rows):.3f} s"),
        ],
        assumptions=ASSUMPTIONS,
    )


def play(told: Any) -> ScriptSolution:
    """The play, solved from its written times."""
    step = discretize(systems.get("suspended_mass"), 1 / 30)
    start, _ = step.equilibrium(step.system.satisfy_constraints({"ym": 0.2, "r": 0.8}, fixed=["r", "xr"]))
    Q, R = np.diag([100.0, 100, 1, 1, 0.1, 0.1, 1, 1]), np.eye(2)
    made = script(step, ACTS, steps=STEPS, at=AT, give=GIVE, blend=BLEND, Q=Q, R=R, Qf=10 * Q, start=start)
    return made.solve(monitor=lambda number, iteration, trajectory: told(number)).require()


def _draw(solution: ScriptSolution, rows: list[dict[str, Any]]) -> Any:
    from stepmap.plots.style import COLORS, INK, blank, styled

    t, end = solution.trajectory.t, float(solution.trajectory.t[-1])
    with styled():
        figure = blank(8.6, 4.2)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.0, 1.6])
        written = [*(row["written_s"] for row in rows), end]
        for i, row in enumerate(rows):
            color = COLORS[i]
            above.broken_barh([(written[i], written[i + 1] - written[i])], (1.1, 0.7), color=color, alpha=0.25)
            above.broken_barh([(row["found_s"], row["until_s"] - row["found_s"])], (0.1, 0.9), color=color)
            middle = (row["found_s"] + row["until_s"]) / 2
            label = f"{row['act']}\nfrom {row['found_s']:.2f} s\ncost {row['cost']:.3g}"
            above.text(middle, 0.55, label, ha="center", va="center", fontsize=7.5, color="white")
            for axes in (above, below):
                axes.axvline(row["found_s"], color=INK, linewidth=0.6, alpha=0.5)
        above.set_yticks([0.55, 1.45], ["found", "written"])
        above.grid(visible=False)
        names = solution.script.step.state_names
        for color, name in zip(COLORS, ("xm", "ym", "r"), strict=False):
            i = names.index(name)
            below.plot(t, solution.plan.reference.x[:, i], color=color, linestyle="--", linewidth=0.9)
            below.plot(t, solution.trajectory.x[:, i], color=color, label=name)
        below.set_xlim(0, end)
        below.set_ylabel("m")
        below.set_xlabel("time [s]")
        below.legend(loc="lower left", ncols=3)
    return figure
