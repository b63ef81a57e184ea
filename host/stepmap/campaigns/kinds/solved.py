"""What searches of a campaign have in common: a job solved once per trial, and what is told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.campaigns.columns import Column, Row
from stepmap.campaigns.study import Job
from stepmap.errors import StepmapError
from stepmap.jobs import Outcome
from stepmap.jobs.optimize import taken
from stepmap.steps import Trajectory

SAME = 1e-6  # relative: costs that near are those of one optimum


def columns(job: Job) -> tuple[Column, ...]:
    """Of a search."""
    units = [*(i.unit for i in job.system.inputs), *(c.unit for c in job.system.kinematic)]
    peaks = zip(job.step.input_names, units, strict=True)
    return (
        Column("status", "how the search ended", type="text"),
        Column("cost", "cost of the motion found", shown=True),
        Column("iterations", "steps of the search", type="whole", shown=True),
        Column("duration", "length of the motion", "s"),
        *(Column(f"peak_{name}", f"largest absolute value of {name}", unit) for name, unit in peaks),
    )


def row(job: Job, found: Outcome) -> Row:
    """What a search came to; raises StepmapError where it did not converge, with what it says to do."""
    if found.status.interrupted:
        raise KeyboardInterrupt
    if not found.status.ok:
        raise StepmapError(f"{found.status.name.lower()}: {getattr(found, 'advice', '') or found.status}")
    plan = found.plan.trajectory
    peaks = np.abs(plan.u).max(axis=0)
    return {
        "status": found.status.name.lower(),
        "cost": float(found.cost),
        "iterations": taken(found),
        "duration": float(plan.t[-1]),
        **{f"peak_{name}": float(peak) for name, peak in zip(job.step.input_names, peaks, strict=True)},
    }


def guess(job: Job, spread: Array, knots: int, rng: np.random.Generator) -> Trajectory:
    """The motion under inputs that wander about what holds the start, straight between ``knots`` random places."""
    held = np.asarray(job.held) if hasattr(job, "held") else job.step.layout.hold(job.step.rest(job.pose))
    at = np.linspace(0, job.steps - 1, knots)
    places = spread * rng.standard_normal((knots, len(spread)))
    wander = np.stack([np.interp(np.arange(job.steps), at, places[:, i]) for i in range(len(spread))], axis=1)
    start = getattr(job, "start", None)
    begin = job.step.rest(job.pose) if start is None else start
    made: Trajectory = job.step.rollout(begin, held + wander)
    return made


def best(told: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, str]]:
    """The least cost, at which parameters it was found, and how many trials came to it."""
    cost = told["cost"]
    if not len(cost):
        return []
    least = int(np.argmin(cost))
    near = int((cost <= cost[least] + SAME * max(abs(cost[least]), 1e-300)).sum())
    at = ", ".join(f"{name} = {_shown(told[name][least])}" for name in names)
    rows = [("least cost", f"{cost[least]:.10g}, trial {told['trial'][least]}{f': {at}' if at else ''}")]
    return [*rows, ("came to it", f"{near} of {len(cost)} trials, within {SAME:g} of the cost")]


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
