"""From tables of a job file to a job of kind "direct"."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from stepmap.errors import ModelError, ShapeError
from stepmap.jobs.direct.job import DirectJob
from stepmap.jobs.direct.obstacles import read_clearances
from stepmap.jobs.parts import SHARED, WHOLE, read_range, read_system
from stepmap.jobs.weights import channel_names, input_names, read_noise, read_weights, state_names
from stepmap.optimal.direct.formulation import Formulation
from stepmap.optimal.direct.task import SOLVERS, Task
from stepmap.toml.tables import Table

NEEDED = {
    "system": "its name in the catalog or its file, and its arguments",
    "time": "dt, and duration, or a range of it",
    "cost": "running, terminal or both: formulas",
}
OPTIONAL = ("start", "goal", "limits", "path", "boundary", "obstacles", "clear", "solver", "weights", "noise")
SOLVER = ("solver", "steps", "starts", "seed", "max_iterations", "tolerance", "change")
MOST = 10_000_000  # steps of a plan


def read(root: Table, name: str) -> DirectJob:
    """The job of a document's outermost table."""
    root.only((*NEEDED, *OPTIONAL, *SHARED), "table")
    for table, why in NEEDED.items():
        if table not in root:
            raise root.error(f"the table [{table}] is missing: {why}")
    files: dict[str, bytes] = {}
    system = read_system(root.table("system"), files)
    dt, low, high = _time(root.table("time"))
    states = state_names(system)
    weights = read_weights(root.table("weights"), states, input_names(system)) if "weights" in root else None
    steps = _steps(root.table("solver"), dt, low, high)
    given = {
        "steps": steps,
        "time": low if low == high else (low, high),
        "start": _ends(root.table("start")),
        "goal": _ends(root.table("goal"), ("rest",)),
        "rest": root.table("goal").flag("rest"),
        **_cost(root.table("cost")),
        "limits": {key: _limit(root.table("limits"), key) for key in root.table("limits")},
        "path": {key: read_range(root.table("path"), key) for key in root.table("path")},
        "boundary": {key: read_range(root.table("boundary"), key) for key in root.table("boundary")},
        "clear": read_clearances(root, files),
        "weights": None if weights is None else weights.matrices[:2],
        **_solver(root.table("solver")),
    }
    try:
        task = Task(system=system, **given)
        Formulation(task)
    except (ModelError, ShapeError) as error:
        table, _, said = str(error).partition(": ")
        table = {"running": "cost", "terminal": "cost", "rest": "goal"}.get(table, table)
        within = table in root and isinstance(root.entries[table], dict)
        raise (root.table(table).error(said, hint=error.hint) if within else root.error(str(error))) from None
    noise = read_noise(root.table("noise"), states, channel_names(system)) if "noise" in root else None
    return DirectJob(name, task, dt, math.ceil(low / dt - WHOLE), noise, root, files)


def _time(table: Table) -> tuple[float, float, float]:
    """dt, and the shortest and longest duration [s]."""
    table.only(("dt", "duration"))
    for key, hint in (("dt", "Give the time step [s]."), ("duration", "Give seconds, or a range [low, high].")):
        table.need(key, hint)
    dt = table.number("dt", unit="seconds")
    if not dt > 0:
        raise table.error(f"must be positive, got {dt:g}", "dt")
    if isinstance(table.entries["duration"], list):
        ends = table.numbers("duration", ())
        if len(ends) != 2 or not 0 < ends[0] <= ends[1]:
            raise table.error(f"expected a range [low, high] of seconds, low below high, got {list(ends)}", "duration")
        _few(table, ends[1], dt)
        return dt, *ends
    duration = table.number("duration", unit="seconds")
    _few(table, duration, dt)
    count = duration / dt
    if count < 2 - WHOLE or abs(count - round(count)) > WHOLE * max(1.0, count):
        raise table.error(
            f"must be a whole number of steps, 2 at least: {duration:g} s is {count:.9g} steps of {dt:.9g} s",
            "duration",
        )
    return dt, duration, duration


def _few(table: Table, duration: float, dt: float) -> None:
    if not duration / dt <= MOST:
        raise table.error(f"{duration:g} s is more than {MOST} steps of {dt:g} s", "duration", hint="Give a longer dt.")


def _steps(table: Table, dt: float, low: float, high: float) -> int:
    """Steps of the search: those of dt, or of a time that is found those given, at most as many as dt makes."""
    if low == high:
        if "steps" in table:
            raise table.error("steps are those of dt where the duration is given", "steps", hint="Leave it out.")
        return round(low / dt)
    return table.whole("steps", min(100, max(2, round(high / dt))))


def _ends(table: Table, others: Collection[str] = ()) -> dict[str, Any]:
    """Numbers, lists of them, or false for what is free; other keys are left out."""
    out: dict[str, Any] = {}
    for key, value in table.entries.items():
        if key in others:
            continue
        if value is False:
            out[key] = None
        else:
            out[key] = table.numbers(key, ()) if isinstance(value, list) else table.number(key)
    return out


def _cost(table: Table) -> dict[str, str]:
    table.only(("running", "terminal"))
    if not len(table.entries):
        raise table.error("give running, terminal or both: formulas")
    return {key: table.text(key) for key in table}


def _limit(table: Table, key: str) -> Any:
    if isinstance(table.entries[key], list):
        return table.numbers(key, ())
    inner = table.table(key)
    inner.only(("low", "high", "rate"))
    return {name: inner.number(name) for name in inner}


def _solver(table: Table) -> dict[str, Any]:
    table.only(SOLVER)
    out: dict[str, Any] = {"solver": table.choice("solver", SOLVERS, "ipopt")}
    out |= {key: table.whole(key) for key in ("starts", "seed", "max_iterations") if key in table}
    return out | {key: table.number(key) for key in ("tolerance", "change") if key in table}
