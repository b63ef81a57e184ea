"""Numeric twins: every exact derivative of a step map held against sixth-order differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.steps.protocol import StepMap

# f'(x) ≈ Σ w f(x + k h)/h, k = 1, 2, 3: error h⁶ f⁽⁷⁾/140
WEIGHTS = ((1, 45 / 60), (2, -9 / 60), (3, 1 / 60))


class DerivativeErrors(NamedTuple):
    """Largest differences between exact and numeric derivatives, relative to the largest entry (at least 1)."""

    A: float
    B: float
    xx: float
    xu: float
    uu: float

    @property
    def worst(self) -> float:
        return max(self)


def difference(function: Callable[[Array], Array], at: Array, spacing: Array) -> Array:
    """Jacobian of ``function`` by sixth-order central differences, (outputs, inputs)."""
    columns = []
    for i, h in enumerate(spacing):
        shift = np.zeros_like(at)
        total: Array | float = 0.0
        for k, weight in WEIGHTS:
            shift[i] = k * h
            total = total + weight * (function(at + shift) - function(at - shift))
        columns.append(np.asarray(total) / h)
    return np.array(columns).T if columns else np.zeros((len(function(at)), 0))


def check_derivatives(
    step: StepMap, x: ArrayLike, u: ArrayLike, z: ArrayLike, spacing: float | ArrayLike = 1e-3
) -> DerivativeErrors:
    """A, B against differences of the step; zᵀD²f against differences of zᵀ[A B].

    ``spacing`` is one number or one an entry of (x, u); momenta of light mechanisms need a smaller one.
    """
    x, u, z = (np.asarray(e, dtype=float) for e in (x, u, z))
    h = np.broadcast_to(np.asarray(spacing, dtype=float), (len(x) + len(u),))
    point = np.concatenate([x, u])
    n = len(x)

    def forward(y: Array) -> Array:
        return step.step(y[:n], y[n:]).x

    def slope(y: Array) -> Array:
        at = step.linearize(y[:n], y[n:])
        return np.concatenate([z @ at.A, z @ at.B])

    first, second = difference(forward, point, h), difference(slope, point, h)
    exact, bend = step.linearize(x, u), step.curvature(x, u, z)

    def error(numeric: Array, analytic: Array) -> float:
        if not analytic.size:
            return 0.0
        return float(np.abs(numeric - analytic).max() / max(1.0, np.abs(analytic).max()))

    return DerivativeErrors(
        A=error(first[:, :n], exact.A),
        B=error(first[:, n:], exact.B),
        xx=error(second[:n, :n], bend.xx),
        xu=error(second[:n, n:], bend.xu),
        uu=error(second[n:, n:], bend.uu),
    )
