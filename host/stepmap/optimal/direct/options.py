"""Arguments of sm.direct."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from stepmap.optimal.direct.names import Formula
from stepmap.optimal.direct.task import Phase


class Options(TypedDict, total=False):
    """Keywords of ``direct``, which documents them."""

    steps: int
    time: float | tuple[float, float]
    start: Any
    goal: Any
    running: Formula
    terminal: Formula
    limits: Mapping[str, Any]
    path: Mapping[Any, Any]
    boundary: Mapping[Any, Any]
    clear: Sequence[Any]
    guess: Any
    starts: int
    seed: int
    change: float | None
    solver: str
    compiled: bool
    max_iterations: int
    tolerance: float
    weights: tuple[Any, Any] | None
    phases: Sequence[Phase]
    periodic: Mapping[str, Formula] | None
    design: Mapping[str, Any]
    clearance: Mapping[str, float | None]
    landing: Mapping[str, float]
    friction: Mapping[str, float]
