"""Searches with relaxed gaps: smooth first, sharper in stages, and in the end through the step with events.

On the step with events each force that reaches zero is a kink, and a search through slack phases is held up by them.
With relaxed gaps (steps/relaxed.py) it is Newton's method on a smooth map. κ falls from stage to stage, each of which
begins at the result of the last; what it comes to is then rolled out with events, and polished there.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stepmap.errors import ConvergenceError, ModelError
from stepmap.optimal.problem import Iteration, Problem, Solution, Status
from stepmap.optimal.projection import optimize
from stepmap.steps.events.step import EventStep
from stepmap.steps.protocol import Trajectory
from stepmap.steps.relaxed import RelaxedStep

KAPPAS = (1e-1, 1e-6)
FALL, LEAST_FALL, MOST_FALL = 5.0, 1.2, 10.0  # of κ from one stage to the next
POLISHING = 30  # iterations, which kinks would make many
SAME = 1e-2  # part of the cost by which the step with events may be off, where the polish itself did not converge


class Stage(NamedTuple):
    """A search with one κ."""

    kappa: float
    status: Status
    cost: float
    iterations: int


@dataclass(frozen=True)
class Relaxation:
    """How a search with relaxed gaps went, and what is between them and the step with events."""

    stages: tuple[Stage, ...]
    cost: float  # with the last κ
    verified: float  # of its inputs, with the feedback of the search, on the step with events
    polished: float  # of the search that begins there
    polish: Status
    apart: float  # largest difference of a coordinate between relaxed gaps and events, before the polish [m or rad]

    @property
    def kappa(self) -> float:
        return self.stages[-1].kappa

    @property
    def gap(self) -> float:
        """Cost on the step with events relative to that with relaxed gaps, less 1."""
        return self.verified / self.cost - 1.0 if self.cost else 0.0

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        stages = [{**stage._asdict(), "status": stage.status.name.lower()} for stage in self.stages]
        return {
            "stages": stages,
            "cost": self.cost,
            "verified": self.verified,
            "polished": self.polished,
            "polish": self.polish.name.lower(),
            "apart": self.apart,
        }

    def __str__(self) -> str:
        return (
            f"{self.cost:.6g} at κ = {self.kappa:.2g} after {len(self.stages)} stages; {self.verified:.6g} with events "
            f"({self.gap:+.2g} of it), {self.polished:.6g} polished ({self.polish.name.lower()}); "
            f"coordinates up to {self.apart:.2g} apart"
        )


def optimize_relaxed(
    problem: Problem, *, kappa: tuple[float, float] = KAPPAS, polish: bool = True, **options: Any
) -> Solution:
    """The solution of a problem on a step with events, found with relaxed gaps.

    ``kappa`` are the first and the last κ. In between it falls by a factor that adapts: a stage that does not converge
    is tried again with less. The result is on the step with events, has converged where its polish did or, without
    limits of states and an end, where its cost is that of the relaxed gaps within 1 %; ``solution.relaxation`` tells
    both. ``options`` go to optimize.
    """
    step = problem.step
    if not isinstance(step, EventStep):
        raise ModelError(
            f"problem: its step map has no gaps to relax, but is a {type(step).__name__}; "
            "use sm.optimize, or a step map of a system with gaps"
        )
    first, last = _range(kappa)
    relaxed = RelaxedStep(step.system, step.dt, step.forces, first, step.contacts)
    found, stages, history = _sharpened(problem, relaxed, last, options)
    verified = _verified(problem, found)
    value = problem.cost.value(verified)
    best = dataclasses.replace(
        found, trajectory=verified, cost=value, problem=problem, status=found.status, history=history
    )
    if polish and not found.status.interrupted:
        limited = dict(options)
        if not problem.constrained:  # which only the polish keeps on the step with events
            limited["max_iterations"] = min(options.get("max_iterations", POLISHING), POLISHING)
        best = optimize(dataclasses.replace(problem, guess=_plain(verified)), **limited)
        best = dataclasses.replace(best, history=history + best.history, problem=problem)
    told = Relaxation(stages, found.cost, value, best.cost, best.status, _apart(step, found.trajectory, verified))
    sharp = stages[-1].status.ok and stages[-1].kappa <= last * (1 + 1e-9)
    if sharp and abs(told.gap) <= SAME and not (best.status.interrupted or problem.constrained):
        best = dataclasses.replace(best, status=Status.CONVERGED)
    return dataclasses.replace(best, relaxation=told)


def _range(kappa: tuple[float, float]) -> tuple[float, float]:
    try:
        first, last = (float(value) for value in kappa)
    except (TypeError, ValueError):
        raise ModelError(f"kappa: expected the first and the last κ, like (0.1, 1e-6), got {kappa!r}") from None
    if not first >= last > 0 or not np.isfinite(first):
        raise ModelError(f"kappa: must fall from the first to the last and stay positive, got {first:g} and {last:g}")
    return first, last


def _sharpened(
    problem: Problem, relaxed: RelaxedStep, last: float, options: dict[str, Any]
) -> tuple[Solution, tuple[Stage, ...], tuple[Iteration, ...]]:
    """The solution with the smallest κ that a search converged with, all stages and all iterations."""
    stages: list[Stage] = []
    history: tuple[Iteration, ...] = ()
    best: Solution | None = None
    fall, kappa = FALL, relaxed.kappa
    while True:
        posed = dataclasses.replace(problem, step=relaxed.with_kappa(kappa))
        if best is not None:
            posed = dataclasses.replace(posed, guess=_plain(best.trajectory))
        try:
            found = optimize(posed, **options)
        except ConvergenceError:
            if best is None:
                raise
            found = dataclasses.replace(best, status=Status.STALLED, history=())
        history += found.history
        if found.status.ok or best is None or found.status.interrupted:
            best = found
            stages.append(Stage(kappa, found.status, found.cost, len(found.history)))
            if kappa <= last or found.status.interrupted:
                break
            before, fall = kappa, min(fall * 1.3, MOST_FALL)
        else:
            fall = float(np.sqrt(fall))
            if fall < LEAST_FALL:
                break
        kappa = max(last, before / fall)
        if kappa < last * 1.5:
            kappa = last
    return best, tuple(stages), history


def _verified(problem: Problem, found: Solution) -> Trajectory:
    """The relaxed solution on the step with events, under its feedback; under its inputs alone where that fails."""
    step, bounds, path = problem.step, problem.bounds, _plain(found.trajectory)
    within = {} if bounds is None else {"within": bounds}
    for K in (found.gains, np.zeros_like(found.gains)):
        try:
            return step.follow(problem.start, path, K, **within)
        except ConvergenceError as error:
            last = error
    raise ConvergenceError(
        f"what was found with relaxed gaps has no trajectory on the step with events ({last}); use a smaller κ",
        iterations=last.iterations,
        residual=last.residual,
        x=last.x,
    )


def _plain(path: Trajectory) -> Trajectory:
    """Without events, which are those of another map."""
    return Trajectory(path.t, path.x, path.u)


def _apart(step: EventStep, one: Trajectory, other: Trajectory) -> float:
    pose = step.layout.pose
    return float(np.abs(pose(one.x) - pose(other.x)).max())
