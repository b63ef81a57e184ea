"""What inputs can move about a state, counted in the directions that constraints leave free."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.steps import VariationalStep

NOTHING = 1e-9  # singular value, of the largest, that counts as none
MAIN = 0.3  # part of a direction's largest entry from which a coordinate is named


class Controllability(NamedTuple):
    """Rank of the reachable space at a state, of how many dimensions, and what cannot be reached."""

    rank: int
    dimension: int
    singular_values: Array
    unreachable: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return self.rank == self.dimension

    def __str__(self) -> str:
        if self.complete:
            return f"all {self.dimension} directions can be reached"
        return f"{self.rank} of {self.dimension} directions can be reached; not {', '.join(self.unreachable)}"


def controllability(step: VariationalStep, x: ArrayLike, u: ArrayLike) -> Controllability:
    """The reachable space of the linearization at (x, u), by Krylov's matrix [B, AB, A²B, …].

    Dynamic coordinates count with their velocities, in the tangent space of the constraints: 2 (nd − nc) directions.
    Momenta are turned into velocities, times dt, so that all entries have the units of coordinates.
    """
    if not isinstance(step, VariationalStep):
        raise ModelError(f"step: expected a map of a mechanism from sm.discretize, got {type(step).__name__}")
    at = step.linearize(x, u)
    free, N = _directions(step, np.asarray(x, dtype=float))
    columns = [at.B]
    for _ in range(step.ndx - 1):
        columns.append(at.A @ columns[-1])
        scale = float(np.abs(columns[-1]).max(initial=0.0))
        if scale > 0:
            columns[-1] = columns[-1] / scale  # powers of an unstable A would drown the others
    reached = free @ np.hstack(columns)
    norms = np.linalg.norm(reached, axis=0)
    reached = reached / np.where(norms > 0, norms, 1.0)
    left, values, _ = np.linalg.svd(reached)
    full = np.zeros(len(free))
    full[: len(values)] = values
    rank = int(np.sum(full > NOTHING * max(float(full.max(initial=0.0)), 1e-300)))
    return Controllability(rank, len(free), full, tuple(_told(step, left[:, i], N) for i in range(rank, len(free))))


def _directions(step: VariationalStep, x: Array) -> tuple[Array, Array]:
    """Rows that take dx to coordinates and velocities along the free directions, and these directions (n, nd)."""
    layout, pose, nd = step.layout, step.layout.pose(x), step.nd
    M = step.system.mass_matrix(pose)[:nd, :nd]
    D = step.system.residuals_slope(pose)[:, :nd]
    if len(D):
        D = D[step.closed(x)] if hasattr(step, "closed") else D
    _, values, vectors = np.linalg.svd(D) if len(D) else (0, np.zeros(0), np.eye(nd))
    N = vectors[int(np.sum(values > 1e-9 * values.max(initial=1.0))) :].T
    along = np.linalg.solve(N.T @ M @ N, N.T)
    rows = np.zeros((2 * N.shape[1], step.ndx))
    parts = layout.tangent_slices
    rows[: N.shape[1], parts["q"]] = along @ M
    rows[N.shape[1] :, parts["p"]] = step.dt * along
    return rows, N


def _told(step: VariationalStep, direction: Array, N: Array) -> str:
    """The coordinates, and speeds, that move most along a direction of the free space."""
    names = step.layout.tangent_names[: step.nd]
    half = N.shape[1]
    moves = np.abs(np.concatenate([N @ direction[:half], N @ direction[half:]]))
    labels = [*names, *(f"the speed of {name}" for name in names)]
    return " with ".join(labels[i] for i in np.flatnonzero(moves >= MAIN * moves.max()))
