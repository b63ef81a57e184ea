"""The search of direct optimal control: from coarse grids to the one that was asked for, from one start or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.optimal.direct.formulation import Formulation
from stepmap.optimal.direct.guess import first_guess
from stepmap.optimal.direct.motion import Motion, disturbed
from stepmap.optimal.direct.nlp.solve import CUT_OFF, Found, Settings, solve
from stepmap.optimal.direct.task import Phase, Task
from stepmap.optimal.direct.transcription import Transcription
from stepmap.optimal.problem import Iteration, Status

COARSEST = 40  # steps: below, the first grid is the last one
NEAR, RELEASED = 1e-3, 1e-6  # barrier parameters of a refined guess, and of one that has its multipliers
TRIES = 5  # starts, where none that was asked for meets all conditions
ROUGH = 1e-3  # tolerance of effort where it only shows the way
ALMOST = 1e-2  # by which conditions may be off where a search is cut off, to be met by what is near
Monitor: TypeAlias = Callable[[Iteration], None]


class Recipe(NamedTuple):
    """How a start gets from effort to work: by roughly least effort or the least, and the first barrier parameter."""

    rough: bool
    mu: float


RECIPES = (Recipe(False, 0.1), Recipe(True, 0.1), Recipe(False, 0.01), Recipe(True, 1.0))


@dataclass(frozen=True, eq=False)
class Attempt:
    """A start and what it came to: least work where that is priced, else the least cost on the coarsest grid."""

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


def search(
    formulation: Formulation,
    monitor: Monitor | None = None,
    near: Sequence[Motion] | None = None,
    only: int | None = None,
) -> Searched:
    """The best motion found; with motions that are ``near``, from them, on the last grid alone.

    ``only`` is the number of the one start to take. Where work is priced, effort is first: work has corners, and many
    minima. Parameters of a design are released last.
    """
    task, log = formulation.task, _Log(monitor)
    if near is not None:
        full = tuple(phase.steps for phase in task.all_phases)
        grid = Transcription(formulation, full)
        motions = [motion.resampled(task.mechanism, count) for motion, count in zip(near, full, strict=True)]
        return _searched(grid, _solved(grid, grid.packed(motions), log, NEAR), log, ())
    least = _least_work if formulation.works else _least
    free = any(low < high for low, high in task.designed.values())
    early = task.cyclic and _too_many(Transcription(formulation, _grids(task)[0]))
    if early and not free:
        raise ModelError(
            "periodic: there are more equations than unknowns: a cycle that nothing drives has one time and one stride",
            hint="Give a range of the time of a phase, and of a parameter in design, such as the stride.",
        )
    attempts, grid, found = least(formulation, log, only, frozen=not early)
    if free and not early and found.status is not Status.INTERRUPTED:
        if found.status is Status.UNMET:  # of these parameters there is no motion; of others there may be
            attempts, grid, found = least(formulation, log, only, frozen=False)
        else:
            grid = Transcription(grid.formulation, grid.steps, frozen=False)
            found = _solved(grid, found.w, log, RELEASED, (found.rows, found.variables))
    return _searched(grid, found, log, attempts)


def _too_many(grid: Transcription) -> bool:
    """Whether there are more equations than variables: a cycle without inputs has one stride."""
    low, high = grid.program.bounds
    fixed = np.equal(*grid.bounds)
    return int((low == high).sum()) > int((~fixed).sum())


def continued(formulation: Formulation, earlier: Searched, *, frozen: bool = True) -> Searched:
    """On from the result of a search with other values of parameters, with its multipliers: the same branch of minima.

    Parameters of a design are ``frozen`` at the system's values, or released.
    """
    log = _Log(None)
    grid = Transcription(formulation, earlier.transcription.steps, frozen)
    found = _solved(grid, earlier.found.w, log, RELEASED, (earlier.found.rows, earlier.found.variables))
    return _searched(grid, found, log, earlier.attempts)


def _least(
    formulation: Formulation, log: _Log, only: int | None, *, frozen: bool
) -> tuple[tuple[Attempt, ...], Transcription, Found]:
    """All starts on the coarsest grid, and the best of them on all others."""
    coarse = Transcription(formulation, _grids(formulation.task)[0], frozen)
    attempts, found = _begin(coarse, log, only)
    return attempts, *_refined(coarse, found, log)


def _least_work(
    formulation: Formulation, log: _Log, only: int | None, *, frozen: bool
) -> tuple[tuple[Attempt, ...], Transcription, Found]:
    """All starts, each by a recipe of its own, to least work on the last grid: those end far apart."""
    task, gentle = formulation.task, Formulation(formulation.task, gentle=True)
    coarse = Transcription(gentle, _grids(task)[0], frozen)
    attempts: list[Attempt] = []
    best: tuple[Transcription, Found] | None = None
    for number, start in _starts(coarse, only):
        if number >= task.starts and best is not None and best[1].status is not Status.UNMET:
            break
        recipe = RECIPES[number % len(RECIPES)]
        found = _solved(coarse, start, log, None, tolerance=ROUGH if recipe.rough else None)
        grid, found = _refined(coarse, found, log) if not recipe.rough else (coarse, found)
        if not _over(found):
            full = Transcription(formulation, tuple(phase.steps for phase in task.all_phases), frozen)
            grid, found = _moved(grid, found, full, log, recipe.mu)
            found = _settled(grid, found, log)
        attempts.append(_attempt(grid, found))
        if best is None or _rank(found) < _rank(best[1]):
            best = grid, found
        if found.status is Status.INTERRUPTED:
            best = best[0], replace(best[1], status=Status.INTERRUPTED)
            break
    assert best is not None  # there is one start at least
    return tuple(attempts), *best


def _refined(grid: Transcription, found: Found, log: _Log) -> tuple[Transcription, Found]:
    """A result on the coarsest grid taken to the last one."""
    for count in _grids(grid.task)[1:]:
        if _over(found):
            break
        grid, found = _moved(grid, found, replace(grid, steps=count), log, NEAR)
    return grid, found


def _settled(grid: Transcription, found: Found, log: _Log) -> Found:
    """A search that was cut off before it met all conditions, at the motion next to its last one that does."""
    if found.said != CUT_OFF or found.status is not Status.UNMET or found.infeasibility > ALMOST:
        return found
    program = replace(grid.program, near=found.w)
    settings = Settings(grid.task.solver, grid.task.max_iterations, grid.task.tolerance, NEAR)
    met = solve(program, grid.bounds, found.w, settings, log.watch(f"{sum(grid.steps)} steps, met"))
    log.cpu_s += met.cpu_s
    log.counts.append(met.iterations)
    if not met.status.ok:
        return found
    return replace(met, cost=grid.program.cost(met.w), status=Status.ITERATIONS, said=found.said)


def _over(found: Found) -> bool:
    return found.status in (Status.INTERRUPTED, Status.UNMET)


def _moved(grid: Transcription, found: Found, onto: Transcription, log: _Log, mu: float) -> tuple[Transcription, Found]:
    """A result as the guess of another grid or cost."""
    motions = [
        motion.resampled(grid.task.mechanism, k) for motion, k in zip(grid.unpacked(found.w), onto.steps, strict=True)
    ]
    return onto, _solved(onto, onto.packed(motions, grid.others(found.w)), log, mu)


def _grids(task: Task) -> list[tuple[int, ...]]:
    full = [phase.steps for phase in task.all_phases]
    return [tuple(max(2, -(-count * level // max(full))) for count in full) for level in levels(max(full))]


def _starts(grid: Transcription, only: int | None) -> Iterator[tuple[int, Array]]:
    """First iterates by number: the guess, and disturbed ones; more than are asked for, where none came to an end."""
    task = grid.task
    guess = first_guess(task, grid.steps)
    rng = np.random.default_rng(task.seed)
    for number in range(max(task.starts, TRIES) if only is None else only + 1):
        start = guess if number == 0 else [disturbed(task.mechanism, one, task.bounds, rng) for one in guess]
        if number and task.cyclic:
            start = [_timed(one, phase, rng) for one, phase in zip(start, task.all_phases, strict=True)]
        if only in (None, number):
            yield number, grid.packed(start)


def _timed(motion: Motion, phase: Phase, rng: np.random.Generator) -> Motion:
    """In a time of the phase's range, where it has one: cycles of other times are other basins."""
    low, high = phase.range
    if low == high:
        return motion
    time = float(np.exp(rng.uniform(*np.log([low, high]))))
    return motion.timed(time, time)


def _begin(grid: Transcription, log: _Log, only: int | None) -> tuple[tuple[Attempt, ...], Found]:
    """The best result of all starts on the coarsest grid."""
    attempts: list[Attempt] = []
    best: Found | None = None
    for number, start in _starts(grid, only):
        if number >= grid.task.starts and best is not None and best.status is not Status.UNMET:
            break
        found = _solved(grid, start, log, None)
        attempts.append(_attempt(grid, found))
        if best is None or _rank(found) < _rank(best):
            best = found
        if found.status is Status.INTERRUPTED:
            best = replace(best, status=Status.INTERRUPTED)
            break
    assert best is not None  # there is one start at least
    return tuple(attempts), best


def _attempt(grid: Transcription, found: Found) -> Attempt:
    return Attempt(found.cost, sum(motion.time for motion in grid.unpacked(found.w)), found.status)


def _rank(found: Found) -> tuple[bool, float]:
    return not found.status.ok, found.cost if found.status.ok else found.infeasibility


def _solved(
    grid: Transcription,
    w: Array,
    log: _Log,
    mu: float | None,
    multipliers: tuple[Array, Array] | None = None,
    tolerance: float | None = None,
) -> Found:
    task = grid.task
    settings = Settings(task.solver, task.max_iterations, tolerance or task.tolerance, mu, multipliers)
    found = solve(grid.program, grid.bounds, w, settings, log.watch(f"{sum(grid.steps)} steps"))
    log.cpu_s += found.cpu_s
    log.counts.append(found.iterations)
    return found


def _searched(grid: Transcription, found: Found, log: _Log, attempts: tuple[Attempt, ...]) -> Searched:
    return Searched(grid, found, tuple(log.history), attempts, tuple(log.counts), log.cpu_s)
