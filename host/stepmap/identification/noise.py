"""Process and measurement noise by the likelihood of a filter's innovations, with the model as it was fitted.

Fisher scoring on logarithms of variances, innovations e with variances S, one channel after the other:

    gradient_j = Σ e e_j/S + ½ S_j (1/S − e²/S²),    information_ij = Σ e_i e_j/S + ½ S_i S_j/S²

with derivatives of state and covariance carried through the filter; A is that of the last turn. Where runs say that
there is no noise, a variance would run to 0, and the filter would believe its model for ever, or a sensor blindly: it
stays at a floor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepmap.arrays import Array
from stepmap.estimate.measurement import MechanicalReadings
from stepmap.identification.fit import Fit
from stepmap.identification.inputs import acting
from stepmap.identification.observed import Observed
from stepmap.identification.starts import Start
from stepmap.identification.unknowns import BIAS

FLOOR = 0.2  # of the job's own standard deviations, below which noise is not put
LIMIT = 1.5  # of a turn's change of a logarithm of a variance
TURNS = 25
ENOUGH = 0.01  # of the likelihood, in natural logarithms, gained in a turn
GATE = 6.0  # standard deviations beyond which a reading is left out


class Group(NamedTuple):
    """Entries of Q or R that share one factor."""

    name: str
    of_process: bool
    places: tuple[int, ...]


class _Score(NamedTuple):
    """−log L with its gradient and the information."""

    value: float
    gradient: Array
    information: Array

    def with_innovation(self, e: float, S: float, de: Array, dS: Array) -> _Score:
        """One innovation more, with its variance and the derivatives of both."""
        return _Score(
            self.value + 0.5 * (e * e / S + float(np.log(S))),
            self.gradient + e / S * de + 0.5 * dS * (1 / S - e * e / S**2),
            self.information + np.outer(de, de) / S + 0.5 * np.outer(dS, dS) / S**2,
        )


@dataclass(frozen=True, eq=False)
class NoiseFit:
    """Standard deviations of a step (ndx) and of the channels (nz), and which parts or channels are at their floor."""

    process: Array
    measurement: Array
    floored: tuple[str, ...]
    likelihood: float  # gained, in natural logarithms
    turns: int


def fit_noise(fit: Fit, start: Start, monitor: Callable[[int, float], None] | None = None) -> NoiseFit:
    """Q and R that make the innovations of the fit's runs most likely."""
    task = fit.task
    groups = _groups(fit)
    first = np.concatenate([[2 * np.log(_variance(g, start))] for g in groups]).ravel()
    floor = first + 2 * np.log(FLOOR)
    at, damping, turn = np.array(first), 0.0, 0
    value, gradient, information = _likelihood(fit, start, groups, at)
    begun = value
    for turn in range(1, TURNS + 1):
        free = ~((at <= floor + 1e-9) & (gradient > 0))
        step = np.zeros(len(at))
        matrix = information[np.ix_(free, free)]
        step[free] = -np.linalg.solve(
            matrix + (damping + 1e-9) * np.diag(np.diagonal(matrix)) + 1e-9 * np.eye(free.sum()), gradient[free]
        )
        moved = np.maximum(at + np.clip(step, -LIMIT, LIMIT), floor)
        found = _likelihood(fit, start, groups, moved)
        if found[0] > value + 1e-9:
            damping = max(1.0, 4 * damping)
            if damping > 1e6:
                break
            continue
        gained, at, damping = value - found[0], moved, damping / 4
        value, gradient, information = found
        if monitor is not None:
            monitor(turn, 2 * value / max(1, task.seen))
        if gained < ENOUGH:
            break
    process, measurement = _expanded(groups, at, start)
    floored = tuple(g.name for g, v, low in zip(groups, at, floor, strict=True) if v <= low + 1e-6)
    return NoiseFit(process, measurement, floored, begun - value, turn)


def _groups(fit: Fit) -> list[Group]:
    """One factor per channel, and per part of the state: q, rho, p, v."""
    step = fit.task.step
    channels = [Group(name, False, (i,)) for i, (name, _) in enumerate(step.system.sensor_channels)]
    sizes = (("q", step.nd), ("rho", step.nk), ("p", step.nd), ("v", step.nk))
    parts, at = [], 0
    for name, size in sizes:
        parts += [Group(name, True, tuple(range(at, at + size)))] if size else []
        at += size
    return [*channels, *[g for g in parts if g.name != "v"]]  # no reading shows v: the next one is the input's


def _variance(group: Group, start: Start) -> float:
    """The group's standard deviation at the start: of its first entry."""
    of = start.process if group.of_process else start.sigma
    return float(of[group.places[0]])


def _expanded(groups: list[Group], at: Array, start: Start) -> tuple[Array, Array]:
    """Standard deviations from logarithms of variances; entries of a group keep their proportions."""
    process, measurement = start.process.copy(), start.sigma.copy()
    for g, value in zip(groups, at, strict=True):
        of = process if g.of_process else measurement
        of[list(g.places)] *= np.exp(value / 2) / _variance(g, start)
    return process, measurement


def _likelihood(fit: Fit, start: Start, groups: list[Group], at: Array) -> _Score:
    """−log L, its gradient and the information, over all runs."""
    process, measurement = _expanded(groups, at, start)
    score = _Score(0.0, np.zeros(len(groups)), np.zeros((len(groups), len(groups))))
    for number, run in enumerate(fit.task.runs):
        guess = next(s.guess for s in fit.task.segments if s.run == number)
        belief = _Belief(fit, groups, guess, start.first**2)
        found = _filtered(fit, run, belief, process**2, measurement**2)
        score = _Score(
            score.value + found.value, score.gradient + found.gradient, score.information + found.information
        )
    return score


def _filtered(fit: Fit, run: Observed, belief: _Belief, Q: Array, R: Array) -> _Score:
    task = fit.task
    step, unknowns = task.step, task.unknowns.at(fit.values)
    names = (p.name for p in step.system.parameters)
    system = step.system.with_parameters(**dict(zip(names, unknowns.parameters.tolist(), strict=True)))
    model = MechanicalReadings(system, step.layout, step)
    assert run.before is not None
    U = np.ascontiguousarray(acting(unknowns, fit.values, run.U, run.before, run.dt).U)
    par = unknowns.kernel(fit.values, step.parameter_values)
    length, bias = np.array([step.dt]), np.zeros(len(R))
    for one in (*unknowns.free, *unknowns.held):
        if one.kind == BIAS:
            bias[one.place] += one.value
    for k in range(run.steps + 1):
        x = belief.x
        belief.update(run.Z[k] - model.readings(x) - bias, model.readings_slope(x), R, np.flatnonzero(run.seen[k]))
        belief.x = model.project(step.layout.retract(x, belief.moved), model.closed(x))
        if k == run.steps:
            break
        info, after, A, _ = step.kernel.linearize_all(par, length, belief.x[None], U[k : k + 1], None)
        if info.status:
            return belief.score._replace(value=np.inf)
        belief.x = after[0]
        belief.predict(A[0], Q)
    return belief.score


class _Belief:
    """A filter's belief with its derivatives by logarithms of variances, and the score of its innovations."""

    def __init__(self, fit: Fit, groups: list[Group], guess: Array, variances: Array) -> None:
        n, g = fit.task.step.ndx, len(groups)
        self.groups = groups
        self.x, self.P = np.array(guess), np.diag(variances)
        self.dx, self.dP, self.moved = np.zeros((n, g)), np.zeros((g, n, n)), np.zeros(n)
        self.score = _Score(0.0, np.zeros(g), np.zeros((g, g)))

    def update(self, error: Array, H: Array, R: Array, channels: Iterable[int]) -> None:
        """Takes the readings of some channels, one after the other; what the state moves by is in ``moved``."""
        self.moved = np.zeros(len(self.P))
        for i in channels:
            h = np.zeros(len(self.P))
            h[: H.shape[1]] = H[i]
            Ph = self.P @ h
            S, e = float(h @ Ph + R[i]), float(error[i] - h @ self.moved)
            if e * e > GATE**2 * S:
                continue
            de, dPh = -h @ self.dx, self.dP @ h
            dS = dPh @ h + np.array([R[i] * (not one.of_process and i in one.places) for one in self.groups])
            self.score = self.score.with_innovation(e, S, de, dS)
            K = Ph / S
            self.dx = self.dx + np.outer(K, de) + ((dPh - np.outer(dS, K)) / S).T * e
            self.moved = self.moved + K * e
            cross = dPh[:, :, None] * Ph[None, None, :]
            self.dP = self.dP - (cross + np.swapaxes(cross, 1, 2)) / S + dS[:, None, None] * np.outer(K, K)
            self.P = self.P - np.outer(Ph, K)

    def predict(self, A: Array, Q: Array) -> None:
        """A step later."""
        self.dx, self.P, self.dP = A @ self.dx, A @ self.P @ A.T + np.diag(Q), A @ self.dP @ A.T
        for j, one in enumerate(self.groups):
            if one.of_process:
                places = list(one.places)
                self.dP[j][places, places] += Q[places]
