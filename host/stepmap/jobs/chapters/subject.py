"""What a chapter of a report is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepmap.arrays import Array
from stepmap.jobs.task import Job
from stepmap.mechanics import System


@dataclass(frozen=True, eq=False)
class Subject:
    """A motion of a job: its plan, or what became of it on a board."""

    job: Job
    system: System
    t: Array
    poses: Array  # q̄
    reference: Array | None = None  # q̄ that was wanted
    flown: bool = False  # it is a run, not a plan
    acts: tuple[tuple[float, str], ...] = ()  # of a play: when each begins [s]
    told: Mapping[str, Any] = field(default_factory=dict)  # summary.json of a plan
