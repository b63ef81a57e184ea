"""From the tables of a job file to what ``sm.plan`` is asked for."""

from __future__ import annotations

import re
from typing import Any

from stepmap.errors import JobError, ModelError, ShapeError
from stepmap.jobs.direct.obstacles import read_obstacles
from stepmap.jobs.parts import SHARED, read_forces, read_start, read_system
from stepmap.jobs.plans.job import PlanJob
from stepmap.jobs.weights import channel_names, input_names, read_noise, read_weights, state_names
from stepmap.mechanics import System
from stepmap.optimal.planner.search import checked
from stepmap.steps import VariationalStep, discretize
from stepmap.toml.tables import Table

NEEDED = {
    "system": "its name in the catalog or its file, and its arguments",
    "time": "dt",
    "goal": "values of coordinates to go to",
}
OPTIONAL = ("start", "plan", "obstacles", "box", "weights", "noise")
KEYS = ("links", "radius", "rate", "tension_low", "tolerance", "seed", "seeds", "extensions", "seconds")


def read(root: Table, name: str) -> PlanJob:
    """The job of a document's outermost table."""
    root.only((*NEEDED, *OPTIONAL, *SHARED), "table")
    for table, why in NEEDED.items():
        if table not in root:
            raise root.error(f"the table [{table}] is missing: {why}")
    files: dict[str, bytes] = {}
    system = read_system(root.table("system"), files)
    goal = root.table("goal")
    step = _step(root.table("time"), system)
    pose = read_start(root.table("start"), system)
    start = step.rest(pose, step.holding_forces(pose))
    options: dict[str, Any] = {
        "goal": {key: goal.number(key) for key in goal},
        "obstacles": [shape for _, shape in read_obstacles(root, files)],
        "box": _box(root.table("box")),
        **_settings(root.table("plan"), system),
    }
    weights = read_weights(root.table("weights"), state_names(system), input_names(system))
    if weights is not None:
        root.table("weights").only(("state", "input"))
        options["weights"] = weights.matrices[:2]
    try:
        task = checked(step, start, options)
    except (ModelError, ShapeError) as error:
        raise _placed(root, error) from None
    if task.reached(start):
        raise goal.error("the start is there already, within the tolerance", hint="Nothing is to be planned.")
    noise = root.table("noise")
    sensed = read_noise(noise, state_names(system), channel_names(system)) if "noise" in root else None
    return PlanJob(name, step, start, options, sensed, root, files)


def _placed(root: Table, error: ModelError | ShapeError) -> JobError:
    """The error at the key or table that its text begins with."""
    what = re.split(r"[^a-z_]", str(error))[0]
    said = str(error).removeprefix(f"{what}: ")
    if what == "frame":  # of a link
        what = "links"
    if what in KEYS:
        table = root.table("plan")
        return table.error(said, *([what] if what in table else []), hint=error.hint)
    at = root.table(what) if what in ("start", "goal", "box", "weights") else root
    return at.error(said if at is not root else str(error), hint=error.hint)


def _step(table: Table, system: System) -> VariationalStep:
    table.only(("dt", "forces"))
    table.need("dt", "Give the time step [s].")
    dt = table.number("dt", unit="seconds")
    if not dt > 0:
        raise table.error(f"must be positive, got {dt:g}", "dt")
    return discretize(system, dt, forces=read_forces(table))


def _settings(table: Table, system: System) -> dict[str, Any]:
    """Arguments of ``sm.plan``; only those that are given."""
    table.only(KEYS)
    made: dict[str, Any] = {key: table.number(key) for key in ("radius", "tension_low", "tolerance") if key in table}
    made |= {key: table.whole(key) for key in ("seed", "seeds", "extensions") if key in table}
    if "seconds" in table:
        made["seconds"] = table.number("seconds", unit="seconds")
    if "rate" in table:
        made["rate"] = _rates(table, system)
    if "links" in table:
        made["links"] = _links(table)
    return made


def _rates(table: Table, system: System) -> float | dict[str, float]:
    """One number, or a table of one per kinematic coordinate."""
    if not isinstance(table.entries["rate"], dict):
        return table.number("rate")
    inner = table.table("rate")
    inner.only([c.name for c in system.kinematic], "kinematic coordinate")
    return {key: inner.number(key) for key in inner}


def _links(table: Table) -> list[tuple[str, str]]:
    given = table.entries["links"]
    good = isinstance(given, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) for name in pair) for pair in given
    )
    if not good:
        raise table.error('expected pairs of frames, such as [["shoulder", "elbow"], ["elbow", "hand"]]', "links")
    return [(first, second) for first, second in given]


def _box(table: Table) -> dict[str, tuple[float, float]]:
    made = {}
    for key in table:
        ends = table.numbers(key, ())
        if len(ends) != 2:
            raise table.error("expected a range [low, high]", key)
        made[key] = (ends[0], ends[1])
    return made
