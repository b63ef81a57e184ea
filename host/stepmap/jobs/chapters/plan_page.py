"""report.html of a plan: what the search found, in motion and over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.jobs.chapters import Subject, chapters
from stepmap.jobs.task import Job, Outcome
from stepmap.optimal import Plan
from stepmap.optimal.goals.verdict import Verdict
from stepmap.report import Grid, Picture, Section
from stepmap.report.charts import Chart, Limit, Line, Mark, Timeline
from stepmap.report.explore import Explorer, Headline, Tile, explore
from stepmap.report.motion import Layer, Motion
from stepmap.steps.variational import VariationalStep
from stepmap.text import sentence
from stepmap.units import whole

MOST = 8  # coordinates, inputs or forces with a chart of their own
STILL = 1e-9  # m or rad
HISTORY = 40  # iterations in the table


def plan_page(
    job: Job, solution: Outcome, step: VariationalStep, told: Mapping[str, Any], pictures: Mapping[str, bytes]
) -> str:
    """The page; ``told`` is summary.json, ``pictures`` are SVG files by name."""
    plan = solution.plan
    pose = step.layout.pose
    wanted = pose(plan.reference.x)
    same = np.array_equal(wanted, pose(plan.trajectory.x))
    begins = zip(getattr(plan, "acts", ()), getattr(job, "act_names", ()), strict=False)
    reference = None if same else wanted
    given = (plan.trajectory.t, pose(plan.trajectory.x), reference)
    parts = chapters(Subject(job, step.system, *given, acts=tuple(begins), told=told))
    phrase = "; ".join(part.phrase for part in parts if part.phrase)
    layers = [Layer("plan", "plant", pose(plan.trajectory.x))]
    layers += [] if same else [Layer("wanted", "reference", wanted)]
    verdict = Verdict.read(told["verdict"])
    marks = [Mark(e.time, f"{e.name} {'opens' if e.kind == 'release' else 'closes'}") for e in plan.trajectory.events]
    files = [Picture(name.removesuffix(".svg"), svg) for name, svg in pictures.items() if name.endswith(".svg")]
    drawn = [Section("Pictures", "The same as files beside this page.", (), files, folded=True)] if files else []
    return explore(
        Explorer(
            title=f"{job.name}: the plan",
            headline=_headline(job, solution, verdict, phrase),
            facts=[
                *(("job", job.name), ("kind", job.kind), ("system", step.system.name)),
                *(("period", f"{step.dt:.6g} s"), ("digest", str(told["digest"])[:16])),
            ],
            links=[("summary.json", "summary.json"), ("solution.npz", "solution.npz")],
            tiles=[*(tile for part in parts for tile in part.tiles), *_tiles(told)],
            motion=Motion(step.system, plan.trajectory.t, layers),
            timeline=Timeline(
                plan.trajectory.t,
                [*_charts(step, plan), *(chart for part in parts for chart in part.charts)],
                marks=[*(mark for part in parts for mark in part.marks), *marks],
            ),
            sections=[
                Section("Will it work?", "What its numbers say before a board runs it.", verdict.rows(), ()),
                *(section for part in parts for section in part.sections),
                _history(told),
                *drawn,
                Section("The job file", "", (), (), verbatim=job.root.source.decode("utf-8", "replace"), folded=True),
            ],
        )
    )


def _headline(job: Job, solution: Outcome, verdict: Verdict, phrase: str) -> Headline:
    what = phrase or f"a motion of {solution.plan.trajectory.t[-1]:.3g} s"
    if not solution.status.ok:
        advice = getattr(solution, "advice", str(solution.status))
        return Headline("fault", "NOT FOUND", f"The search did not converge; the best so far is {what}.", advice)
    doubts = [f for f in verdict.findings if not f.ok]
    if not doubts:
        return Headline("pass", "FOUND", f"The search converged: {what}.")
    first = doubts[0]
    against = f"but {len(doubts)} of its numbers speak{'s' * (len(doubts) == 1)} against it"
    return Headline(
        "stopped",
        "DOUBTFUL",
        f"The search converged: {what}; {against}.",
        f"{sentence(f'{first.name}: {first.text}')} {first.remedy}",
    )


def _tiles(told: Mapping[str, Any]) -> Iterator[Tile]:
    yield Tile("cost", f"{told['cost']:.6g}", f"{told['iterations']} iterations, {told['cpu_s']:.3g} s of CPU time")
    if told["slope"] is not None:
        yield Tile("slope at the end", f"{abs(told['slope']):.1g}", "of the cost along the last direction")
    if told["constraint_gap"] is not None:
        yield Tile("constraints", f"{told['constraint_gap']:.1g} m", "largest violation")
        forces = f"{told['constraint_force_low']:.3g} to {told['constraint_force_high']:.3g} N"
        yield Tile("constraint forces", forces, "positive when they pull")


def _charts(step: VariationalStep, plan: Plan) -> Iterator[Chart]:
    """Coordinates with what was wanted, inputs with limits, constraint forces."""
    system, found, wanted = step.system, plan.trajectory, plan.reference
    poses, goals = step.layout.pose(found.x), step.layout.pose(wanted.x)
    reach = np.ptp(poses, axis=0)
    for k in sorted(k for k in np.argsort(-reach)[:MOST] if reach[k] > STILL):
        c = system.coordinates[k]
        lines = [Line("plan", poses[:, k], "plant")]
        if not np.array_equal(poses, goals):
            lines.insert(0, Line("wanted", goals[:, k], "reference", width=3.0))
        yield Chart(f"coordinate-{c.name}", c.name, c.unit, tuple(lines))
    for k, given in list(enumerate(system.inputs))[:MOST]:
        shown = whole(given.unit)
        lines = [Line("input", _held(found.u[:, k]), "plant")]
        limits = tuple(Limit(value, "limit") for value in (given.low, given.high) if value is not None)
        yield Chart(f"input-{given.name}", given.name, shown.symbol, tuple(lines), limits=limits)
    names = system.constraint_names
    if found.multipliers is not None and len(names):
        rows = [Line(name, _held(found.multipliers[:, k]), f"c{k % 8}", width=1.2) for k, name in enumerate(names)]
        yield Chart("forces", "Constraint forces", "N", tuple(rows[:MOST]), note="Positive when they pull.")


def _held(values: Array) -> Array:
    """Inputs and forces of steps, at the times of states."""
    return np.append(values, values[-1:], axis=0) if len(values) else np.full(1, np.nan)


def _history(told: Mapping[str, Any]) -> Section:
    rows = [
        (str(k), f"{entry['cost']:.8g}", f"{entry['slope']:.2g}", f"{entry['length']:.3g}")
        for k, entry in enumerate(told["history"])
    ]
    left_out = f" The first {HISTORY} of {len(rows)}." if len(rows) > HISTORY else ""
    grid = Grid(("iteration", "cost", "slope", "length of the step"), rows[:HISTORY])
    return Section("Iterations", f"How the search went.{left_out}", (), (), grid=grid, folded=True)
