"""Constraints that are nearly singular along a motion: forces that move next to nothing, and so grow without bound.

A string in line with the limb that hangs on it has a length without slope, and rows that depend on each other share
theirs. With J = ∂h/∂q of the dynamic coordinates and M = L Lᵀ their masses, what is left of a row of J L⁻ᵀ beside all
other rows is compared with the row's usual length, the median over poses around the motion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.system import System
from stepmap.steps.protocol import Trajectory
from stepmap.steps.variational import VariationalStep

LEAST = 1e-2  # of its usual length that a row keeps
AROUND, POSES = 0.3, 64  # rad or m, and how many poses are tried
APART = 1e-9  # of the largest singular value of the other rows, below which they say nothing


@dataclass(frozen=True)
class NearlySingular:
    """A constraint, where it is worst, and how much of its row is left there."""

    name: str
    time: float
    left: float

    def __str__(self) -> str:
        return f"constraint {self.name!r} is nearly singular at {self.time:.3g} s: {self.left:.1g} of its slope is left"


def nearly_singular(step: VariationalStep, path: Trajectory) -> tuple[NearlySingular, ...]:
    """Constraints of which less than LEAST is left somewhere, worst first; gaps, which open, are left out."""
    system = step.system
    held = np.array([row is Row.EQUALITY for c in system.constraints for row in c.rows], dtype=bool)
    if not held.any() or len(held) != len(system.constraint_names):
        return ()
    poses = step.layout.pose(path.x)
    try:
        usual, rows = (_rows(system, q)[:, held] for q in (_around(system, poses), poses))
    except np.linalg.LinAlgError:  # poses in which something moves no mass, or that are no numbers
        return ()
    left = _left(rows) / np.maximum(np.median(np.linalg.norm(usual, axis=2), axis=0), np.finfo(float).tiny)
    names = np.array(system.constraint_names)[held]
    worst = left.argmin(axis=0)
    found = [NearlySingular(str(names[i]), float(path.t[k]), float(left[k, i])) for i, k in enumerate(worst)]
    return tuple(sorted((one for one in found if one.left < LEAST), key=lambda one: one.left))


def _around(system: System, poses: Array) -> Array:
    """Poses around those of a motion, kinematic coordinates as they are."""
    rng = np.random.default_rng(1)
    moved = AROUND * rng.uniform(-1.0, 1.0, (POSES, system.tangent.nv))
    moved[:, system.tangent.nd :] = 0.0
    out: Array = system.tangent.retract(poses[rng.integers(len(poses), size=POSES)], moved)
    return out


def _rows(system: System, poses: Array) -> Array:
    """J L⁻ᵀ, (poses, constraints, nd)."""
    nd = system.tangent.nd
    factor = np.linalg.cholesky(system.mass_matrix(poses)[:, :nd, :nd])
    rows: Array = np.linalg.solve(factor, system.residuals_slope(poses)[:, :, :nd].swapaxes(1, 2)).swapaxes(1, 2)
    return rows


def _left(rows: Array) -> Array:
    """Lengths of what is left of each row beside all others, (poses, constraints)."""
    out: Array = np.linalg.norm(rows, axis=2)
    if rows.shape[1] > 1:
        for i in range(rows.shape[1]):
            row, others = rows[:, i : i + 1], np.delete(rows, i, axis=1)
            inverse = np.linalg.pinv(others, rcond=APART)
            out[:, i] = np.linalg.norm(row - row @ inverse @ others, axis=2)[:, 0]
    return out
