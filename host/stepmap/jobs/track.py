"""Jobs of kind "track": the trajectory nearest to a reference. docs/jobs.md describes every key."""

from __future__ import annotations

from typing import cast

import numpy as np

from stepmap.jobs.job import Solver, TrackingJob
from stepmap.jobs.parts import SHARED, read_forces, read_start, read_system, read_time
from stepmap.jobs.reference import read_reference
from stepmap.jobs.weights import channel_names, input_names, read_limits, read_noise, read_weights, state_names
from stepmap.optimal.projection import Method
from stepmap.toml.tables import Table

NEEDED = {
    "system": "its name in the catalog or its file, and its arguments",
    "time": "dt, and duration or steps",
    "reference": "what the trajectory is to be near",
    "weights": "what deviations from the reference cost",
}
OPTIONAL = ("start", "limits", "solver", "noise")
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
    files: dict[str, bytes] = {}
    system = read_system(root.table("system"), files)
    dt, steps = read_time(root.table("time"))
    pose = read_start(root.table("start"), system)
    states, inputs = state_names(system), input_names(system)
    t = dt * np.arange(steps + 1)
    return TrackingJob(
        name=name,
        system=system,
        dt=dt,
        steps=steps,
        forces=read_forces(root.table("time")),
        pose=pose,
        reference=read_reference(root.table("reference"), system, pose, t, files),
        weights=read_weights(root.table("weights"), states, inputs),
        limits=read_limits(root.table("limits"), states, inputs),
        solver=_solver(root.table("solver")),
        noise=read_noise(root.table("noise"), states, channel_names(system)) if "noise" in root else None,
        root=root,
        files=files,
    )


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
