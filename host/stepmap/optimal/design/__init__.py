"""Design of dynamics: parameters of a mechanism by a surrogate of its least cost, and by exact gradients."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Unpack

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.optimal.design.campaign import Ask, campaign
from stepmap.optimal.design.inner import Answer, Question
from stepmap.optimal.design.study import DesignStudy, Sample
from stepmap.optimal.direct.search import Monitor
from stepmap.optimal.direct.task import Options, Task
from stepmap.optimal.problem import Iteration

__all__ = ["Answer", "DesignStudy", "Sample", "Surrogate", "design_study"]

METHODS = ("spline", "ego")
MOST_WORKERS = 8


@dataclass(frozen=True)
class Surrogate:
    """How a surrogate is searched with.

    ``method`` is "spline", the thesis's, for one parameter, or "ego" for any number. ``evaluations`` are designs at
    most; each has ``repeats`` inner solves of different starts, and one more from the nearest design. It stops where a
    new design is expected to gain less than ``tolerance`` of the range of costs, a spline only where no two neighbours
    are farther apart than a quarter of the range. ``workers`` are processes; as many as there are cores where nothing
    is said.
    """

    method: str = "spline"
    evaluations: int = 9
    repeats: int = 2
    tolerance: float = 1e-3
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ModelError(f"method: expected 'spline' or 'ego', got {self.method!r}")
        for name, least in (("evaluations", 3), ("repeats", 1), ("workers", 1)):
            value = getattr(self, name)
            if value is None and name == "workers":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise ModelError(f"{name}: expected a whole number of at least {least}, got {value!r}")
        if not number(self.tolerance, "tolerance") > 0:
            raise ModelError(f"tolerance: must be positive, got {self.tolerance:g}")

    @property
    def processes(self) -> int:
        return self.workers or min(os.cpu_count() or 1, MOST_WORKERS)


def design_study(
    system: System, *, surrogate: Surrogate | None = None, monitor: Monitor | None = None, **options: Unpack[Options]
) -> DesignStudy:
    """The parameters in ``design={name: (low, high)}`` at which the least cost of ``sm.direct(system, …)`` is least.

    A surrogate looks at whole ranges, with every inner solve repeated, so that its scatter is known; beside it the
    program finds the parameters itself, from the system's own ones, with exact gradients. Ctrl-C keeps what there is.
    """
    how = surrogate or Surrogate()
    ranges = Task(system=system, **options).designed
    names = [system.parameters[i].name for i in ranges]
    box = np.array(list(ranges.values())).reshape(-1, 2)
    if not names or not (box[:, 0] < box[:, 1]).all() or not np.isfinite(box).all():
        raise ModelError("design: give a finite range (low, high) of every parameter that is to be found")
    if how.method == "spline" and len(names) > 1:
        raise ModelError(f"method: the spline is for one parameter, and there are {len(names)}; take 'ego'")
    with campaign(how.processes) as ask:
        search = _Search(system, dict(options), names, box, how, ask, monitor)
        try:
            search.run()
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
            search.keep()
            if not search.samples:
                raise
    made = tuple(search.samples)
    return DesignStudy(system, search.inner, made, search.exact, how.method, search.ended, interrupted)


@dataclass(eq=False)
class _Search:
    """A study while it runs."""

    system: System
    inner: dict[str, Any]
    names: list[str]
    box: Array
    how: Surrogate
    ask: Ask
    monitor: Monitor | None
    samples: list[Sample] = field(default_factory=list)
    exact: Answer | None = None
    ended: str = "stopped by Ctrl-C"
    asked: list[dict[str, float]] = field(default_factory=list)  # designs that are being solved
    came: list[Answer] = field(default_factory=list)  # and their answers so far

    def run(self) -> None:
        """Samples to begin with, exact gradients, and then one design after the other."""
        from stepmap.optimal.design import surrogates  # scipy takes longer to load than all of stepmap

        propose = surrogates.RULES[self.how.method]
        self.samples += self._solved(self._first())
        if self.samples[0].good:
            self._follow_gradient()
        while len(self.samples) < self.how.evaluations:
            known = [sample for sample in self.samples if sample.good]
            costs = np.array([sample.cost for sample in known])
            if len(known) < 2:
                self.ended = "fewer than two designs have a motion that meets all conditions"
                return
            proposal = propose(self._points(known), costs)
            at = None if proposal is None else proposal.at
            if proposal is None or proposal.gain <= self.how.tolerance * float(np.ptp(costs)):
                at = surrogates.widest(self._points(self.samples)) if self.how.method == "spline" else None
            if at is None:
                self.ended = "no other design is expected to be better"
                return
            self.samples += self._solved([at])
        self.ended = f"all {self.how.evaluations} evaluations are made"

    def _first(self) -> list[Array]:
        """The system's own design, and others that fill the ranges."""
        from stepmap.optimal.design import surrogates

        own = np.array([p.value for p in self.system.parameters if p.name in self.names])
        own = (own - self.box[:, 0]) / np.ptp(self.box, axis=1)
        if len(self.names) == 1:
            return [own, *(at for at in np.array([[0.0], [1.0]]) if abs(at - own)[0] > 1e-3)]
        corners = [np.array(at, dtype=float) for at in product((0.0, 1.0), repeat=2)] if len(self.names) == 2 else []
        count = min(2 * len(self.names) + 1, self.how.evaluations - 2)
        return [own, *(corners or surrogates.filling(len(self.names), count))][: self.how.evaluations]

    def _values(self, point: Array) -> dict[str, float]:
        low, high = self.box.T
        return dict(zip(self.names, map(float, np.clip(low + point * (high - low), low, high)), strict=True))

    def _points(self, samples: Sequence[Sample]) -> Array:
        values = np.array([[sample.values[name] for name in self.names] for sample in samples])
        out: Array = (values - self.box[:, 0]) / np.ptp(self.box, axis=1)
        return out

    def _solved(self, points: Sequence[Array]) -> list[Sample]:
        """Designs with all their inner solves, side by side."""
        chosen = [self._values(point) for point in points]
        questions = [
            Question(self.system, self.inner, values, start) for start in range(self.how.repeats) for values in chosen
        ]
        known = [sample for sample in self.samples if sample.good]
        if known:
            places = self._points(known)
            for point, values in zip(points, chosen, strict=True):
                nearest = known[int(np.argmin(np.linalg.norm(places - point, axis=1)))]
                questions.append(Question(self.system, self.inner, values, near=nearest.good[0]))
        self.asked, self.came = chosen, []
        answers = self.ask(questions, self._told)
        self.asked = []
        return [Sample(values, tuple(answers[i :: len(chosen)])) for i, values in enumerate(chosen)]

    def keep(self) -> None:
        """What came of designs whose inner solves were not all made."""
        if self.came:
            self.samples += [
                Sample(values, tuple(one for one in self.came if one.values == values)) for values in self.asked
            ]

    def _follow_gradient(self) -> None:
        free = dict(zip(self.names, map(tuple, self.box.tolist()), strict=True))
        near = self.samples[0].good[0]
        (self.exact,) = self.ask([Question(self.system, self.inner, near.values, near=near, free=free)], self._told)

    def _told(self, answer: Answer) -> None:
        self.came.append(answer)
        if self.monitor is not None:
            at = ", ".join(f"{name} {value:.4g}" for name, value in answer.values.items())
            self.monitor(Iteration(answer.found.cost, -answer.found.infeasibility, 1.0, f"{at}, {answer.way}"))
