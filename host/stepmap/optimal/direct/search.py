"""The search of direct optimal control: from coarse grids to the one that was asked for, from one start or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from stepmap.arrays import Array
from stepmap.optimal.direct.guess import first_guess
from stepmap.optimal.direct.motion import Motion, disturbed
from stepmap.optimal.direct.nlp.solve import Found, Settings, solve
from stepmap.optimal.direct.transcription import Formulation, Transcription
from stepmap.optimal.problem import Iteration, Status

COARSEST = 40  # steps: below, the first grid is the last one
NEAR = 1e-3  # barrier parameter of a refined guess
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
    """The best motion found; with motions that are ``near``, from them, on the last grid alone."""
    task = formulation.task
    log = _Log(monitor)
    full = [phase.steps for phase in task.all_phases]
    if near is not None:
        motions = [motion.resampled(count) for motion, count in zip(near, full, strict=True)]
        grid = Transcription(formulation, tuple(full))
        return _searched(grid, _solved(grid, motions, log, NEAR), log, ())
    grids = _grids(full)
    grid = Transcription(formulation, grids[0])
    attempts, found = _begin(grid, log)
    for count in grids[1:]:
        if found.status in (Status.INTERRUPTED, Status.UNMET):
            break
        motions = [motion.resampled(k) for motion, k in zip(grid.unpacked(found.w), count, strict=True)]
        grid = Transcription(formulation, count)
        found = _solved(grid, motions, log, NEAR)
    return _searched(grid, found, log, attempts)


def _grids(full: Sequence[int]) -> list[tuple[int, ...]]:
    most = max(full)
    return [tuple(max(2, -(-count * level // most)) for count in full) for level in levels(most)]


def _begin(grid: Transcription, log: _Log) -> tuple[tuple[Attempt, ...], Found]:
    """The best result of all starts on the coarsest grid."""
    task = grid.task
    guess = first_guess(task, grid.steps[0])
    rng = np.random.default_rng(task.seed)
    attempts: list[Attempt] = []
    best: Found | None = None
    for number in range(max(task.starts, TRIES)):
        if number >= task.starts and best is not None and best.status is not Status.UNMET:
            break
        start = guess if number == 0 else disturbed(task.mechanism, guess, task.bounds, rng)
        found = _solved(grid, [start], log, None)
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


def _solved(grid: Transcription, motions: Sequence[Motion], log: _Log, mu: float | None) -> Found:
    task = grid.task
    settings = Settings(task.solver, task.max_iterations, task.tolerance, mu)
    name = f"{sum(grid.steps)} steps"
    found = solve(grid.program, grid.bounds, grid.packed(motions), settings, log.watch(name))
    log.cpu_s += found.cpu_s
    log.counts.append(found.iterations)
    return found


def _searched(grid: Transcription, found: Found, log: _Log, attempts: tuple[Attempt, ...]) -> Searched:
    return Searched(grid, found, tuple(log.history), attempts, tuple(log.counts), log.cpu_s)
