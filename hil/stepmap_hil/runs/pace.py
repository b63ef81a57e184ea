"""The pace of a run in lock-step that somebody looks at: no faster than its own time."""

from __future__ import annotations

import time

SLACK = 0.1  # s that a run which was held up may catch up


class Pace:
    """Waits at each tick until it is due by the computer's clock."""

    def __init__(self, period: float) -> None:
        self.period = period
        self._due: float | None = None  # when the next tick may be shown

    def keep(self) -> None:
        now = time.monotonic()
        self._due = (now if self._due is None else max(self._due, now - SLACK)) + self.period
        time.sleep(max(self._due - now, 0.0))
