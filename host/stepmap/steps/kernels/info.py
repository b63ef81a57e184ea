"""How a kernel's solve went."""

from __future__ import annotations

from typing import NamedTuple

OK, NOT_FINITE, SINGULAR, DIVERGED = 0, -1, -2, -3


class Info(NamedTuple):
    """Status, Newton iterations and residual of a solve; the step and the start of a rollout that failed."""

    status: int
    iterations: int
    residual: float
    step: int = 0
    start: int = 0
