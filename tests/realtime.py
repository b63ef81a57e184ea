"""Whether this machine can hold real time now: measured by processes that have nothing to do with the product.

A probe does at thirty hertz what a run does there, as far as the processor is concerned: two processes that work for a
part of every period. Where they do not come to an end in time, nobody could have.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PERIOD = 1 / 30  # s
TICKS = 45
LATE = 0.05  # part of the ticks that may come to an end late
FRESH = 30.0  # s for which it is believed that a machine holds real time as it did
WORKER = """
import sys, time
start, period, ticks, share = (float(word) for word in sys.argv[1:])
late = 0
for k in range(int(ticks)):
    due = start + k * period
    time.sleep(max(0.0, due - time.monotonic()))
    until = time.process_time() + share * period
    while time.process_time() < until:
        pass
    late += time.monotonic() > due + period
print(late / ticks)
"""


def late_part(share: float, processes: int = 2) -> float:
    """The part of a probe's ticks that ended after their period, of the process that had more of them.

    ``share`` is the part of a period for which each of the processes works.
    """
    words = [sys.executable, "-I", "-S", "-c", WORKER, repr(time.monotonic() + 0.5)]
    words += [repr(PERIOD), str(TICKS), repr(share)]
    made = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return max(float(process.communicate()[0]) for process in made)


class _Others:
    """How many threads of this machine want a processor, while a block runs."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)

    def _count(self) -> None:
        while not self._over.wait(0.05):
            self.counts.append(int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]))

    def __enter__(self) -> _Others:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def mean(self) -> float:
        return sum(self.counts) / max(1, len(self.counts))


_held: dict[tuple[float, int], float] = {}  # when a machine was last seen to hold real time, by what was asked of it


@contextmanager
def real_time(share: float = 0.3, processes: int = 2) -> Iterator[None]:
    """Skips where the machine cannot hold real time, by the probe's word alone: before the block, or after it failed.

    In between, where a probe would be in the way, threads that want a processor are counted: with more than twice as
    many as there are processors a failure says nothing, be it an assertion or an error that the product raises. A
    product that is slow on a machine that is not fails.
    Tests that follow each other share a probe, as nobody else has a turn between them.
    """
    asked = (share, processes)
    if time.monotonic() - _held.pop(asked, float("-inf")) > FRESH:
        before = late_part(share, processes)
        if before > LATE:
            pytest.skip(f"a probe ended {before:.0%} of its ticks late: this machine cannot hold real time now")
    try:
        with _Others() as others:
            yield
        _held[asked] = time.monotonic()
    except (Exception, pytest.fail.Exception):  # a board that is served too late is an error of the product's own
        if others.mean > 2 * (os.cpu_count() or 1):
            pytest.skip(f"{others.mean:.1f} threads wanted a processor: this machine could not hold real time")
        after = late_part(share, processes)
        if after > LATE:
            pytest.skip(f"a probe ended {after:.0%} of its ticks late: this machine cannot hold real time now")
        raise
