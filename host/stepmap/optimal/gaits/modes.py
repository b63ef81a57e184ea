"""Modes: sets of closed contacts, the rows of h they hold, and the deviations that are left to a mechanism in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.system import System


@dataclass(frozen=True, eq=False)
class Mode:
    """A mechanism with some of its gaps closed; constraints that never open are always among the rows."""

    system: System
    closed: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.closed:
            if name not in self.system.gap_names:
                there = ", ".join(self.system.gap_names) or "none"
                raise ModelError(f"closed: no contact is called {name!r}; there are: {there}")
        if len(set(self.closed)) < len(self.closed):
            raise ModelError(f"closed: a contact is named twice in {', '.join(self.closed)}")
        self._require_independent()

    @cached_property
    def rows(self) -> list[int]:
        """Entries of h that are held. Those that nothing moves, such as across the plane of a motion, are left out."""
        e, at = self.system.expressions, 0
        held: list[int] = []
        for constraint in self.system.constraints:
            count = len(constraint.rows)
            if constraint.rows[0] is Row.EQUALITY or constraint.name in self.closed:
                held += range(at, at + count)
            at += count
        moved = set(ca.sparsify(e.centered(ca.jacobian(e.charted.residual, e.chart))).sparsity().row())
        return [row for row in held if row in moved]

    @property
    def normals(self) -> list[int]:
        """Which of the rows are those of the gaps themselves, by place in ``rows``."""
        kinds = self.system.constraint_rows
        return [i for i, row in enumerate(self.rows) if kinds[row] is Row.GAP]

    def slope(self, pose: Array) -> Array:
        """∂h/∂q of the rows, (rows, n)."""
        return self.system.residuals_slope(pose)[self.rows]

    def deviations(self, pose: Array) -> Array:
        """Π (2n, 2n): deviations of (q, p) in tangent dimensions, without what does not matter in this mode.

        A standing foot keeps its place; one that stands elsewhere is moved back along the coordinates that the
        mechanism does not depend on. Momenta count up to the impulses of the rows: p and p + Dhᵀ μ go on alike.
        """
        n = self.system.tangent.nd
        D = self.slope(pose)[:, :n]
        if not len(D):
            return np.eye(2 * n)
        free = np.linalg.pinv(D) @ D
        along = np.eye(n)[:, cyclic(self.system)]
        back = np.eye(n) - along @ np.linalg.lstsq(D @ along, D, rcond=1e-12)[0] if along.size else np.eye(n)
        keep = np.eye(n) - free
        out = np.zeros((2 * n, 2 * n))
        out[:n, :n], out[n:, n:] = keep @ back, keep
        return out

    def _require_independent(self) -> None:
        poses = np.random.default_rng(0).uniform(-1.0, 1.0, (3, len(self.system.coordinates)))
        poses = self.system.tangent.normalize(poses)
        ranks = [int(np.linalg.matrix_rank(self.slope(pose), tol=1e-9)) for pose in poses]
        if max(ranks) < len(self.rows):
            raise ModelError(
                f"closed: the rows of {', '.join(map(repr, self.closed))} depend on each other; leave one contact out",
                cause=f"{len(self.rows)} rows hold {max(ranks)} directions.",
            )


def cyclic(system: System) -> list[int]:
    """Tangent dimensions on which neither motion nor forces nor the slopes of constraints depend: where it is.

    Weight may do work along them, as on a slope: only its gradient counts.
    """
    e = system.expressions
    moved = e.charted
    slopes = ca.vec(ca.jacobian(moved.residual, e.chart))
    motion = ca.gradient(moved.lagrangian, ca.vertcat(e.chart, e.v))
    everything = ca.vertcat(motion, moved.force, ca.densify(slopes))
    depends = ca.which_depends(everything, e.chart, 1, False)
    return [i for i in range(system.tangent.nd) if not depends[i]]


def rows_of(system: System, names: Sequence[str]) -> list[int]:
    """Normal rows of the named gaps in h."""
    return [system.constraint_names.index(name) for name in names]
