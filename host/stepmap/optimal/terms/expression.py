"""Any expression of states, inputs, constraint forces and time as a cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import casadi as ca
import numpy as np

from stepmap.arrays import Array, numbers
from stepmap.errors import ModelError, ShapeError
from stepmap.formula import express
from stepmap.optimal.terms.residual import Residual, by_name, end_of, steps_of, symbols
from stepmap.optimal.terms.squares import Squares
from stepmap.optimal.terms.term import BoundTerm, Expanded, Part
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


@dataclass(frozen=True)
class Expression:
    """½ Σ weight · r² of a formula r, or Σ weight · r where it is not one of ``least_squares``.

    The formula is a text of names of states, inputs and constraints (their forces) and t, several such texts, or a
    function of a mapping from these names to CasADi symbols. It counts at every step, or with ``terminal`` at the end
    alone, where there are neither inputs nor forces. ``weight`` is one number, or one per formula.
    """

    formula: Formula
    weight: float | Sequence[float] = 1.0
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
        weights = numbers(self.weight, "weight")
        if weights.ndim > 1 or weights.size not in (1, r.numel()) or not np.isfinite(weights).all():
            raise ShapeError(f"weight: expected one number, or {r.numel()}, one per formula, got {self.weight!r}")
        if self.least_squares and (weights < 0).any():
            raise ModelError(f"weight: squares need one that is not negative, got {self.weight!r}")
        residual = Residual(step, at, r)
        if self.terminal and (residual.at >= step.ndx).any():
            raise ModelError("formula: there are no inputs and no constraint forces at the end; leave them out")
        rows = np.broadcast_to(weights, r.numel())[None]
        if self.least_squares:
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

    def value(self, trajectory: Trajectory) -> float:
        where = end_of if self.terminal else steps_of
        return float(np.sum(self.factors * self.residual.values(where(self.step, trajectory))))

    def expand(self, trajectory: Trajectory) -> Expanded:
        points = (end_of if self.terminal else steps_of)(self.step, trajectory)
        r, J = self.residual.slopes(points)
        y = np.broadcast_to(self.factors, r.shape)
        H = self.residual.bends(points, y)
        values, vectors = np.linalg.eigh(H)
        positive = (vectors * np.maximum(values, 0.0)[:, None]) @ np.swapaxes(vectors, 1, 2)
        part = Part(self.residual.at, np.einsum("ki,kij->kj", y, J), positive, H - positive)
        return Expanded(end=(part,)) if self.terminal else Expanded((part,))
