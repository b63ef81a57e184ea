"""What a design study comes to: samples of J(β) with their scatter, beside the design found by exact gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stepmap.errors import ConvergenceError
from stepmap.mechanics.system import System
from stepmap.optimal.design.inner import Answer, Question
from stepmap.optimal.direct.solution import DirectSolution
from stepmap.optimal.plan import Plan
from stepmap.optimal.problem import Iteration, Status
from stepmap.steps.variational import VariationalStep


@dataclass(frozen=True, eq=False)
class Sample:
    """A design and the answers of all its inner solves."""

    values: Mapping[str, float]
    answers: tuple[Answer, ...]

    @property
    def good(self) -> list[Answer]:
        """Those that converged, the best first."""
        return sorted((answer for answer in self.answers if answer.ok), key=lambda answer: answer.cost)

    @property
    def cost(self) -> float:
        """The least; not a number where none converged."""
        return self.good[0].cost if self.good else np.nan

    @property
    def scatter(self) -> float:
        """How far apart inner solves of this one design end, where they converged."""
        return self.good[-1].cost - self.good[0].cost if self.good else np.nan

    @property
    def slopes(self) -> Mapping[str, float]:
        """dJ/dβ of the least cost, on its branch of minima."""
        return self.good[0].slopes if self.good else {}

    @property
    def cpu_s(self) -> float:
        return sum(answer.cpu_s for answer in self.answers)


@dataclass(frozen=True, eq=False)
class DesignStudy:
    """Two searches of the same design: ``samples`` of a surrogate, and ``exact``, by the gradient of the program.

    The first sample is the system's own design; ``exact`` begins at the best of its answers. ``ended`` says why the
    surrogate stopped. ``solution`` is the better of both.
    """

    system: System
    options: Mapping[str, Any]
    samples: tuple[Sample, ...]
    exact: Answer | None
    method: str
    ended: str
    interrupted: bool = False

    @cached_property
    def best(self) -> Sample:
        """The sample of least cost."""
        good = [sample for sample in self.samples if sample.good]
        if not good:
            said = f"{len(self.samples)} designs, none of which has a motion that meets all conditions"
            raise ConvergenceError(
                f"design study: {said}",
                hint="Try one of them with sm.direct: its advice names what is violated.",
                iterations=0,
                residual=np.inf,
                x=[dict(sample.values) for sample in self.samples],
            )
        return min(good, key=lambda sample: sample.cost)

    @property
    def scatter(self) -> float:
        """The largest of all samples: what two inner solves of one design may differ by."""
        return max((sample.scatter for sample in self.samples if sample.good), default=np.nan)

    @property
    def gain(self) -> float:
        """By how much the best sample is below the system's own design."""
        return self.samples[0].cost - self.best.cost

    @property
    def resolved(self) -> bool:
        """Whether the gain is more than the scatter: else other basins were found, and not better designs."""
        return bool(self.gain > self.scatter)

    @property
    def verdict(self) -> str:
        """What the surrogate's gain is worth."""
        if not self.samples[0].good:
            return "the system's own design has no motion that meets all conditions, so there is nothing to gain over"
        if self.resolved:
            return (
                f"the gain of {self.gain:.3g} is the design's: inner solves of one design scatter by {self.scatter:.3g}"
            )
        return (
            f"the gain of {self.gain:.3g} says nothing: inner solves of one design scatter by {self.scatter:.3g}. "
            "Limit the rate of inputs, price effort, or repeat inner solves more often"
        )

    @cached_property
    def solution(self) -> DirectSolution:
        """The motion of the best design that was found by either search."""
        answer = self.best.good[0]
        question = Question(self.system, self.options, answer.values)
        if self.exact is not None and self.exact.ok and self.exact.cost <= answer.cost:
            answer, question = self.exact, Question(self.system, self.options, self.exact.values)
        return question.solution(answer)

    # what a search ends in, as every job has it --------------------------------------------------------------------

    @property
    def status(self) -> Status:
        return Status.INTERRUPTED if self.interrupted else self.solution.status

    @property
    def plan(self) -> Plan:
        return self.solution.plan

    @property
    def step(self) -> VariationalStep:
        return self.solution.step

    @property
    def cost(self) -> float:
        return self.solution.cost

    @property
    def history(self) -> tuple[Iteration, ...]:
        """Of the motion that was kept."""
        return self.solution.history

    @property
    def advice(self) -> str:
        return "stopped by Ctrl-C; the samples so far are kept" if self.interrupted else self.solution.advice

    def require(self) -> DesignStudy:
        """Itself where it came to its end; raises ConvergenceError otherwise."""
        if self.interrupted:
            raise ConvergenceError(f"design study: {self.advice}", iterations=0, residual=np.nan, x=self.cost)
        self.solution.require()
        return self

    @property
    def cpu_s(self) -> float:
        return sum(sample.cpu_s for sample in self.samples)

    def rows(self) -> list[tuple[str, str]]:
        """Both searches side by side, as (name, value)."""
        own, best = self.samples[0], self.best
        said = [
            ("own design", f"{shown(own.values)}: {own.cost:.6g}, scatter {own.scatter:.3g}"),
            (
                self.method,
                f"{shown(best.values)}: {best.cost:.6g}, scatter {best.scatter:.3g}, slope {shown(best.slopes)}, "
                f"{len(self.samples)} designs, {self.cpu_s:.3g} s; {self.ended}",
            ),
        ]
        if self.exact is not None:
            status = "" if self.exact.ok else f" ({self.exact.found.status.name.lower()})"
            told = f"{shown(self.exact.values)}: {self.exact.cost:.6g}{status}, slope {shown(self.exact.slopes)}"
            said.append(("exact gradient", f"{told}, {self.exact.cpu_s:.3g} s from the own design"))
        return [*said, ("verdict", self.verdict)]

    @property
    def told(self) -> dict[str, Any]:
        """Plain data of all samples and both searches."""
        exact = self.exact
        return {
            "method": self.method,
            "ended": self.ended,
            "verdict": self.verdict,
            "gain": _finite(self.gain),
            "scatter": _finite(self.scatter),
            "resolved": self.resolved,
            "cpu_s": self.cpu_s,
            "samples": [_sample(sample) for sample in self.samples],
            "exact": None if exact is None else {**_answer(exact), "values": dict(exact.values)},
        }

    def __str__(self) -> str:
        return "\n".join(f"{name:15s} {value}" for name, value in self.rows())


def shown(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in values.items())


def _sample(sample: Sample) -> dict[str, Any]:
    answers = [_answer(answer) for answer in sample.answers]
    return {"values": dict(sample.values), "cost": _finite(sample.cost), "scatter": _finite(sample.scatter),
            "answers": answers}  # fmt: skip


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "way": answer.way,
        "cost": _finite(answer.found.cost),
        "status": answer.found.status.name.lower(),
        "slopes": dict(answer.slopes),
        "iterations": sum(answer.iterations),
        "cpu_s": answer.cpu_s,
    }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
