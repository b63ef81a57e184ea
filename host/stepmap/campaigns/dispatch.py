"""Chunks go out and rows come back, whatever becomes of single workers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, field

from stepmap.campaigns.columns import OK, REASON
from stepmap.campaigns.work import Done, Stopped, work
from stepmap.campaigns.workers import Workers
from stepmap.errors import StepmapError

LOSSES = 3  # of workers that a chunk may have been with, until it is taken for the cause
AHEAD = 2  # chunks per worker that are submitted: none waits, and few have to be submitted again
POLL_S = 1.0

Chunk = tuple[int, int]
"""The first trial, and the one after the last."""
Keep = Callable[[Chunk, Done], None]


class LostWorkersError(StepmapError):
    """There are no workers any more."""


class WorkerError(StepmapError):
    """Something is wrong with a worker's computer, not with a trial."""


@dataclass
class Dispatch:
    """The state of a campaign while it runs; ``keep`` is called with the rows of every chunk."""

    workers: Workers
    pickled: bytes
    keep: Keep
    losses: Counter[Chunk] = field(default_factory=Counter)
    lost_workers: int = 0
    _suspects: list[Chunk] = field(default_factory=list)

    def run(self, chunks: Iterable[Chunk]) -> None:
        """All of them. A chunk whose workers are lost again and again is tried alone, then trial by trial."""
        waiting, running = deque(chunks), dict[Future[Done | Stopped], Chunk]()
        try:
            while waiting or running:
                while waiting and len(running) < AHEAD * self.workers.count:
                    chunk = waiting.popleft()
                    future = self._submitted(chunk)
                    if future is None:
                        waiting.appendleft(chunk)
                        break
                    running[future] = chunk
                if running:
                    wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED)
                lost = self._collect(running)
                if lost is None:
                    self._require_workers()
                    continue
                lost += running.values()  # of a pool that is broken none comes back
                running.clear()
                self._renew()
                for chunk in sorted(lost, reverse=True):
                    self.losses[chunk] += 1
                    if self.losses[chunk] < LOSSES:
                        waiting.appendleft(chunk)
                    else:
                        self._suspects.append(chunk)
            for chunk in sorted(self._suspects):
                self._alone(chunk)
        except BaseException:
            for future in running:
                future.cancel()
            raise

    def _submitted(self, chunk: Chunk) -> Future[Done | Stopped] | None:
        """None where the pool broke since it was looked at."""
        try:
            return self.workers.submit(work, self.pickled, *chunk)
        except BrokenExecutor:
            self._renew()
            return None

    def _collect(self, running: dict[Future[Done | Stopped], Chunk]) -> list[Chunk] | None:
        """Keeps what is done; chunks that were lost with their workers, None where there are none."""
        lost = []
        for future in [future for future in running if future.done()]:
            chunk = running.pop(future)
            done = self._result(future)
            if done is None:
                lost.append(chunk)
            else:
                self.keep(chunk, done)
        return lost or None

    def _result(self, future: Future[Done | Stopped]) -> Done | None:
        try:
            found = future.result()
        except (BrokenExecutor, CancelledError):
            return None
        except Exception as error:
            if type(error).__name__ == "KilledWorker":  # of distributed, which need not be installed
                return None
            raise WorkerError(
                f"a worker cannot go on: {type(error).__name__}: {error}",
                hint="What is done is kept: the same command goes on there.",
            ) from error
        if isinstance(found, Stopped):
            raise WorkerError(f"a worker cannot go on: {found.text}", cause=found.cause, hint=found.hint)
        return found

    def _alone(self, chunk: Chunk) -> None:
        """A chunk with nothing beside it, so that it is known what a worker was lost with."""
        for _ in range(LOSSES if chunk[1] - chunk[0] == 1 else 1):
            future = self._submitted(chunk)
            done = None if future is None else self._result(future)
            if done is not None:
                self.keep(chunk, done)
                return
            if future is not None:
                self._renew()
        if chunk[1] - chunk[0] > 1:
            self._apart(chunk)
        else:
            row = {OK: False, REASON: f"its worker process was lost {LOSSES} times"}
            self.keep(chunk, Done([row], 0.0, 0.0, ""))

    def _apart(self, chunk: Chunk) -> None:
        """A chunk trial by trial; it is kept as a whole."""
        rows, cpu, wall, keep = [], 0.0, 0.0, self.keep

        def collect(_: Chunk, done: Done) -> None:
            nonlocal cpu, wall
            rows.extend(done.rows)
            cpu, wall = cpu + done.cpu_s, wall + done.wall_s

        self.keep = collect
        try:
            for number in range(*chunk):
                self._alone((number, number + 1))
        finally:
            self.keep = keep
        keep(chunk, Done(rows, cpu, wall, ""))

    def _renew(self) -> None:
        self.lost_workers += 1
        if not self.workers.renewed():
            self._give_up()

    def _require_workers(self) -> None:
        if getattr(self.workers, "gone", False):
            self._give_up()

    def _give_up(self) -> None:
        raise LostWorkersError(
            f"the workers are gone ({self.workers.name})",
            hint="What is done is kept: the same command goes on there, with other workers, too.",
        )
