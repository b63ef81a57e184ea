"""Hard problems in stages: each stage starts from the solution of the one before."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from stepmap.errors import ModelError
from stepmap.optimal.problem import Iteration, Problem, Solution, Status
from stepmap.optimal.projection import optimize


def homotopy(problem_at: Callable[[float], Problem], stages: Sequence[float], **options: Any) -> Solution:
    """The solution of ``problem_at(stages[-1])``, approached through the earlier stages.

    ``problem_at(s)`` poses the problem with, say, a reference or a weight scaled by s. Early stages need not converge;
    the status is that of the last one, the history that of all. ``options`` go to optimize.
    """
    if len(stages) == 0:  # stages may be a numpy array
        raise ModelError("stages: give at least one")
    history: tuple[Iteration, ...] = ()
    solution: Solution | None = None
    for stage in stages:
        problem = problem_at(stage)
        if solution is not None:
            problem = dataclasses.replace(problem, guess=solution.trajectory)
        try:
            solution = optimize(problem, **options)
        except KeyboardInterrupt:  # before the stage had a trajectory of its own
            if solution is None:
                raise
            solution = dataclasses.replace(solution, status=Status.INTERRUPTED, history=())
        history += solution.history
        if solution.status.interrupted:
            break
    assert solution is not None  # there is at least one stage
    return dataclasses.replace(solution, history=history)
