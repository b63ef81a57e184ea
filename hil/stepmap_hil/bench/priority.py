"""Priority of processes that run in real time, where the system permits it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

NICE = -10


@contextmanager
def keeping_time() -> Iterator[None]:
    """A block in which this process comes first, and those that it starts; without the right to it nothing changes.

    Whoever calls a command from a program of their own has the priority back afterwards.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, min(NICE, before))
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)
