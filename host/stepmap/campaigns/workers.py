"""Who makes the trials: processes of this computer, an executor of the user's, or a cluster (cluster.py)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, get_context
from typing import Any, Protocol

from stepmap.campaigns.work import begin

ALONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "STEPMAP_THREADS": "1"}
"""Of worker processes: there is one for each processor already."""


class Workers(Protocol):
    """``count`` is how many trials or chunks go on at the same time; ``name`` is for messages."""

    name: str
    count: int

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]: ...

    def renewed(self) -> bool:
        """Whether work goes on after a worker was lost; all that was submitted has to be submitted again."""

    def stop(self) -> None:
        """Ends them; what they are at is not waited for."""


def usual_count() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class LocalWorkers:
    """Processes of this computer, started by a server that has imported what they need."""

    def __init__(self, count: int | None = None, preload: Sequence[str] = ()) -> None:
        self.count = count or usual_count()
        self.name = f"{self.count} process{'es' * (self.count > 1)} of this computer"
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(["stepmap.campaigns.work", *preload])
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if self._pool is None:
            with _environment(ALONE):
                forkserver.ensure_running()  # what it starts has its environment
            self._pool = ProcessPoolExecutor(self.count, mp_context=self._context, initializer=begin)
        return self._pool.submit(call, *arguments)

    def renewed(self) -> bool:
        self.stop()
        return True

    def stop(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            with suppress(OSError, ValueError):
                process.kill()
        for process in processes:
            with suppress(OSError, ValueError, AssertionError):
                process.join()


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update({name: value for name, value in values.items() if name not in os.environ})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


class GivenWorkers:
    """Any executor; whoever gave it ends it."""

    renewals = 0

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.count = int(getattr(executor, "_max_workers", 0) or usual_count())
        self.name = type(executor).__name__

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._executor.submit(call, *arguments)

    def renewed(self) -> bool:
        return False

    def stop(self) -> None:
        pass
