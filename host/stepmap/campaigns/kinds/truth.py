"""What a filter is asked about: motions along a plan with noise, and what their sensors read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.campaigns.columns import Value
from stepmap.campaigns.study import Job
from stepmap.campaigns.varied import Trial
from stepmap.estimate.measurement import measurement_model
from stepmap.jobs.system import source_of
from stepmap.optimal import Plan
from stepmap.steps import discretize

TURNS = 2  # of Newton's method, after noise of a millimetre


@dataclass(frozen=True, eq=False)
class Truth:
    """The map of the truth, the plan it follows, and where it begins."""

    step: Any
    plan: Plan
    start: Array
    feedback: bool

    @classmethod
    def of(cls, job: Job, plan: Plan, values: Mapping[str, Value], feedback: bool) -> Truth:
        """That of a job, or of its system with other values than the filter's."""
        step: Any = job.step
        if values:
            step = discretize(source_of(job).make(**values), job.dt, forces=getattr(job, "forces", "held"))
        start = np.asarray(getattr(job, "start", plan.trajectory.x[0]), dtype=float)
        return cls(step, plan, start, feedback)


@dataclass(frozen=True, eq=False)
class Seen:
    """Runs of the truth: states x (m, N, nx), commands u (m, N, nu), readings z (m, N, nz).

    ``lost`` is the number of the step that had no solution, −1 where all had one.
    """

    start: Array  # of the filter, (nx)
    x: Array
    u: Array
    z: Array
    lost: Array


def simulate(truth: Truth, job: Job, trials: Sequence[Trial]) -> Seen:
    """One run for each trial, each with noise of its own; its bits do not depend on what runs beside it.

    The truth is what the filter takes it for: x ← f(x, u) + N(0, Q), here moved back onto its constraints.
    """
    step, plan, noise, m = truth.step, truth.plan.trajectory, job.noise, len(trials)
    assert noise is not None
    first, drawn, read = _drawn([trial.rng for trial in trials], plan.steps, (step.ndx, len(noise.measurement)))
    model: Any = measurement_model(step)
    close = closing(step, model)
    X = close(step.layout.retract(np.tile(truth.start, (m, 1)), first * noise.start))
    x, u = np.empty((m, plan.steps, step.nx)), np.empty((m, plan.steps, step.nu))
    lost = np.full(m, -1)
    for k in range(plan.steps):
        u[:, k] = _command(truth, X, k)
        found = step.step_many(X, u[:, k], strict=False)
        lost = np.where((lost < 0) & found.failed, k, lost)
        moved = np.where((lost >= 0)[:, None], X, found.x)
        X = close(step.layout.retract(moved, drawn[:, k] * noise.process))
        x[:, k] = X
    return Seen(truth.start, x, u, model.readings(x) + read * noise.measurement, lost)


def closing(step: Any, model: Any) -> Callable[[Array], Array]:
    """What moves states (m, nx) back onto the constraints by the least change of q."""
    system = step.system
    if not system.constraints:
        return lambda X: X
    if system.gap_names or not step.layout.plain:
        return lambda X: np.asarray(model.project(X))
    at = slice(0, system.tangent.nq)

    def close(X: Array) -> Array:
        out = X.copy()
        for _ in range(TURNS):
            pose = step.layout.pose(out)
            out[:, at] -= least_change(system.residuals(pose), system.residuals_slope(pose)[..., at])
        return out

    return close


def least_change(h: Array, J: Array) -> Array:
    """Jᵀ (J Jᵀ)⁻¹ h for each of many h (m, nc) and J (m, nc, nq), each alone, without a BLAS."""
    m, nc, nq = J.shape
    A = np.zeros((m, nc, nc))
    for j in range(nq):
        A += J[:, :, None, j] * J[:, None, :, j]
    b = h.copy()
    for k in range(nc):  # J Jᵀ is positive definite, or the mechanism has redundant constraints
        for i in range(k + 1, nc):
            factor = A[:, i, k] / A[:, k, k]
            A[:, i] -= factor[:, None] * A[:, k]
            b[:, i] -= factor * b[:, k]
    for k in reversed(range(nc)):
        for i in range(k + 1, nc):
            b[:, k] -= A[:, k, i] * b[:, i]
        b[:, k] /= A[:, k, k]
    out = np.zeros((m, nq))
    for k in range(nc):
        out += J[:, k] * b[:, k, None]
    return out


def _drawn(rngs: Sequence[np.random.Generator], steps: int, widths: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Normal numbers: of the starts (m, ndx), of the steps (m, steps, ndx) and of the readings (m, steps, nz)."""
    ndx, nz = widths
    first, drawn = np.empty((len(rngs), ndx)), np.empty((len(rngs), steps, ndx + nz))
    for i, rng in enumerate(rngs):
        first[i] = rng.standard_normal(ndx)
        drawn[i] = rng.standard_normal((steps, ndx + nz))
    return first, drawn[:, :, :ndx], drawn[:, :, ndx:]


def _command(truth: Truth, X: Array, k: int) -> Array:
    """Inputs of step k: those of the plan, with its feedback from the true state."""
    plan = truth.plan
    command = np.tile(plan.trajectory.u[k], (len(X), 1))
    if truth.feedback:
        away = truth.step.layout.difference(plan.trajectory.x[k], X)
        for j in range(away.shape[1]):
            command -= plan.gains[k, :, j] * away[:, j, None]
    return command
