"""Points of a trajectory in shares, one per thread: the compiled functions let other threads run meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache

from stepmap.steps.kernels.info import OK, Info

WORTH = 100_000  # entries of derivatives per thread below which starting one takes longer than it saves


@cache
def threads() -> int:
    """How many there may be: $STEPMAP_THREADS, or the processors this process may use, two at most."""
    asked = os.environ.get("STEPMAP_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def alone(points: int, work: int) -> bool:
    """Whether there is too little to do for more than one thread."""
    return points * work < 2 * WORTH or threads() < 2


def shared(share: Callable[[int, int], Info], points: int, work: int) -> Info:
    """``share`` called on parts of all points at the same time; ``work`` is what one point takes, in entries.

    Results do not depend on the number of threads. The failure with the lowest number counts.
    """
    count = min(threads(), points, points * work // WORTH)
    if count < 2:
        return share(0, points)
    bounds = [points * i // count for i in range(count + 1)]
    found: list[Info | BaseException | None] = [None] * count

    def run(i: int) -> None:
        try:
            found[i] = share(bounds[i], bounds[i + 1])
        except BaseException as error:  # goes on in the caller's thread
            found[i] = error

    # Daemons: an interrupt may come while one starts, and an executor would wait for it for ever at the end.
    others = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(1, count)]
    for other in others:
        other.start()
    run(0)
    for other in others:
        other.join()
    for result in found:
        if isinstance(result, BaseException):
            raise result
    infos = [result for result in found if isinstance(result, Info)]
    return next((info for info in infos if info.status != OK), infos[-1])
