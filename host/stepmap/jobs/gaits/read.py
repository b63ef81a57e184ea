"""From the tables of a gait job to what ``sm.direct`` is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.jobs.gaits.job import GaitJob
from stepmap.jobs.parts import SHARED, read_range, read_start, read_system
from stepmap.jobs.weights import (
    by_name,
    channel_names,
    flattened,
    input_names,
    read_noise,
    require_positive,
    state_names,
)
from stepmap.mechanics import System
from stepmap.optimal.direct import Phase
from stepmap.optimal.direct.task import Task
from stepmap.optimal.gaits.hold import natural
from stepmap.toml.tables import Table

TABLES = (
    *("system", "phases", "periodic", "cost", "limits", "path"),
    *("clearance", "landing", "friction", "design", "start"),
)
OTHERS = ("weights", "solver", "noise")
ENDS = ("low", "high", "rate")


def read(root: Table, name: str, more: tuple[str, ...] = ()) -> GaitJob:
    """The job of a document's outermost table; ``more`` are tables that another kind reads itself."""
    root.only((*TABLES, *OTHERS, *SHARED, *more), "table")
    for table, why in (("system", "its name in the catalog or its file"), ("phases", "write [[phases]] with closed")):
        if table not in root:
            raise root.error(f"the table [{table}] is missing: {why}")
    files: dict[str, bytes] = {}
    system = read_system(root.table("system"), files, moved=False)  # walkers go down slopes without a motor
    pose = read_start(root.table("start"), system)
    solver = root.table("solver")
    solver.only(("starts", "seed", "max_iterations", "tolerance", "change"))
    options: dict[str, Any] = {
        "phases": [_phase(table) for table in root.tables("phases")],
        "periodic": _periodic(root.table("periodic")),
        "running": _cost(root.table("cost")),
        "limits": _limits(root.table("limits"), system),
        "path": {key: read_range(root.table("path"), key) for key in root.table("path")},
        "clearance": _gaps(root.table("clearance")),
        "landing": _gaps(root.table("landing")),
        "friction": _gaps(root.table("friction")),
        "design": _design(root.table("design")),
        "start": pose,
        "starts": solver.whole("starts", 1),
        "seed": solver.whole("seed", 0),
        "max_iterations": solver.whole("max_iterations", 1500),
        "tolerance": solver.number("tolerance", 1e-9),
        "change": solver.number("change") if "change" in solver else None,
        "weights": _weights(root.table("weights"), system),
    }
    try:
        task = Task(system=system, **options)
    except ModelError as error:
        what = str(error).removeprefix("the ").partition(":")[0].partition(" ")[0]
        if what not in TABLES or what == "phases" or what not in root:
            raise root.error(str(error), cause=error.cause, hint=error.hint) from None
        said = str(error).removeprefix(f"{what}: ")  # which an error at the table says itself
        raise root.table(what).error(said, cause=error.cause, hint=error.hint) from None
    noise = root.table("noise")
    sensed = read_noise(noise, state_names(system), channel_names(system)) if "noise" in root else None
    return GaitJob(name, task, options, pose, sensed, root, files)


def _phase(table: Table) -> Phase:
    table.only(("closed", "steps", "time"))
    closed = table.entries.get("closed", [])
    if not isinstance(closed, list) or not all(isinstance(name, str) for name in closed):
        raise table.error('expected names of contacts, such as ["stance"]', "closed")
    time: float | tuple[float, float]
    if isinstance(table.entries.get("time"), list):
        low, *high = table.numbers("time", ())
        if len(high) != 1:
            raise table.error("expected seconds, or the range [low, high]", "time")
        time = low, high[0]
    else:
        table.need("time", "Give its length [s], or a range [low, high].")
        time = table.number("time", unit="seconds")
    try:
        return Phase(closed, table.whole("steps", 40), time)
    except ModelError as error:
        raise table.error(str(error), hint=error.hint) from None


def _periodic(table: Table) -> dict[str, Any]:
    """Formulas by coordinate, or lists of them by ball; hip.w = "…" is the name "hip.w", whether quoted or not."""
    made: dict[str, Any] = {}
    for name, (holder, key) in flattened(table).items():
        value = holder.entries[key]
        if isinstance(value, list) and not all(isinstance(part, str) for part in value):
            raise holder.error('expected formulas as texts, such as ["hip.w", "-hip.x"]', key)
        made[name] = value if isinstance(value, str | list) else holder.number(key)
    return made


def _cost(table: Table) -> str:
    """The running cost: parts of work and effort, or a formula."""
    table.only(("work", "effort", "running"))
    if "running" in table:
        if len(list(table)) > 1:
            raise table.error("give either running, a formula, or factors of work and effort", "running")
        return table.text("running")
    parts = [f"{table.number(name)!r}*{name}" for name in ("work", "effort") if name in table]
    return " + ".join(parts) or "effort"


def _limits(table: Table, system: System) -> dict[str, dict[str, float]]:
    """Limits by name; low, high and rate of the table itself, or of [limits.forces], are those of every input."""
    inputs = [i.name for i in system.inputs]
    made: dict[str, dict[str, float]] = {}
    common = {key: table.number(key) for key in ENDS if key in table}
    for name in (name for name in table if name not in ENDS):
        entry = table.table(name)
        entry.only(ENDS)
        values = {key: entry.number(key) for key in entry}
        if name == "forces":
            common |= values
        else:
            made[name] = values
    for name in inputs if common else ():
        made[name] = {**common, **made.get(name, {})}
    return made


def _gaps(table: Table) -> dict[str, float | None]:
    """Numbers by contact; false lets one pass."""
    return {name: None if table.entries[name] is False else table.number(name) for name in table}


def _design(table: Table) -> dict[str, tuple[float, ...]]:
    made = {name: table.numbers(name, ()) for name in table}
    for name, ends in made.items():
        if len(ends) != 2:
            raise table.error("expected a range [low, high]", name)
    return made


def _weights(table: Table, system: System) -> tuple[Array, Array]:
    """Q and R of the gains."""
    table.only(("state", "input"))
    Q, R = natural(system)
    if "state" in table:
        Q = np.diag(by_name(table.table("state"), state_names(system)))
    if "input" in table:
        values = by_name(table.table("input"), input_names(system))
        require_positive(values, input_names(system), table.table("input"), "gains need a price of every input")
        R = np.diag(values)
    return Q, R
