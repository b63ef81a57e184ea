"""Deviations from a reference on a manifold, with their derivatives along the tangent space.

    e(dx) = difference(reference, retract(x, dx)),   J = ∂e/∂dx and Σ w_i ∂²e_i/∂dx² at dx = 0

A step map with equations has both maps as expressions, which are differentiated; of others they are known as numbers
only, and sixth-order differences serve.
"""

from __future__ import annotations

from typing import Protocol

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.steps.check import WEIGHTS
from stepmap.steps.kernels.equations import Equations
from stepmap.steps.layout import Layout
from stepmap.steps.protocol import StepMap

SPACING, WIDE = 1e-3, 1e-2  # of differences, and of differences of these


class Chart(Protocol):
    """Derivatives of deviations at many points: references and states are (K, nx), weights (K, ndx)."""

    def slopes(self, reference: Array, x: Array) -> Array:
        """J (K, ndx, ndx)."""

    def bends(self, reference: Array, x: Array, weights: Array) -> Array:
        """Σ w_i ∂²e_i (K, ndx, ndx)."""


def chart(step: StepMap) -> Chart:
    """The derivatives for a step map, exact where it has equations."""
    equations = getattr(step, "equations", None)
    if isinstance(equations, Equations) and equations.tangent == step.ndx:
        return SymbolicChart(equations)
    return NumericChart(step.layout)


class SymbolicChart:
    def __init__(self, equations: Equations) -> None:
        n = self._n = equations.tangent
        reference, x = ca.SX.sym("reference", equations.nx), ca.SX.sym("x", equations.nx)
        dx, w, zero = ca.SX.sym("dx", n), ca.SX.sym("w", n), ca.SX.zeros(n)
        e = equations.difference(reference, equations.retract(x, dx))
        J, H = ca.jacobian(e, dx), ca.hessian(ca.dot(w, e), dx)[0]
        J, H = (ca.densify(ca.substitute(M, dx, zero)) for M in (J, H))
        self._slopes = ca.Function("slopes", [reference, x], [J.T])
        self._bends = ca.Function("bends", [reference, x, w], [H])

    def slopes(self, reference: Array, x: Array) -> Array:
        return self._all(self._slopes, reference, x)

    def bends(self, reference: Array, x: Array, weights: Array) -> Array:
        return self._all(self._bends, reference, x, weights)

    def _all(self, function: ca.Function, *rows: Array) -> Array:
        made = np.asarray(function.map(len(rows[0]))(*(part.T for part in rows)))
        return np.ascontiguousarray(made.T.reshape(len(rows[0]), self._n, self._n))


class NumericChart:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def slopes(self, reference: Array, x: Array) -> Array:
        return self._slopes(reference, x, np.zeros(self.layout.ndx))

    def _slopes(self, reference: Array, x: Array, at: Array) -> Array:
        def deviation(dx: Array) -> Array:
            return self.layout.difference(reference, self.layout.retract(x, np.broadcast_to(dx, (len(x), len(dx)))))

        columns = []
        for shift in SPACING * np.eye(len(at)):
            parts = (w * (deviation(at + k * shift) - deviation(at - k * shift)) for k, w in WEIGHTS)
            columns.append(sum(parts) / SPACING)
        return np.stack(columns, axis=-1)

    def bends(self, reference: Array, x: Array, weights: Array) -> Array:
        def slope(dx: Array) -> Array:
            out: Array = np.einsum("ki,kij->kj", weights, self._slopes(reference, x, dx))
            return out

        columns = []
        for shift in WIDE * np.eye(self.layout.ndx):
            parts = (w * (slope(k * shift) - slope(-k * shift)) for k, w in WEIGHTS)
            columns.append(sum(parts) / WIDE)
        H = np.stack(columns, axis=-1)
        out: Array = (H + np.swapaxes(H, 1, 2)) / 2
        return out
