"""Jobs of kind "track": the trajectory nearest to a reference. docs/jobs.md describes every key."""

from __future__ import annotations

from typing import cast, get_args

import numpy as np

from stepmap.errors import ModelError
from stepmap.jobs.job import Solver, TrackingJob
from stepmap.jobs.limits import read_limits, unlimited
from stepmap.jobs.parts import SHARED, read_forces, read_start, read_system, read_time
from stepmap.jobs.reference import read_goal, read_reference
from stepmap.jobs.weights import channel_names, input_names, read_controller, read_noise, read_weights, state_names
from stepmap.mechanics import System
from stepmap.optimal.goals.reach import PATIENCE
from stepmap.optimal.projection import Method
from stepmap.steps.kinds import Gaps
from stepmap.steps.relaxed import require_relaxable
from stepmap.toml.tables import Table

NEEDED = {
    "system": "its name in the catalog or its file, and its arguments",
    "time": "dt, and duration or steps",
}
OPTIONAL = ("start", "reference", "goal", "weights", "limits", "end", "solver", "noise")
METHODS = ("newton", "gauss-newton", "steepest")
GUESSES = ("hold", "release", "reference")


def read(root: Table, name: str) -> TrackingJob:
    """The job of a document's outermost table."""
    root.only((*NEEDED, *OPTIONAL, *SHARED), "table")
    for table, why in NEEDED.items():
        if table not in root:
            raise root.error(f"the table [{table}] is missing: {why}")
    for table in root:
        root.table(table)
    goal = _has_goal(root)
    files: dict[str, bytes] = {}
    system = read_system(root.table("system"), files)
    dt, steps = read_time(root.table("time"))
    pose = read_start(root.table("start"), system)
    states, inputs = state_names(system), input_names(system)
    t = dt * np.arange(steps + 1)
    if goal:
        reference = read_goal(root.table("goal"), system, pose, steps)
    else:
        reference = read_reference(root.table("reference"), system, pose, t, files)
    hard, soft = read_limits(root.table("limits"), system, states, inputs)
    weights = read_weights(root.table("weights"), states, inputs)
    if weights is None:
        _require_limits(root.table("weights"), unlimited(system, hard))
    return TrackingJob(
        name=name,
        system=system,
        dt=dt,
        steps=steps,
        forces=read_forces(root.table("time")),
        pose=pose,
        reference=reference,
        goal=goal,
        rest=_rest(root.table("end"), goal),
        own_weights=weights,
        controller=read_controller(root.table("weights"), states, inputs),
        hard=hard,
        limits=soft,
        solver=_solver(root.table("solver"), goal, system),
        noise=read_noise(root.table("noise"), states, channel_names(system)) if "noise" in root else None,
        root=root,
        files=files,
    )


def _has_goal(root: Table) -> bool:
    """Whether a pose to end in is given, and no reference."""
    if ("reference" in root) == ("goal" in root):
        raise root.error(
            "give either the table [reference] or the table [goal]",
            hint="[reference] is what the trajectory is to be near at all times, [goal] the pose it is to end in.",
        )
    return "goal" in root


def _require_limits(table: Table, without: list[str]) -> None:
    if without:
        raise table.error(
            f"natural weights need limits of all inputs, and {', '.join(without)} has none",
            hint="Give low and high in the system or in [limits], or [weights.state] and [weights.input].",
        )


def _rest(table: Table, goal: bool) -> bool:
    table.only(("rest",))
    return table.flag("rest", goal)


def _solver(table: Table, goal: bool, system: System) -> Solver:
    table.only(("method", "max_iterations", "tolerance", "stages", "guess", "gaps", "kappa"))
    for key in ("stages", "guess"):
        if goal and key in table:
            raise table.error("a job with a [goal] tries starts of its own", key, hint="Leave it out.")
    usual = Solver(max_iterations=PATIENCE) if goal else Solver()
    method = cast(Method, table.choice("method", METHODS, usual.method))
    iterations = table.whole("max_iterations", usual.max_iterations)
    tolerance = table.number("tolerance", usual.tolerance)
    stages = table.numbers("stages", usual.stages)
    for name, value in (("max_iterations", iterations), ("tolerance", tolerance)):
        if value < 0:
            raise table.error(f"must not be negative, got {value:g}", name)
    if not stages or stages[-1] != 1.0 or min(stages) <= 0:
        raise table.error("must be positive parts of the way that end in 1, like [0.25, 0.5, 1]", "stages")
    gaps, kappa = _gaps(table, goal, system, usual)
    return Solver(method, iterations, tolerance, stages, table.choice("guess", GUESSES, usual.guess), gaps, kappa)


def _gaps(table: Table, goal: bool, system: System, usual: Solver) -> tuple[Gaps, tuple[float, float]]:
    """On which map to search, and the first and last κ of relaxed gaps."""
    gaps = cast(Gaps, table.choice("gaps", get_args(Gaps), usual.gaps))
    kappa = table.numbers("kappa", usual.kappa)
    if gaps == "events":
        if "kappa" in table:
            raise table.error("is of relaxed gaps", "kappa", hint='Add gaps = "relaxed", or leave it out.')
        return gaps, usual.kappa
    if not system.gap_names:
        raise table.error("this system has no gaps to relax", "gaps", hint="b.string and b.contact make some.")
    if goal or "stages" in table:
        what = "a job with a [goal] searches" if goal else "a search in stages is one"
        raise table.error(f"{what} on the step with events", "gaps", hint="Leave it out, or give a [reference] alone.")
    try:
        require_relaxable(system)
    except ModelError as error:
        raise table.error(str(error).removeprefix("gaps: "), "gaps") from None
    if len(kappa) != 2 or not kappa[0] >= kappa[1] > 0:
        raise table.error("must be the first and the last κ, falling and positive, like [0.1, 1e-6]", "kappa")
    return gaps, (kappa[0], kappa[1])
