"""Weighted squares ½ Σ w_i r_i² of expressions, at the steps of a trajectory, at its end, or both."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ShapeError
from stepmap.optimal.terms.residual import Points, Residual, end_of, steps_of
from stepmap.optimal.terms.term import Expanded, Part, require_horizon
from stepmap.steps.protocol import StepMap, Trajectory


class Squares:
    """A term of squares. ``weights`` and ``data`` have one row for all points, or one per state of a trajectory."""

    def __init__(
        self,
        step: StepMap,
        residual: Residual,
        weights: Array,
        data: Array | None = None,
        *,
        running: bool = True,
        end: bool = False,
    ) -> None:
        self.step, self.residual, self.factors, self.data = step, residual, weights, data
        self.running, self.end = running, end
        n = step.ndx + step.nu
        self.forces = bool((residual.at >= n).any())
        lengths = {len(rows) - 1 for rows in (weights, data) if rows is not None and len(rows) > 1}
        if len(lengths) > 1:
            raise ShapeError(f"weights: rows of weights and of targets are for {sorted(lengths)} steps")
        self.horizon = lengths.pop() if lengths else None

    def value(self, trajectory: Trajectory) -> float:
        total = 0.0
        for points, weights in self._places(trajectory):
            total += 0.5 * float(np.sum(weights * self.residual.values(points) ** 2))
        return total

    def expand(self, trajectory: Trajectory) -> Expanded:
        parts = [self._part(points, weights) for points, weights in self._places(trajectory)]
        return Expanded(tuple(parts[: self.running]), tuple(parts[self.running :]))

    def _part(self, points: Points, weights: Array) -> Part:
        r, J = self.residual.slopes(points)
        weighted = weights * r
        positive = np.swapaxes(J, 1, 2) @ (np.broadcast_to(weights, r.shape)[..., None] * J)
        slope = np.einsum("ki,kij->kj", weighted, J)
        return Part(self.residual.at, slope, positive, later(self.residual, points, weighted))

    def _places(self, trajectory: Trajectory) -> list[tuple[Points, Array]]:
        """Points of the steps and of the end, as asked for, with their weights."""
        if self.horizon is not None:
            require_horizon(trajectory, self.horizon, "a term of the cost")
        places = []
        for wanted, where, rows in ((self.running, steps_of, slice(-1)), (self.end, end_of, slice(-1, None))):
            if wanted:
                points = where(self.step, trajectory, self._rows(self.data, rows, trajectory.steps + 1))
                places.append((points, self.factors if len(self.factors) == 1 else self.factors[rows]))
        return places

    def _rows(self, data: Array | None, rows: slice, count: int) -> Array | None:
        return None if data is None else np.broadcast_to(data, (count, data.shape[1]))[rows]


def later(residual: Residual, points: Points, y: Array) -> Callable[[], Array]:
    """Σ y_i ∂²r_i, when it is asked for."""
    return lambda: residual.bends(points, y)
