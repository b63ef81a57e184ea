"""Inner solves of a design study: the best motion of one design, from one way to begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap.mechanics.system import System
from stepmap.optimal.direct.formulation import Formulation
from stepmap.optimal.direct.nlp.solve import Found
from stepmap.optimal.direct.search import Attempt, Searched, continued, search
from stepmap.optimal.direct.solution import DirectSolution
from stepmap.optimal.direct.task import Task
from stepmap.optimal.direct.transcription import Transcription
from stepmap.optimal.problem import Iteration


@dataclass(frozen=True, eq=False)
class Answer:
    """What an inner solve came to, in plain data that go from process to process; ``way`` is how it began."""

    values: Mapping[str, float]
    way: str
    found: Found
    steps: tuple[int, ...]
    history: tuple[Iteration, ...]
    attempts: tuple[Attempt, ...]
    iterations: tuple[int, ...]
    cpu_s: float
    slopes: Mapping[str, float]

    @property
    def ok(self) -> bool:
        return self.found.status.ok

    @property
    def cost(self) -> float:
        return self.found.cost if self.ok else np.nan


@dataclass(frozen=True, eq=False)
class Question:
    """A design to solve: from start number ``start``, or from the answer of another one, on its branch of minima.

    ``free`` are ranges in which parameters are found, from that answer on.
    """

    system: System
    options: Mapping[str, Any]
    values: Mapping[str, float]
    start: int = 0
    near: Answer | None = None
    free: Mapping[str, tuple[float, float]] | None = None

    @property
    def task(self) -> Task:
        system = self.system.with_parameters(**self.values)
        design = self.values if self.free is None else self.free
        return Task(system=system, **{**self.options, "design": design})

    @property
    def way(self) -> str:
        if self.free is not None:
            return "gradient"
        return "nearest" if self.near is not None else f"start {self.start}"

    def answered(self) -> Answer:
        """Solved here."""
        task = self.task
        formulation = Formulation(task)
        if self.near is None:
            searched = search(formulation, only=self.start)
        else:
            searched = continued(formulation, self._earlier(formulation), frozen=self.free is None)
        made = DirectSolution(task, searched)
        return Answer(
            made.design, self.way, searched.found, searched.transcription.steps, searched.history,
            searched.attempts, searched.iterations, searched.cpu_s, made.design_slopes,
        )  # fmt: skip

    def _earlier(self, formulation: Formulation) -> Searched:
        assert self.near is not None
        return _searched(Transcription(formulation, self.near.steps), self.near)

    def solution(self, answer: Answer) -> DirectSolution:
        """An answer as a solution, which is not solved again."""
        task = self.task
        grid = Transcription(Formulation(task), answer.steps, self.free is None)
        return DirectSolution(task, _searched(grid, answer))


def _searched(grid: Transcription, answer: Answer) -> Searched:
    return Searched(grid, answer.found, answer.history, answer.attempts, answer.iterations, answer.cpu_s)
