"""Priority of processes that run in real time, where the system permits it."""

from __future__ import annotations

import os
from contextlib import suppress

NICE = -10


def keep_time() -> None:
    """For this process and those it starts; without the right to do so nothing changes."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, min(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
