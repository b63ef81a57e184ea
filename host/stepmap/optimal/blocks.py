"""Second derivatives of a cost in states and inputs, gathered from parts that know a few entries each."""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.steps.protocol import LengthSensitivity


class Blocks:
    """Sums xx, xu and uu over N steps; None where nothing was added, one matrix where it is the same at all steps."""

    def __init__(self, steps: int, ndx: int, nu: int, change: LengthSensitivity | None) -> None:
        self.steps, self.ndx, self.nu = steps, ndx, nu
        self.change = change  # how constraint forces depend on states and inputs
        self.xx: Array | None = None
        self.xu: Array | None = None
        self.uu: Array | None = None

    def add(self, at: Array, matrix: Array) -> None:
        """Adds second derivatives (N, n, n), or (n, n), in the entries ``at`` of (dx, u, forces)."""
        if len(at) and at.max() >= self.ndx + self.nu:
            at, matrix = self._without_forces(at, matrix)
        x, u = np.flatnonzero(at < self.ndx), np.flatnonzero(at >= self.ndx)
        for name, (i, j) in {"xx": (x, x), "xu": (x, u), "uu": (u, u)}.items():
            if len(i) and len(j):
                rows, columns = (at[k] - (self.ndx if k is u else 0) for k in (i, j))
                self._add(name, rows, columns, matrix if len(i) == len(at) else matrix[..., i[:, None], j])

    def filled(self, name: str) -> Array:
        """A block, with zeros where nothing was added."""
        block: Array | None = getattr(self, name)
        return np.zeros(self._shape(name)) if block is None else block

    def _shape(self, name: str) -> tuple[int, int]:
        sizes = {"x": self.ndx, "u": self.nu}
        return sizes[name[0]], sizes[name[1]]

    def _without_forces(self, at: Array, matrix: Array) -> tuple[Array, Array]:
        """DᵀHD with D = ∂(entries)/∂(dx, u): forces are functions of state and input."""
        assert self.change is not None  # a term that depends on forces says so
        size = self.ndx + self.nu
        D = np.zeros((self.steps, len(at), size))
        direct, through = np.flatnonzero(at < size), np.flatnonzero(at >= size)
        D[:, direct, at[direct]] = 1.0
        forces = at[through] - size
        D[:, through, : self.ndx] = self.change.multipliers_x[:, forces]
        D[:, through, self.ndx :] = self.change.multipliers_u[:, forces]
        return np.arange(size), np.swapaxes(D, 1, 2) @ matrix @ D

    def _add(self, name: str, rows: Array, columns: Array, matrix: Array) -> None:
        block: Array | None = getattr(self, name)
        shape = self._shape(name)
        if block is None:
            block = np.zeros(shape if matrix.ndim == 2 else (self.steps, *shape))
        elif matrix.ndim == 3 and block.ndim == 2:
            block = np.array(np.broadcast_to(block, (self.steps, *shape)), order="C")
        row, column = _range(rows), _range(columns)
        if row is not None and column is not None:
            block[..., row, column] += matrix
        else:
            block[..., rows[:, None], columns] += matrix
        setattr(self, name, block)


def _range(places: Array) -> slice | None:
    """The same places as a slice, which numpy adds to several times faster; None where there are gaps."""
    return slice(places[0], places[-1] + 1) if (np.diff(places) == 1).all() else None
