"""What a trajectory costs: distance to a reference, weighted, and soft limits on top."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, numbers, weight
from stepmap.errors import ModelError, ShapeError
from stepmap.optimal.objective import Bend, Expansion, Weights
from stepmap.optimal.tangent import Chart, chart
from stepmap.steps.layout import Layout
from stepmap.steps.protocol import StepMap, Trajectory


@dataclass(frozen=True)
class SoftLimit:
    """½ weight · (excess over high or below low)² on one entry of x or u, at all times."""

    index: int
    low: float = -np.inf
    high: float = np.inf
    weight: float = 1.0
    of_input: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ModelError(f"SoftLimit: low ({self.low}) must be below high ({self.high})")
        if not self.weight > 0:
            raise ModelError(f"SoftLimit: weight must be positive, got {self.weight}")

    def excess(self, values: Array) -> Array:
        """How far values are outside, signed."""
        outside: Array = values - np.clip(values, self.low, self.high)
        return outside


class TrackingCost:
    """½ Σ dxᵀQ dx + duᵀR du + ½ dx_NᵀQf dx_N with dx = x − x_ref, du = u − u_ref (eq. 10–11, Schultz & Murphey).

    Q, R: one matrix, or one per step, (N, ndx, ndx) and (N, nu, nu). x_ref is (N+1, nx), u_ref is (N, nu); the
    reference may be infeasible. Q and Qf must be positive semidefinite, R positive definite. Where states lie on a
    manifold, dx is the layout's difference from x_ref to x, and weights have its ndx tangent dimensions.
    """

    _layout: Layout | None = None  # None where differences are subtractions
    _chart: Chart | None = None

    def __init__(
        self,
        Q: ArrayLike,
        R: ArrayLike,
        Qf: ArrayLike,
        x_ref: ArrayLike,
        u_ref: ArrayLike,
        limits: Sequence[SoftLimit] = (),
    ) -> None:
        self.x_ref, self.u_ref = _table(x_ref, "x_ref"), _table(u_ref, "u_ref")
        n, nx, nu = len(self.u_ref), self.x_ref.shape[1], self.u_ref.shape[1]
        if n == 0:
            raise ShapeError("u_ref: the horizon is zero; give at least one step")
        if len(self.x_ref) != n + 1:
            raise ShapeError(f"x_ref: {n} inputs go with {n + 1} states, got {len(self.x_ref)}")
        shape = np.shape(Qf)
        # On a manifold there are fewer tangent dimensions than stored numbers; ``on`` looks whether they fit.
        ndx = shape[0] if len(shape) == 2 and shape[0] == shape[1] and 0 < shape[0] < nx else nx
        self.Q = weight(Q, n, ndx, "Q")
        self.R = weight(R, n, nu, "R", definite=True)
        self.Qf = weight(Qf, 0, ndx, "Qf")
        self.limits = tuple(limits)
        for limit in self.limits:
            size = nu if limit.of_input else nx
            if not 0 <= limit.index < size:
                raise ModelError(f"SoftLimit: index {limit.index} is outside 0 … {size - 1}")

    @property
    def horizon(self) -> int:
        return len(self.u_ref)

    @property
    def weights(self) -> Weights:
        """Those of the regulator along the optimum."""
        return Weights(self.Q, self.R, self.Qf)

    @property
    def reference(self) -> tuple[Array, Array]:
        """x_ref and u_ref."""
        return self.x_ref, self.u_ref

    def on(self, step: StepMap) -> Self:
        """The cost for a step map, whose layout tells how states differ; raises ShapeError where it does not fit."""
        if self.x_ref.shape[1] != step.nx or self.u_ref.shape[1] != step.nu:
            raise ShapeError(
                f"cost: its reference has {self.x_ref.shape[1]} states and {self.u_ref.shape[1]} inputs, "
                f"the step map has {step.nx} and {step.nu}"
            )
        if len(self.Qf) != step.ndx:
            raise ShapeError(f"Q, Qf: the step map has {step.ndx} tangent dimensions, the weights have {len(self.Qf)}")
        if step.layout.plain:
            return self
        if self.limits:
            raise ModelError(
                "limits: on a manifold, give them as a term of their own: sm.Cost(step, sm.Track(...), ...)"
            )
        made = copy.copy(self)
        made._layout, made._chart = step.layout, chart(step)
        return made

    def value(self, trajectory: Trajectory) -> float:
        dx, du = self._deviation(trajectory)
        running = np.sum(dx[:-1] * _times(self.Q, dx[:-1])) + np.sum(du * _times(self.R, du))
        total = 0.5 * float(running + dx[-1] @ self.Qf @ dx[-1])
        for limit in self.limits:
            values = trajectory.u if limit.of_input else trajectory.x
            total += 0.5 * limit.weight * float(np.sum(limit.excess(values[:, limit.index]) ** 2))
        return total

    def expand(self, trajectory: Trajectory) -> Expansion:
        dx, du = self._deviation(trajectory)
        x = np.concatenate([_times(self.Q, dx[:-1]), (self.Qf @ dx[-1])[None]])
        u = _times(self.R, du)
        if self._chart is not None:
            return self._on_manifold(self._chart, trajectory, x, u)
        if not self.limits:
            return Expansion(x, u, self.Q, self.R, self.Qf)
        n = self.horizon
        xx = np.concatenate([np.broadcast_to(self.Q, (n, *self.Qf.shape)), self.Qf[None]])
        uu = np.array(np.broadcast_to(self.R, (n, *self.R.shape[-2:])), order="C")
        for limit in self.limits:
            i = limit.index
            values, slope, bend = (trajectory.u, u, uu) if limit.of_input else (trajectory.x, x, xx)
            excess = limit.excess(values[:, i])
            slope[:, i] += limit.weight * excess
            bend[:, i, i] += limit.weight * (excess != 0)
        return Expansion(x, u, xx[:-1], uu, xx[-1])

    def _on_manifold(self, chart: Chart, trajectory: Trajectory, pull: Array, u: Array) -> Expansion:
        """From Q dx of each step: JᵀQ dx, JᵀQ J and, indefinite, Σ (Q dx)_i ∂²dx_i, with J the slope of dx."""
        J = chart.slopes(self.x_ref, trajectory.x)

        def bend() -> Bend:
            found = chart.bends(self.x_ref, trajectory.x, pull)
            return Bend(xx=found[:-1], terminal=found[-1])

        Jt = np.swapaxes(J, 1, 2)
        xx, terminal = Jt[:-1] @ self.Q @ J[:-1], J[-1].T @ self.Qf @ J[-1]
        x = np.einsum("kij,ki->kj", J, pull)
        return Expansion(x, u, xx, self.R, terminal, bend=bend)

    def _deviation(self, trajectory: Trajectory) -> tuple[Array, Array]:
        if trajectory.x.shape != self.x_ref.shape or trajectory.u.shape != self.u_ref.shape:
            raise ShapeError(
                f"trajectory: the cost is for states {self.x_ref.shape} and inputs {self.u_ref.shape}, "
                f"got {trajectory.x.shape} and {trajectory.u.shape}"
            )
        if self._layout is not None:
            return self._layout.difference(self.x_ref, trajectory.x), trajectory.u - self.u_ref
        return trajectory.x - self.x_ref, trajectory.u - self.u_ref


def _times(matrix: Array, rows: Array) -> Array:
    """matrix_k @ row_k for every k."""
    if matrix.ndim == 2:
        diagonal = np.diagonal(matrix)
        # Most weights are diagonal; and a BLAS call leaves its threads spinning, which costs more than the product.
        alone = np.count_nonzero(matrix) == np.count_nonzero(diagonal)
        product: Array = rows * diagonal if alone else rows @ matrix
        return product
    each: Array = np.einsum("kij,kj->ki", matrix, rows)
    return each


def _table(values: ArrayLike, name: str) -> Array:
    out = numbers(values, name)
    if out.ndim != 2:
        raise ShapeError(f"{name}: expected a table with one row per step, got shape {out.shape}")
    bad = np.argwhere(~np.isfinite(out))
    if len(bad):
        raise ShapeError(f"{name}: row {bad[0][0]}, column {bad[0][1]} is not a finite number")
    return out
