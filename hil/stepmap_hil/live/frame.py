"""What the live page shows of a tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.system import System

Pose = Mapping[str, float] | Sequence[float] | Array


@dataclass(frozen=True)
class LiveFrame:
    """One tick. A pose is q̄, or a state x, which begins with q̄, or names with values; other names are passed over."""

    time: float  # s
    coordinates: Pose  # of the plant
    estimate: Pose | None = None
    reference: Pose | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)  # for the charts, by the names of their lines
    state: str = ""
    reason: str = ""
    points: Array | None = None  # (N, 3) [m], what a depth camera sees


@dataclass(frozen=True)
class Chart:
    """A strip chart with one line for each name of ``LiveFrame.numbers``."""

    title: str
    unit: str
    lines: tuple[str, ...]


CHARTS = (
    Chart("tracking error", "mm", ("tracking",)),
    Chart("estimate", "mm", ("estimate error", "innovation")),
    Chart("timing", "ms", ("latency",)),
)


def configuration(system: System, pose: Pose | None, base: Array | None = None) -> Array | None:
    """q̄ of a pose, names that are missing from ``base``; None where there is no pose or it is not finite."""
    if pose is None:
        return None
    if not isinstance(pose, Mapping):
        q = np.asarray(pose, dtype=float)[: len(system.coordinates)]
    else:
        fill = [c.start for c in system.coordinates] if base is None else base
        q = np.array([pose.get(c.name, f) for c, f in zip(system.coordinates, fill, strict=True)], dtype=float)
    return q if q.shape == (len(system.coordinates),) and bool(np.isfinite(q).all()) else None
