"""What the live page shows of a tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.system import System

CLOUD = "depth points"  # the layer of a depth camera
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
    missed: int = 0  # samples of the run that did not come, so far
    loss: float = 0.0  # part of the board's messages that got lost, so far
    charted: bool = True  # False before the run, with which charts begin


@dataclass(frozen=True)
class Chart:
    """A strip chart with one line for each name of ``LiveFrame.numbers``.

    ``low`` and ``high`` fix its scale; without them it grows in steps of 1, 2, 5 and never shrinks. ``gate``: what lies
    beyond its limits is marked.
    """

    title: str
    unit: str
    lines: tuple[str, ...]
    limits: tuple[tuple[float, str], ...] = ()  # level, and what it is called
    low: float | None = None
    high: float | None = None
    gate: bool = False
    error: bool = False  # its first line colours the trail, and its RMS is told


CHARTS = (
    Chart("Tracking error", "mm", ("tracking",), low=0.0, error=True),
    Chart("Estimate", "mm", ("estimate error", "innovation"), low=0.0),
    Chart("Tick time", "ms", ("latency",), low=0.0),
)


def step_above(value: float) -> float:
    """The least of 1, 2, 5, 10, … and their tenths that is not below a value."""
    power = 10.0 ** np.floor(np.log10(max(value, 1e-9)))
    return float(next(m * power for m in (1, 2, 5, 10) if m * power >= value * (1 - 1e-9)))


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
