"""From a job file to a Job: docs/jobs.md describes every key."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import cast

import numpy as np

from stepmap import systems
from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, JobError, ModelError
from stepmap.jobs.job import Job, Solver
from stepmap.jobs.reference import read_reference
from stepmap.jobs.weights import channel_names, input_names, read_limits, read_noise, read_weights, state_names
from stepmap.mechanics import System
from stepmap.optimal.projection import Method
from stepmap.simulation import start_pose
from stepmap.text import printable
from stepmap.toml.tables import Table, nearest, read

NEEDED = {
    "system": "its name in the catalog and its arguments",
    "time": "dt, and duration or steps",
    "reference": "what the trajectory is to be near",
    "weights": "what deviations from the reference cost",
}
OPTIONAL = ("start", "limits", "solver", "noise")
RESERVED = ("codegen", "board", "bench")  # of later stages, which read and check them
METHODS = ("newton", "gauss-newton", "steepest")
GUESSES = ("hold", "release", "reference")
MOST_STEPS = 1_000_000  # more than any search could take, and little enough to be kept in memory
WHOLE = 1e-9  # how far duration/dt may be from a whole number


def load(path: str | os.PathLike[str]) -> Job:
    """The job that a file describes. Raises JobError, with file and line, at the first thing that is wrong."""
    name = job_name(Path(path))
    return parse(read(Path(path)), name)


def job_name(path: Path) -> str:
    """The name of the job in a file: the file's, without its ending. Raises JobError where it cannot be a folder's."""
    return require_name(path.stem, str(path))


def require_name(name: str, file: str) -> str:
    """The name, where it can be that of a folder in the build folder; raises JobError where it cannot."""
    if not name or name.startswith(".") or set(name) & set("/\\") or printable(name) != name:
        raise JobError(
            f"a job has the name of its file, and so has its folder: {name!r} begins with a dot, or holds a character "
            "that no name may have; call the file otherwise",
            file=file,
        )
    return name


def parse(root: Table, name: str) -> Job:
    """The job of a document's outermost table; as `load`."""
    root.only((*NEEDED, *OPTIONAL, *RESERVED), "table")
    for table, why in NEEDED.items():
        if table not in root:
            raise root.error(f"the table [{table}] is missing: {why}")
    for table in root:
        root.table(table)
    system = _system(root.table("system"))
    dt, steps = _time(root.table("time"))
    pose = _start(root.table("start"), system)
    states, inputs = state_names(system), input_names(system)
    files: dict[str, bytes] = {}
    t = dt * np.arange(steps + 1)
    return Job(
        name=name,
        system=system,
        dt=dt,
        steps=steps,
        pose=pose,
        reference=read_reference(root.table("reference"), system, pose, t, files),
        weights=read_weights(root.table("weights"), states, inputs),
        limits=read_limits(root.table("limits"), states, inputs),
        solver=_solver(root.table("solver")),
        noise=read_noise(root.table("noise"), states, channel_names(system)) if "noise" in root else None,
        document=root.entries,
        files=files,
    )


def _system(table: Table) -> System:
    table.need("name", f"one of {', '.join(systems.names())}")
    name = table.text("name")
    if name not in systems.names():
        raise table.error(f"no system is called {name!r}; {nearest(name, systems.names())}", "name")
    known = inspect.signature(systems.maker(name)).parameters
    table.only(("name", *known), "argument")
    arguments = {key: table.like(key, known[key].default) for key in table if key != "name"}
    try:
        system = systems.get(name, **arguments)
    except ModelError as error:
        raise table.error(str(error)) from None
    if not (system.inputs or system.kinematic):
        raise table.error(f"{system.name!r} has no force input and no kinematic coordinate to be moved by")
    return system


def _time(table: Table) -> tuple[float, int]:
    """dt and the number of steps."""
    table.only(("dt", "duration", "steps"))
    table.need("dt", "the time step [s]")
    dt = table.number("dt", unit="seconds")
    if not dt > 0:
        raise table.error(f"must be positive, got {dt:g}", "dt")
    if ("duration" in table) == ("steps" in table):
        raise table.error("give either duration [s] or steps")
    if "steps" in table:
        steps = table.whole("steps")
        if steps < 1:
            raise table.error(f"the horizon must have at least one step, got {steps}", "steps")
        if steps > MOST_STEPS:
            raise table.error(f"the horizon may have {MOST_STEPS} steps at most, got {steps}", "steps")
        return dt, steps
    duration = table.number("duration", unit="seconds")
    count = duration / dt
    if count > MOST_STEPS:
        raise table.error(f"the horizon may have {MOST_STEPS} steps at most, this is {count:.4g}", "duration")
    steps = round(count)
    if steps < 1:
        raise table.error(f"the horizon must have at least one step of {dt:g} s, got {duration:g} s", "duration")
    if abs(count - steps) > WHOLE * max(1.0, count):
        raise table.error(
            f"must be a whole number of steps: {duration:g} s is {count:.9g} steps of {dt:.9g} s", "duration"
        )
    return dt, steps


def _start(table: Table, system: System) -> Array:
    """q̄ at the start: the system's own, with what the job names; on the constraints, or put there if it asks for it."""
    names = [c.name for c in system.coordinates]
    table.only((*names, "satisfy"), "coordinate")
    wanted = {c.name: table.number(c.name, unit=c.unit) for c in system.coordinates if c.name in table}
    try:
        if table.flag("satisfy"):
            return start_pose(system, wanted)
        pose = system.configuration(wanted)
        system.require_on_constraints(pose)
    except ConvergenceError as error:
        raise table.error(str(error), "satisfy") from None
    except ModelError as error:
        reason = str(error).partition(";")[0]
        raise table.error(f"{reason}; give coordinates that agree, or satisfy = true") from None
    return pose


def _solver(table: Table) -> Solver:
    table.only(("method", "max_iterations", "tolerance", "stages", "guess"))
    usual = Solver()
    method = cast(Method, table.choice("method", METHODS, usual.method))
    iterations = table.whole("max_iterations", usual.max_iterations)
    tolerance = table.number("tolerance", usual.tolerance)
    stages = table.numbers("stages", usual.stages)
    for name, value in (("max_iterations", iterations), ("tolerance", tolerance)):
        if value < 0:
            raise table.error(f"must not be negative, got {value:g}", name)
    if not stages or stages[-1] != 1.0 or min(stages) <= 0:
        raise table.error("must be positive parts of the way that end in 1, like [0.25, 0.5, 1]", "stages")
    return Solver(method, iterations, tolerance, stages, table.choice("guess", GUESSES, usual.guess))
