"""The search of direct optimal control: from coarse grids to the one that was asked for, from one start or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from stepmap.arrays import Array
from stepmap.optimal.direct.formulation import Formulation
from stepmap.optimal.direct.guess import first_guess
from stepmap.optimal.direct.motion import Motion, disturbed
from stepmap.optimal.direct.nlp.solve import Found, Settings, solve
from stepmap.optimal.direct.transcription import Transcription
from stepmap.optimal.problem import Iteration, Status

COARSEST = 40  # steps: below, the first grid is the last one
NEAR, WORK, RELEASED = 1e-3, 0.1, 1e-6  # barrier parameters of a refined guess, of work after effort, of a design
TRIES = 5  # starts, where none that was asked for meets all conditions
Monitor: TypeAlias = Callable[[Iteration], None]


@dataclass(frozen=True, eq=False)
class Attempt:
    """A start and what it came to on the coarsest grid."""

    cost: float
    time: float
    status: Status


@dataclass(frozen=True, eq=False)
class Searched:
    """The last grid's result, and how it was found."""

    transcription: Transcription
    found: Found
    history: tuple[Iteration, ...]
    attempts: tuple[Attempt, ...]
    iterations: tuple[int, ...]  # on each grid
    cpu_s: float

    def after(self, earlier: Searched) -> Searched:
        """This search as the end of another."""
        return replace(
            self,
            history=earlier.history + self.history,
            attempts=earlier.attempts,
            iterations=earlier.iterations + self.iterations,
            cpu_s=earlier.cpu_s + self.cpu_s,
        )

    @property
    def motions(self) -> list[Motion]:
        return self.transcription.unpacked(self.found.w)


@dataclass(eq=False)
class _Log:
    """What is told of a search while it runs."""

    monitor: Monitor | None
    history: list[Iteration] = field(default_factory=list)
    cpu_s: float = 0.0
    counts: list[int] = field(default_factory=list)

    def watch(self, grid: str) -> Callable[[float, float, Array], None]:
        def told(cost: float, infeasibility: float, w: Array) -> None:
            self.history.append(Iteration(cost, -infeasibility, 1.0, grid))
            if self.monitor is not None:
                self.monitor(self.history[-1])

        return told


def levels(steps: int) -> list[int]:
    """Numbers of steps from the coarsest grid to the last: twice the first, then four times each."""
    coarse = steps
    while coarse > COARSEST:
        coarse = -(-coarse // 2)
    out, factor = [coarse], 2
    while out[-1] * factor < steps:
        out.append(out[-1] * factor)
        factor = 4
    return out if out[-1] == steps else [*out, steps]


def search(formulation: Formulation, monitor: Monitor | None = None, near: Sequence[Motion] | None = None) -> Searched:
    """The best motion found; with motions that are ``near``, from them, on the last grid alone.

    Where work is priced, effort is first: work has corners, and many minima. Parameters of a design are released last.
    """
    task, log = formulation.task, _Log(monitor)
    full = tuple(phase.steps for phase in task.all_phases)
    first = Formulation(task, gentle=True) if formulation.works else formulation
    if near is not None:
        grid = Transcription(formulation, full)
        motions = [motion.resampled(task.mechanism, count) for motion, count in zip(near, full, strict=True)]
        return _searched(grid, _solved(grid, grid.packed(motions), log, NEAR), log, ())
    grids = _grids(full)
    grid = Transcription(first, grids[0])
    attempts, found = _begin(grid, log)
    for count in grids[1:]:
        if _over(found):
            break
        grid, found = _moved(grid, found, Transcription(first, count), log, NEAR)
    if formulation.works and not _over(found):
        grid, found = _moved(grid, found, Transcription(formulation, full), log, WORK)
    if task.designed and not _over(found):
        free = Transcription(grid.formulation, grid.steps, frozen=False)
        grid, found = free, _solved(free, found.w, log, RELEASED, (found.rows, found.variables))
    return _searched(grid, found, log, attempts)


def _over(found: Found) -> bool:
    return found.status in (Status.INTERRUPTED, Status.UNMET)


def _moved(grid: Transcription, found: Found, onto: Transcription, log: _Log, mu: float) -> tuple[Transcription, Found]:
    """A result as the guess of another grid or cost."""
    motions = [
        motion.resampled(grid.task.mechanism, k) for motion, k in zip(grid.unpacked(found.w), onto.steps, strict=True)
    ]
    return onto, _solved(onto, onto.packed(motions, grid.others(found.w)), log, mu)


def _grids(full: Sequence[int]) -> list[tuple[int, ...]]:
    most = max(full)
    return [tuple(max(2, -(-count * level // most)) for count in full) for level in levels(most)]


def _begin(grid: Transcription, log: _Log) -> tuple[tuple[Attempt, ...], Found]:
    """The best result of all starts on the coarsest grid."""
    task = grid.task
    guess = first_guess(task, grid.steps)
    rng = np.random.default_rng(task.seed)
    attempts: list[Attempt] = []
    best: Found | None = None
    for number in range(max(task.starts, TRIES)):
        if number >= task.starts and best is not None and best.status is not Status.UNMET:
            break
        start = guess if number == 0 else [disturbed(task.mechanism, one, task.bounds, rng) for one in guess]
        found = _solved(grid, grid.packed(start), log, None)
        time = sum(motion.time for motion in grid.unpacked(found.w))
        attempts.append(Attempt(found.cost, time, found.status))
        if best is None or _rank(found) < _rank(best):
            best = found
        if found.status is Status.INTERRUPTED:
            best = replace(best, status=Status.INTERRUPTED)
            break
    assert best is not None  # there is one start at least
    return tuple(attempts), best


def _rank(found: Found) -> tuple[bool, float]:
    return not found.status.ok, found.cost if found.status.ok else found.infeasibility


def _solved(
    grid: Transcription, w: Array, log: _Log, mu: float | None, multipliers: tuple[Array, Array] | None = None
) -> Found:
    task = grid.task
    settings = Settings(task.solver, task.max_iterations, task.tolerance, mu, multipliers)
    found = solve(grid.program, grid.bounds, w, settings, log.watch(f"{sum(grid.steps)} steps"))
    log.cpu_s += found.cpu_s
    log.counts.append(found.iterations)
    return found


def _searched(grid: Transcription, found: Found, log: _Log, attempts: tuple[Attempt, ...]) -> Searched:
    return Searched(grid, found, tuple(log.history), attempts, tuple(log.counts), log.cpu_s)
