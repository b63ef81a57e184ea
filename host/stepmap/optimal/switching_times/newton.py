"""Newton's method for times that keep their order: absolute eigenvalues, a small quadratic program, Armijo's rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError
from stepmap.optimal.problem import Status

ARMIJO = 1e-4  # part of the predicted decrease that must be had
SHORTEST = 1e-10  # step length below which a direction is given up
KEPT = 0.1  # part of its length that an interval keeps in one iteration
SMALLEST = 1e-8  # eigenvalue, relative to the largest, that a Hessian is taken to have at least
ROUNDING = 1e-13  # relative rounding of a cost

Value = Callable[[Array], float]
Monitor = Callable[[int, Array, float], None]


class Derivatives(NamedTuple):
    """J(τ), its gradient (m) and its Hessian (m, m) in the times."""

    cost: float
    gradient: Array
    hessian: Array


class Found(NamedTuple):
    """Where a search for times ended."""

    status: Status
    tau: Array
    cost: float
    gradient: Array
    iterations: int


def minimize(
    expand: Callable[[Array], Derivatives],
    value: Value,
    tau: Array,
    least: Array,
    end: float,
    max_iterations: int,
    tolerance: float,
    monitor: Monitor | None = None,
) -> Found:
    """Times of least cost between 0 and ``end``, in their order, with intervals of ``least`` length (m + 1) or longer.

    Ends where the decrease that the model foretells is below ``tolerance`` times the cost (at least 1). A rollout that
    fails counts as too long a step. Ctrl-C keeps the best so far.
    """
    tau = spread(tau, least, end)
    at = expand(tau)
    status, number = Status.ITERATIONS, 0
    try:
        for number in range(max_iterations + 1):
            step = direction(at.gradient, at.hessian, np.diff([0.0, *tau, end]), least)
            slope = float(at.gradient @ step)
            if -slope <= tolerance * max(1.0, abs(at.cost)):
                status = Status.CONVERGED
                tau, at = _polished(expand, tau, step, at)
                break
            if number == max_iterations:
                break
            length = _line_search(value, tau, step, at.cost, slope)
            if length is None:
                done = -slope <= 1e3 * ROUNDING * max(1.0, abs(at.cost))
                status = Status.CONVERGED if done else Status.STALLED
                break
            tau = tau + length * step
            at = expand(tau)
            if monitor is not None:
                monitor(number, tau, at.cost)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return Found(status, tau, at.cost, at.gradient, number)


def _polished(
    expand: Callable[[Array], Derivatives], tau: Array, step: Array, at: Derivatives
) -> tuple[Array, Derivatives]:
    """The times after a last full step, which the cost is too flat to judge, if it has less slope there."""
    if not step.any():
        return tau, at
    after = expand(tau + step)
    better = abs(after.gradient @ step) < abs(at.gradient @ step) and after.cost <= at.cost + ROUNDING * abs(at.cost)
    return (tau + step, after) if better else (tau, at)


def spread(tau: Array, least: Array, end: float) -> Array:
    """The times, moved apart where an interval between them is shorter than its least length."""
    intervals = np.diff([0.0, *tau, end])
    if (intervals >= least).all():
        return tau
    more = np.maximum(intervals - least, 0.0)
    out: Array = np.cumsum(least + more * ((end - least.sum()) / more.sum()))[:-1]
    return out


def direction(gradient: Array, hessian: Array, intervals: Array, least: Array | float = 0.0) -> Array:
    """The minimizer of the model with |Hessian| after which intervals keep a part of their length, and their least one.

    The least-distance problem min |y| with G y ≥ b is solved by nonnegative least squares (Lawson & Hanson, ch. 23).
    """
    if not len(gradient):
        return np.zeros(0)
    values, vectors = np.linalg.eigh(hessian)
    sizes = np.abs(values)
    sizes = np.maximum(sizes, max(SMALLEST * float(sizes.max()), 1e-300))
    free = -vectors @ ((vectors.T @ gradient) / sizes)
    # Intervals change by C p; those of the first and last time have one moving end.
    C = np.diff(np.vstack([np.zeros(len(gradient)), np.eye(len(gradient)), np.zeros(len(gradient))]), axis=0)
    lowest = np.maximum((KEPT - 1.0) * intervals, np.minimum(least - intervals, 0.0))
    if (C @ free >= lowest).all():
        return np.asarray(free)
    from scipy.optimize import nnls  # takes longer to load than most commands take

    back = vectors / np.sqrt(sizes)  # p = free + back y, |y|² = what the model loses
    G, b = C @ back, lowest - C @ free
    E = np.vstack([G.T, b])
    z, _ = nnls(E, np.concatenate([np.zeros(len(gradient)), [1.0]]))
    r = E @ z - np.concatenate([np.zeros(len(gradient)), [1.0]])
    p: Array = free + back @ (-r[:-1] / r[-1])
    return p


def _line_search(value: Value, tau: Array, step: Array, cost: float, slope: float) -> float | None:
    length, rounding = 1.0, ROUNDING * abs(cost)
    while length >= SHORTEST:
        try:
            found = value(tau + length * step)
        except ConvergenceError:
            found = np.inf
        if found <= cost + ARMIJO * length * slope + (rounding if -length * slope < 100 * rounding else 0.0):
            return length
        length /= 2
    return None
