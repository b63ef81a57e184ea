"""Kind "filter": a Monte Carlo study of the job's filter along its plan.

A truth follows the plan with the noise of the job, its sensors are read with noise, and the filter is asked where the
truth is. Whole chunks go through ``ExtendedKalmanFilter.run`` in one call; other filters take trial after trial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.campaigns.columns import OK, REASON, Column, Row, Value
from stepmap.campaigns.kinds.truth import Seen, Truth, simulate
from stepmap.campaigns.study import Base, Job, each, failed, job_values, require_key
from stepmap.campaigns.varied import Trial, Varied
from stepmap.errors import ModelError, StepmapError
from stepmap.estimate import Belief, ExtendedKalmanFilter, Innovation, ParticleFilter, consistency
from stepmap.jobs.system import source_of
from stepmap.optimal import Plan
from stepmap.toml.tables import Table

TRUTH = "truth"
VARIES = ("noise", "filter", "system", TRUTH)
MOST_TOLD = 8  # points of the grid
CHECKS = 10  # places of a run at which NEES is taken
RANK = 1e-10  # of a covariance with ones on its diagonal: below is no uncertainty


@dataclass(frozen=True, eq=False)
class FilterStudy:
    """Trials of a filter; ``feedback`` leads the truth back to the plan."""

    base: Base
    feedback: bool
    checks: int
    plan: Plan | None = None  # made once, by ``prepared``

    chunk = 500
    preload = ("stepmap.campaigns.kinds.filter",)

    @cached_property
    def job(self) -> Job:
        return self.base.job({})

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        tangent = self.job.system.tangent
        units = dict(tangent.entries[: tangent.nv])
        return (
            Column("nees", "mean NEES per degree of freedom", shown=True, expected=1.0),
            Column("nees_end", "NEES per degree of freedom after the last measurement", expected=1.0),
            Column("degrees", "degrees of freedom of the last NEES", type="whole"),
            Column("nis", "mean of e²/S over the channels that were used", shown=True, expected=1.0),
            Column("gated", "part of the measurements that the gate shut out"),
            *(Column(f"rms_{name}", f"error of {name}", unit, shown=True) for name, unit in units.items()),
        )

    def inputs(self) -> dict[str, str]:
        return {}

    def check(self, name: str, value: Value) -> None:
        first, _, rest = name.partition(".")
        if first != TRUTH:
            require_key(self.base, name, value, VARIES)
            return
        known = [*source_of(self.job).arguments, *(p.name for p in self.job.system.parameters)]
        if rest not in known and "." in rest:
            raise ModelError(f"{name!r}: expected {TRUTH}.NAME with an argument of the system")
        source_of(self.job).make(**{rest: value})

    def prepared(self, varied: Varied, build: Path) -> FilterStudy:
        """With the plan of the job, from its build folder where it is there."""
        from stepmap.campaigns.plans import plan_of

        made = replace(self, plan=plan_of(self.job, build))
        made.run(varied.trials(range(min(2, len(varied)))))  # builds libraries, so that workers find them
        return made

    def run(self, trials: Sequence[Trial]) -> list[Row]:
        rows: dict[int, Row] = {}
        for group in _alike(trials):
            found = self._batch(group)
            rows |= dict(zip((trial.number for trial in group), found, strict=True))
        return [rows[trial.number] for trial in trials]

    def tells(self, columns: Mapping[str, Any]) -> list[tuple[str, str]]:
        told = []
        points = sorted(set(columns["point"].tolist()))
        for point in points[:MOST_TOLD]:
            here = columns["point"] == point
            degrees, ends = columns["degrees"][here], columns["nees_end"][here]
            if (degrees == degrees[0]).all() and degrees[0] > 0:
                name = "NEES at the end" + (f", point {point}" if len(points) > 1 else "")
                told.append((name, str(consistency(degrees[0] * ends, int(degrees[0])))))
        return told

    def _batch(self, trials: Sequence[Trial]) -> list[Row]:
        """Trials with the same job and the same truth, together where that goes."""
        try:
            job = self.base.job(job_values(trials[0].values, TRUTH))
            kept = job.filter()
            seen = simulate(self._truth(job, trials[0]), job, trials)
        except Exception as error:
            return each(trials, self._one) if len(trials) > 1 else [failed(error)]
        if not isinstance(kept, ExtendedKalmanFilter):
            return [self._single(job, seen, k, trial) for k, trial in enumerate(trials)]
        try:
            found = self._filtered(kept, job, seen)
        except StepmapError as error:
            return each(trials, self._one) if len(trials) > 1 else [failed(error)]
        return [self._row(seen, found, k) for k in range(len(trials))]

    def _one(self, trial: Trial) -> Row:
        (row,) = self._batch([trial])
        if not row[OK]:
            raise StepmapError(row[REASON])
        return row

    def _truth(self, job: Job, trial: Trial) -> Truth:
        assert self.plan is not None  # prepared
        apart = {n.partition(".")[2]: v for n, v in trial.values.items() if n.partition(".")[0] == TRUTH}
        return Truth.of(job, self.plan, apart, self.feedback)

    def _row(self, seen: Seen, found: Mapping[str, Array], k: int) -> Row:
        if seen.lost[k] >= 0:
            return {OK: False, REASON: f"the truth has no step number {seen.lost[k]}"}
        row = {name: values[k].item() for name, values in found.items()}
        if not all(np.isfinite(value) for value in row.values()):
            return {OK: False, REASON: "the filter diverged: an estimate is no number"}
        return {OK: True, REASON: None, **row}

    def _filtered(self, kept: ExtendedKalmanFilter, job: Job, seen: Seen) -> dict[str, Array]:
        belief = kept.start(seen.start, np.diag(_noise(job).start ** 2))
        score, done = Score(job, len(seen.x)), 0
        for end in self._ends(seen.x.shape[1]):
            part = slice(done, end)
            found = kept.run(belief, seen.u[:, part], seen.z[:, part], innovations=True)
            assert found.innovation is not None
            score.add(found.x, seen.x[:, part], found.innovation)
            belief, done = Belief(found.x[:, -1], found.P), end
            score.check(found.P)
        return score.columns()

    def _single(self, job: Job, seen: Seen, k: int, trial: Trial) -> Row:
        """One trial of any other filter; one that draws has draws of its own in each trial."""
        kept: Any = job.filter()
        if isinstance(kept, ParticleFilter):
            kept = replace(kept, seed=trial.seed)
        try:
            belief = kept.start(seen.start, np.diag(_noise(job).start ** 2))
            score, ends = Score(job, 1), set(self._ends(seen.x.shape[1]))
            for i in range(seen.x.shape[1]):
                belief, innovation = kept.update(kept.predict(belief, seen.u[k, i]), seen.z[k, i])
                x, P = kept.estimate(belief)
                told = Innovation(*(np.asarray(part)[None, None] for part in innovation[:4]))
                score.add(x[None, None], seen.x[k : k + 1, i : i + 1], told)
                if i + 1 in ends:
                    score.check(P[None])
            return self._row(replace(seen, lost=seen.lost[k : k + 1]), score.columns(), 0)
        except Exception as error:
            return failed(error)

    def _ends(self, steps: int) -> list[int]:
        """After how many steps NEES is taken."""
        return sorted({max(1, round(steps * (i + 1) / self.checks)) for i in range(self.checks)})


class Score:
    """Sums over the time of several runs, each taken alone: a run has the same bits whatever runs beside it."""

    def __init__(self, job: Job, runs: int) -> None:
        system = job.system
        self.layout, self.names = job.step.layout, [name for name, _ in system.tangent.entries[: system.tangent.nv]]
        self.steps = 0
        self.squares = np.zeros((runs, len(self.names)))
        self.normal, self.used, self.gated, self.seen = (np.zeros(runs) for _ in range(4))
        self.nees: list[Array] = []
        self.degrees = np.zeros(runs, dtype=int)
        self.error = np.zeros((runs, job.step.ndx))

    def add(self, x: Array, truth: Array, innovation: Innovation) -> None:
        """Estimates (runs, steps, nx), where the truth was, and innovations (runs, steps, nz)."""
        errors = self.layout.difference(x, truth)
        squares = np.where(innovation.used, innovation.residual**2 / innovation.variance, 0.0)
        for i in range(x.shape[1]):
            self.squares += errors[:, i, : len(self.names)] ** 2
            for c in range(squares.shape[2]):
                self.normal += squares[:, i, c]
                self.used += innovation.used[:, i, c]
                self.gated += innovation.gated[:, i, c]
        self.steps += x.shape[1]
        self.seen += x.shape[1] * squares.shape[2]
        self.error = errors[:, -1]

    def check(self, P: Array) -> None:
        """NEES of the last estimates."""
        value, self.degrees = nees_apart(self.error, P)
        self.nees.append(value / np.maximum(self.degrees, 1))

    def columns(self) -> dict[str, Array]:
        total = np.zeros_like(self.normal)
        for value in self.nees:
            total += value
        rms = np.sqrt(self.squares / self.steps)
        return {
            "nees": total / len(self.nees),
            "nees_end": self.nees[-1],
            "degrees": self.degrees,
            "nis": self.normal / np.maximum(self.used, 1.0),
            "gated": self.gated / self.seen,
            **{f"rms_{name}": rms[:, i] for i, name in enumerate(self.names)},
        }


def nees_apart(error: Array, P: Array) -> tuple[Array, Array]:
    """eᵀ P⁻ e of each run and the rank of its P, by L D Lᵀ of P with ones on its diagonal; without a BLAS.

    ``stepmap.estimate.nees`` takes 25 µs per run, and its last bits are those of a BLAS; this one takes 2 µs.
    Directions without uncertainty are left out, as they are there.
    """
    n = error.shape[-1]
    diagonal = np.einsum("...ii->...i", P)
    scale = np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
    A = P * scale[:, :, None] * scale[:, None, :]
    e = error * scale
    total, rank = np.zeros(len(e)), np.zeros(len(e), dtype=int)
    for k in range(n):
        pivot = A[:, k, k]
        counts = pivot > RANK
        inverse = np.where(counts, 1.0 / np.where(counts, pivot, 1.0), 0.0)
        total += e[:, k] ** 2 * inverse
        rank += counts
        if k + 1 < n:
            column = A[:, k + 1 :, k] * inverse[:, None]
            e[:, k + 1 :] -= column * e[:, k, None]
            A[:, k + 1 :, k + 1 :] -= column[:, :, None] * A[:, k, None, k + 1 :]
    return total, rank


def _alike(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials with the same values, in the order in which these come first."""
    groups: dict[tuple[tuple[str, Value], ...], list[Trial]] = {}
    for trial in trials:
        groups.setdefault(tuple(sorted(trial.values.items())), []).append(trial)
    return list(groups.values())


def _noise(job: Job) -> Any:
    return job.noise


def read(root: Table, base: Base) -> FilterStudy:
    """A study of the filter of the job, with the table [filter] of the campaign."""
    table = root.table("filter")
    table.only(("feedback", "checks"))
    checks = table.whole("checks", CHECKS)
    if not 1 <= checks <= 1000:
        raise table.error(f"must be 1 to 1000 places of a run, got {checks}", "checks")
    job = base.job({})
    if job.noise is None:
        raise root.table("campaign").error(
            f"job {base.name!r} has no table [noise], and a filter needs the noise", "job", hint="Add it to the job."
        )
    return FilterStudy(base, table.flag("feedback", True), checks)
