"""Limits of states, and a state to end in, by an augmented Lagrangian around the search.

The search minimizes J + Σ (max(0, λ + ρ c)² − λ²)/2ρ + λᵀe + ½ ρ eᵀe with c ≤ 0 the limits and e = 0 the end; between
searches the multipliers λ take over what the penalty did, and ρ grows where that was not enough.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from stepmap.arrays import Array
from stepmap.optimal.objective import Expansion, Objective
from stepmap.optimal.problem import Problem, Solution, Status
from stepmap.steps.protocol import Trajectory

KEPT = 1e-8  # violation, in the unit of the state, that counts as none
ROUNDS = 30
STIFFER = 10.0
ENOUGH = 0.1  # part of the violation that a round may leave without ρ being raised
PER_ROUND = 100  # iterations; multipliers need not wait for the last digit
IN_VAIN = 3  # rounds that may leave the violation as it is
SOME = 0.9  # part of the violation above which a round was in vain
COSTLY = 0.1  # part of the cost
LARGEST = 1e8  # of ρ against its first value; a stiffer penalty drowns the cost in rounding


@dataclass(frozen=True, eq=False)
class Multipliers:
    """λ of limits (N+1, nx) from above and below, and of the end (nx); ρ for each state, (nx)."""

    above: Array
    below: Array
    end: Array
    stiffness: Array


class Augmented:
    """A cost with the augmented Lagrangian of a problem's limits of states and of its end."""

    def __init__(self, cost: Objective, low: Array, high: Array, end: Array, m: Multipliers) -> None:
        self.cost, self.low, self.high, self.m = cost, low, high, m
        self.wanted = np.isfinite(end)
        self.end = np.where(self.wanted, end, 0.0)
        self.reference = getattr(cost, "reference", None)

    @property
    def horizon(self) -> int | None:
        return self.cost.horizon

    def excess(self, x: Array) -> tuple[Array, Array, Array]:
        """How far states are above and below their limits, negative within; and the end off its place."""
        return x - self.high, self.low - x, np.where(self.wanted, x[-1] - self.end, 0.0)

    def violation(self, x: Array) -> Array:
        """How far each state is outside, at worst, (nx)."""
        above, below, off = self.excess(x)
        worst: Array = np.maximum.reduce([np.zeros_like(off), above.max(axis=0), below.max(axis=0), np.abs(off)])
        return worst

    def value(self, trajectory: Trajectory) -> float:
        above, below, off = self.excess(trajectory.x)
        m, total = self.m, self.cost.value(trajectory)
        for excess, force in ((above, m.above), (below, m.below)):
            pressed = self._pressed(excess, force)
            total += float(np.sum((pressed**2 - force**2) / (2 * m.stiffness)))
        return total + float(m.end @ off + 0.5 * off @ (m.stiffness * off))

    def expand(self, trajectory: Trajectory) -> Expansion:
        e, m = self.cost.expand(trajectory), self.m
        above, below, off = self.excess(trajectory.x)
        up, down = self._pressed(above, m.above), self._pressed(below, m.below)
        x = e.x + up - down
        x[-1] += np.where(self.wanted, m.end + m.stiffness * off, 0.0)
        bend = m.stiffness * ((up > 0) | (down > 0))
        n, nx = trajectory.steps, e.x.shape[1]
        xx, terminal = np.array(np.broadcast_to(e.xx, (n, nx, nx))), np.array(e.terminal)
        diagonal = np.arange(nx)
        xx[:, diagonal, diagonal] += bend[:-1]
        terminal[diagonal, diagonal] += bend[-1] + np.where(self.wanted, m.stiffness, 0.0)
        return e._replace(x=x, xx=xx, terminal=terminal)

    def updated(self, x: Array, factor: Array) -> Multipliers:
        """Multipliers that take over what the penalty did at states x, and a stiffer penalty."""
        above, below, off = self.excess(x)
        m = self.m
        end = m.end + m.stiffness * off
        return Multipliers(self._pressed(above, m.above), self._pressed(below, m.below), end, factor * m.stiffness)

    def _pressed(self, excess: Array, force: Array) -> Array:
        out: Array = np.maximum(0.0, force + self.m.stiffness * np.maximum(excess, -1e100))
        return out


Search: TypeAlias = Callable[[Problem, int], Solution]


def within_constraints(problem: Problem, search: Search, iterations: int) -> Solution:
    """The solution within limits of states and at the wanted end.

    ``search(problem, iterations)`` solves problems that have neither. It begins at the optimum without them, as most
    ends and limits change that a little; where no way leads from there, with the limits from the guess on.
    """
    free = dataclasses.replace(problem, states=None, end=None)
    optimum = search(free, iterations)
    first = _first(problem, optimum.trajectory)
    found = _rounds(problem, search, optimum, first, iterations)
    in_vain = found.status in (Status.UNMET, Status.STALLED, Status.KINK)
    if in_vain and problem.states and len(found.history) < iterations:
        guess = problem.first_guess()
        begin = dataclasses.replace(optimum, trajectory=guess, status=Status.ITERATIONS, history=found.history)
        again = _rounds(problem, search, begin, first, iterations)
        found = again if again.status.ok else dataclasses.replace(found, history=again.history)
    return dataclasses.replace(found, cost=problem.cost.value(found.trajectory), problem=problem)


def _rounds(problem: Problem, search: Search, found: Solution, first: Multipliers, iterations: int) -> Solution:
    """Searches with multipliers, from a solution or a guess, until the constraints are kept or nothing helps."""
    free = dataclasses.replace(problem, states=None, end=None)
    regulator = problem.regulator if problem.weights is None else problem.weights
    made = Augmented(free.cost, *problem.state_bounds, first)
    off, status, history = made.violation(found.trajectory.x), found.status, found.history
    in_vain = 0
    for _ in range(ROUNDS):
        left = iterations - len(history)
        if status.interrupted or (off.max() <= KEPT and status.ok) or left <= 0 or in_vain == IN_VAIN:
            break
        pressed = dataclasses.replace(free, cost=made, guess=found.trajectory, regulator=regulator)
        found = search(pressed, min(left, PER_ROUND))
        history, status = history + found.history, found.status
        before, off = off, made.violation(found.trajectory.x)
        in_vain = in_vain + 1 if off.max() > SOME * before.max() else 0
        done = (off <= np.maximum(ENOUGH * before, KEPT)) | (made.m.stiffness >= LARGEST * first.stiffness)
        factor = np.where(done, 1.0, STIFFER)
        made = Augmented(free.cost, *problem.state_bounds, made.updated(found.trajectory.x, factor))
    if (status.ok and off.max() > KEPT) or in_vain == IN_VAIN:
        status = Status.UNMET
    elif not status.ok and not status.interrupted and len(history) >= iterations:
        status = Status.ITERATIONS
    return dataclasses.replace(found, status=status, history=history)


def _first(problem: Problem, trajectory: Trajectory) -> Multipliers:
    """No multipliers, and a penalty as stiff as the cost is at its end.

    It is stiffer where that is little, so that a deviation as large as the state ever was costs a part of the whole.
    """
    n, nx = trajectory.x.shape
    own = np.diagonal(problem.cost.expand(trajectory).terminal)
    size = np.maximum(np.ptp(trajectory.x, axis=0), 1e-3 * np.abs(trajectory.x).max(axis=0))
    least = COSTLY * max(abs(problem.cost.value(trajectory)), 1e-9) / np.maximum(size, 1e-6) ** 2
    return Multipliers(np.zeros((n, nx)), np.zeros((n, nx)), np.zeros(nx), np.maximum(own, least))
