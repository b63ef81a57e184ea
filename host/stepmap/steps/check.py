"""Numeric twins: every exact derivative of a step map held against sixth-order differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.steps.layout import Layout
from stepmap.steps.protocol import Linearization, StepMap, StepResult

# f'(x) ≈ Σ w f(x + k h)/h, k = 1, 2, 3: error h⁶ f⁽⁷⁾/140
SPACING = 1e-3  # of differences of a layout's own maps
WEIGHTS = ((1, 45 / 60), (2, -9 / 60), (3, 1 / 60))


class Smooth(Protocol):
    """What differences are taken of."""

    def step(self, x: ArrayLike, u: ArrayLike) -> StepResult: ...
    def linearize(self, x: ArrayLike, u: ArrayLike) -> Linearization: ...


@runtime_checkable
class HasEvents(Protocol):
    """A step map with corners, smooth with its order of events frozen."""

    def frozen(self, x: ArrayLike, u: ArrayLike) -> Smooth: ...


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

    Differences are those of the tangent space. ``spacing`` is one number, or one per entry of (dx, u); momenta of
    light mechanisms need a smaller one. Those of a step with events are taken with the order of events at (x, u), which
    must be possible three spacings away: an impact at a low speed needs a small one.
    """
    x, u, z = (np.asarray(e, dtype=float) for e in (x, u, z))
    layout = getattr(step, "layout", None) or Layout({"x": [(f"x{i}", "") for i in range(len(x))]})
    n = layout.ndx
    h = np.broadcast_to(np.asarray(spacing, dtype=float), (n + len(u),))
    smooth: Smooth = step.frozen(x, u) if isinstance(step, HasEvents) else step
    here, after = np.zeros(n + len(u)), step.step(x, u).x

    def moved(y: Array) -> tuple[Array, Array]:
        return layout.retract(x, y[:n]), u + y[n:]

    def forward(y: Array) -> Array:
        return layout.difference(after, smooth.step(*moved(y)).x)

    def slope(y: Array) -> Array:
        at = smooth.linearize(*moved(y))
        if layout.plain:
            return np.concatenate([z @ at.A, z @ at.B])
        # A is in the tangent spaces at the moved points; differences are taken in those at x and at its next state.
        dy, tiny = y[:n], np.full(n, SPACING)
        back = z @ difference(lambda d: layout.difference(after, layout.retract(at.x, d)), 0 * dy, tiny)
        there = moved(y)[0]
        ahead = difference(lambda d: layout.difference(there, layout.retract(x, dy + d)), 0 * dy, tiny)
        return np.concatenate([back @ at.A @ ahead, back @ at.B])

    first, second = difference(forward, here, h), difference(slope, here, h)
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
