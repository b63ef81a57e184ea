"""Any expression of states, inputs, constraint forces and time as a cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ModelError, ShapeError
from stepmap.formula import express
from stepmap.optimal.terms.residual import Points, Residual, by_name, end_of, steps_of, symbols
from stepmap.optimal.terms.squares import Squares
from stepmap.optimal.terms.term import BoundTerm, Expanded, Part, require_horizon
from stepmap.optimal.terms.weights import weight_rows
from stepmap.steps.protocol import StepMap, Trajectory

Formula: TypeAlias = "str | Sequence[str] | Callable[[Mapping[str, Any]], Any]"

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "sin": ca.sin,
    "cos": ca.cos,
    "tan": ca.tan,
    "exp": ca.exp,
    "sqrt": ca.sqrt,
    "tanh": ca.tanh,
    "abs": ca.fabs,
    "min": lambda *values: reduce(ca.fmin, values),
    "max": lambda *values: reduce(ca.fmax, values),
}


@dataclass(frozen=True, eq=False)
class Expression:
    """½ Σ weight · r² of a formula r, or Σ weight · r where it is not one of ``least_squares``.

    The formula is a text of names of states, inputs and constraints (their forces) and t, several such texts, or a
    function of a mapping from these names to CasADi symbols. It counts at every step, or with ``terminal`` at the end
    alone, where there are neither inputs nor forces. ``weight`` is one number, one
    per formula, or a row of these per step.
    """

    formula: Formula
    weight: ArrayLike = 1.0
    least_squares: bool = True
    terminal: bool = False

    @staticmethod
    def example(step: StepMap, steps: int) -> Expression:
        """One that any map takes."""
        first, last, force = step.layout.names[0], step.layout.names[-1], step.input_names[0]
        return Expression([f"sin({first}) + {force}*cos(2*{last} - t)", f"{last}**2 - exp(-{first})"], [2.0, 0.3])

    def on(self, step: StepMap) -> BoundTerm:
        at = symbols(step)
        r = self._expressed(by_name(step, at))
        rows = weight_rows(self.weight, r.numel(), "formula", signed=not self.least_squares)
        if self.terminal and len(rows) > 1:
            raise ShapeError(f"weight: there is one end, and {len(rows)} rows of weights")
        residual = Residual(step, at, r)
        if self.terminal and (residual.at >= step.ndx).any():
            raise ModelError("formula: there are no inputs and no constraint forces at the end; leave them out")
        if self.least_squares:
            rows = np.vstack([rows, rows[-1:]]) if len(rows) > 1 else rows  # none of these formulas counts at the end
            return Squares(step, residual, rows, running=not self.terminal, end=self.terminal)
        return Plain(step, residual, rows, self.terminal)

    def _expressed(self, names: Mapping[str, ca.SX]) -> ca.SX:
        if callable(self.formula):
            try:
                return ca.vec(ca.SX(self.formula(names)))
            except KeyError as error:
                raise ModelError(f"formula: no name {error}; there are {', '.join(names)}") from None
            except NotImplementedError:
                raise ModelError("formula: the function must return an expression of the symbols it gets") from None
        texts = [self.formula] if isinstance(self.formula, str) else list(self.formula)
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ModelError(f"formula: expected a text, several, or a function of symbols, got {self.formula!r}")
        return ca.vertcat(*(ca.SX(express(text, names, FUNCTIONS)) for text in texts))


class Plain:
    """Σ weight · r; the positive part of its second derivative is made of the positive eigenvalues."""

    def __init__(self, step: StepMap, residual: Residual, weights: Array, terminal: bool) -> None:
        self.step, self.residual, self.factors, self.terminal = step, residual, weights, terminal
        self.forces = bool((residual.at >= step.ndx + step.nu).any())
        self.horizon = len(weights) if len(weights) > 1 else None

    def _points(self, trajectory: Trajectory) -> Points:
        if self.horizon is not None:
            require_horizon(trajectory, self.horizon, "weight of Expression")
        return (end_of if self.terminal else steps_of)(self.step, trajectory)

    def value(self, trajectory: Trajectory) -> float:
        return float(np.sum(self.factors * self.residual.values(self._points(trajectory))))

    def expand(self, trajectory: Trajectory) -> Expanded:
        points = self._points(trajectory)
        r, J = self.residual.slopes(points)
        y = np.broadcast_to(self.factors, r.shape)
        H = self.residual.bends(points, y)
        values, vectors = np.linalg.eigh(H)
        positive = (vectors * np.maximum(values, 0.0)[:, None]) @ np.swapaxes(vectors, 1, 2)
        part = Part(self.residual.at, np.einsum("ki,kij->kj", y, J), positive, H - positive)
        return Expanded(end=(part,)) if self.terminal else Expanded((part,))
