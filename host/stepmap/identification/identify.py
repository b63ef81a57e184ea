"""Parameters of a model, and what lies between commands, motors and sensors, from recorded runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.identification.fit import Fit, Monitor, again, evaluate, require_enough, solve
from stepmap.identification.noise import NoiseFit, fit_noise
from stepmap.identification.observed import Observed, require_runs
from stepmap.identification.starts import Start, guesses, segmented
from stepmap.identification.told import Untold, choose, untold
from stepmap.identification.trajectories import Trajectories
from stepmap.identification.unknowns import PARAMETER, Unknowns, read_unknowns
from stepmap.mechanics import System
from stepmap.steps import VariationalStep, discretize
from stepmap.steps.events.step import EventStep

FINE = 16  # parts of a step that stand for the plant itself
APART = 3.0  # standard deviations between map and fine plant that matter
LARGE = 2.0  # χ² that says that the model lacks something
MOST_FAR = 0.5  # of the readings: more than 6 σ off, they hardly count, and χ² of the rest says nothing
MANY_FAR = 0.05  # of them, which is worth a remark
SHORT = 20  # steps of segments where whole runs lead nowhere
CORRELATED = 0.4  # between neighbouring residuals, which says so too


class HasNoise(Protocol):
    """Standard deviations of a step, of the channels and of the first state."""

    @property
    def process(self) -> Array: ...
    @property
    def measurement(self) -> Array: ...
    @property
    def start(self) -> Array: ...


class HasModel(Protocol):
    """What identification asks of a job."""

    @property
    def step(self) -> VariationalStep: ...


@dataclass(frozen=True, eq=False)
class Identification:
    """What runs told: values with their uncertainty, and in words what they did not tell.

    ``values`` has every name that was asked for; one that could not be told has its value before, and no ``sigma``.
    """

    values: dict[str, float]
    sigma: dict[str, float]
    untold: tuple[Untold, ...]
    ratios: dict[str, tuple[float, float]]  # of those that cannot be told apart: value and sigma
    fit: Fit
    noise: NoiseFit | None
    job: HasModel = field(repr=False)
    start: Start = field(repr=False)
    loss: str = "arctan"

    @property
    def told(self) -> tuple[str, ...]:
        """Names that the runs told."""
        return tuple(one.name for one in self.fit.task.unknowns.free)

    @property
    def covariance(self) -> Array:
        """Of what was told."""
        return self.fit.covariance

    @property
    def chi2(self) -> float:
        """χ² per degree of freedom: 1 where the readings differ from the model as their noise says."""
        return self.fit.chi2

    @property
    def status(self) -> str:
        return self.fit.status

    @cached_property
    def system(self) -> System:
        """The system of the job with the values that were found and held."""
        task = self.fit.task
        own = task.unknowns.model(self.fit.values)
        names = (p.name for p in task.step.system.parameters)
        return task.step.system.with_parameters(**dict(zip(names, own.tolist(), strict=True)))

    @cached_property
    def fine(self) -> Fit:
        """The same fit on a map of steps sixteen times shorter, which stands for the plant itself."""
        return again(self.fit, _finer_task(self.fit.task, FINE), self.loss)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What speaks against the model, in words."""
        said = []
        if self.chi2 > LARGE:
            said.append(f"χ² is {self.chi2:.2g}: the model lacks something, or the noise of the job is too small")
        if self.fit.far > MANY_FAR:
            said.append(f"{100 * self.fit.far:.0f} % of the readings are more than 6 σ off and hardly count")
        worst, name = _correlation(self.fit)
        if worst > CORRELATED:
            said.append(f"neighbouring residuals of {name} agree by {worst:.2f}: the model lacks something")
        for i, one in enumerate(self.fit.task.unknowns.free):
            apart = abs(self.fit.values[i] - self.fine.values[i]) / self.fit.sigma[i]
            if one.kind == PARAMETER and apart > APART:
                said.append(
                    f"{one.name} of the map and of the fine plant are {apart:.0f} σ apart: the map's is for control "
                    'at this period; a shorter period, or forces="held", brings them together'
                )
        return tuple(said)

    def validation(self, runs: Observed | Sequence[Observed]) -> tuple[float, float]:
        """χ² of other runs: with the values of the job, and with those found; only first states are fitted."""
        task = self.fit.task
        before = tuple(replace(one, value=self._before[one.name]) for one in task.unknowns.free)
        old = Unknowns(before, task.unknowns.held, task.unknowns.parameters)
        found = task.unknowns.at(self.fit.values)
        return self._unexplained(old, runs), self._unexplained(found, runs)

    @property
    def _before(self) -> dict[str, float]:
        return {one.name: one.value for one in self.fit.task.unknowns.free}

    def _unexplained(self, unknowns: Unknowns, runs: Observed | Sequence[Observed]) -> float:
        held = unknowns.without(unknowns.names)
        task = _task(self.fit.task.step, held, require_runs(runs), self.start, "auto")
        return solve(task, self.loss).chi2

    def require(self) -> Self:
        """Itself; raises ModelError where something that was asked for is not told, or the search has not ended."""
        if self.untold:
            raise ModelError("names: " + "; ".join(map(str, self.untold)))
        if self.status != "converged":
            raise ModelError(f"the search ended early ({self.status}, {self.fit.turns} turns)")
        return self


@dataclass(frozen=True, eq=False)
class Check:
    """What runs can tell, before anything is solved."""

    told: tuple[str, ...]
    untold: tuple[Untold, ...]
    sigma: dict[str, float]  # expected, of what is told


def identify(
    job: HasModel,
    runs: Observed | Sequence[Observed],
    names: Sequence[str],
    *,
    hold: Mapping[str, float] | None = None,
    segments: int | str = "auto",
    loss: str = "arctan",
    noise: bool = False,
    monitor: Monitor | None = None,
) -> Identification:
    """What runs say about the parameters ``names`` of a job's model, and about delay, gains, offsets and biases.

    Trajectories of the job's map are fitted to the readings, their first states free, in segments where the motion is
    unstable. What the runs cannot tell is found before anything is solved (``untold``) and stays where it was. With
    ``noise`` Q and R are found, too, by the likelihood of the innovations.
    """
    task, found, start = prepare(job, runs, names, hold or {}, segments)
    given = task.unknowns
    task = _told(task, found)
    fit = solve(task, loss, monitor)
    if fit.far > MOST_FAR and fit.status != "interrupted" and segments == "auto":  # a long one may be lost at its start
        short, more, begun = prepare(job, runs, names, hold or {}, SHORT)
        if choose(short, short.start):
            fit, found, start = solve(_told(short, more), loss, monitor), more, begun
            task = fit.task
    if fit.far > MOST_FAR and fit.status != "interrupted":
        raise ModelError(
            f"runs: no motion of this model explains them: {100 * fit.far:.0f} % of the readings are more than 6 σ "
            "from the best one",
            hint="Are they of this job? Look for more that may differ, or give runs that stay near their plan.",
        )
    made = fit_noise(fit, start, monitor) if noise else None
    values = {one.name: one.value for one in given.free}
    values |= dict(zip(task.unknowns.names, fit.values.tolist(), strict=True))
    sigma = dict(zip(task.unknowns.names, fit.sigma.tolist(), strict=True))
    return Identification(values, sigma, found, _ratios(found, values, sigma), fit, made, job, start, loss)


def _told(task: Trajectories, found: Sequence[Untold]) -> Trajectories:
    """The task with what can be told alone."""
    chosen = choose(task, task.start)
    if not chosen:
        raise ModelError("names: none of these can be told: " + "; ".join(map(str, found)))
    return replace(task, unknowns=task.unknowns.without([n for n in task.unknowns.names if n not in chosen]))


def check(
    job: HasModel,
    runs: Observed | Sequence[Observed],
    names: Sequence[str],
    *,
    hold: Mapping[str, float] | None = None,
    segments: int | str = "auto",
) -> Check:
    """What runs can tell of ``names``; nothing is solved."""
    task, found, _ = prepare(job, runs, names, hold or {}, segments)
    chosen = choose(task, task.start)
    if not chosen:
        return Check((), found, {})
    task = replace(task, unknowns=task.unknowns.without([n for n in task.unknowns.names if n not in chosen]))
    expected = evaluate(task, task.start, "arctan")
    sigma = expected.sigma / np.sqrt(max(1.0, expected.chi2))
    return Check(tuple(chosen), found, dict(zip(chosen, sigma.tolist(), strict=True)))


def prepare(
    job: HasModel,
    runs: Observed | Sequence[Observed],
    names: Sequence[str],
    hold: Mapping[str, float],
    segments: int | str,
) -> tuple[Trajectories, tuple[Untold, ...], Start]:
    """The task of a fit, what its runs do not tell, and the noise it begins with."""
    given, step = require_runs(runs), job.step
    noise: HasNoise | None = getattr(job, "noise", None)
    if noise is None:
        raise ModelError("job: has no table [noise]", hint="Add it: a fit needs the noise of the sensors.")
    start = Start(noise.measurement, noise.start, noise.process)
    for run in given:
        run.fits(step, start.sigma)
    unknowns = read_unknowns(step, list(names), hold, (start.sigma, start.first))
    task = _task(step, unknowns, given, start, segments)
    require_enough(task)
    return task, tuple(untold(task, task.start)), start


def _task(
    step: VariationalStep, unknowns: Unknowns, runs: tuple[Observed, ...], start: Start, segments: int | str
) -> Trajectories:
    states = [guesses(step, run, start) for run in runs]
    parts = segmented(step, unknowns, runs, states, start, segments)
    return Trajectories(step, unknowns, runs, parts, start.sigma, start.first)


def _finer_task(task: Trajectories, substeps: int) -> Trajectories:
    """The task on a map of shorter steps; guessed states keep pose and velocity."""
    old = task.step
    contacts = old.contacts if isinstance(old, EventStep) else None
    new = discretize(old.system, old.dt / substeps, forces="held", contacts=contacts)
    p = new.layout["p"]

    def converted(x: Array) -> Array:
        moving = new.from_velocity(old.layout.pose(x), old.velocity(x), instant=True)
        there = old.from_velocity(old.layout.pose(x), old.velocity(x), instant=True)
        moving[p] += (x[p] - there[p]) / substeps
        return moving

    segments = tuple(s._replace(guess=converted(s.guess)) for s in task.segments)
    return replace(task, step=new, segments=segments, substeps=substeps)


def _ratios(
    found: Sequence[Untold], values: Mapping[str, float], sigma: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    made = {}
    for one in found:
        a, b = one.names if len(one.names) == 2 else ("", "")
        if one.ratio == f"{b}/{a}" and values[a]:
            of = values[b] / values[a]
            held = next((name for name in (a, b) if name not in sigma), a)
            free = b if held == a else a
            made[one.ratio] = (of, abs(of) * sigma.get(free, np.inf) / abs(values[free] or np.inf))
    return made


def _correlation(fit: Fit) -> tuple[float, str]:
    """The largest correlation of neighbouring residuals of a channel, and the channel."""
    worst, name = 0.0, ""
    channels = [channel for channel, _ in fit.task.step.system.sensor_channels]
    paths = fit.task.paths(fit.point)
    errors = [fit.task.errors(fit.point, s, path) for s, path in zip(fit.task.segments, paths, strict=True)]
    for i, channel in enumerate(channels):
        series = np.clip(np.concatenate([one[:, i] for one in errors]), -6, 6)
        power = float(series @ series)
        found = float(series[1:] @ series[:-1]) / power if power > 0 and len(series) > 30 else 0.0
        if found > worst:
            worst, name = found, channel
    return worst, name
