"""What is new before the camera: foreground against a learned background, gathered into clusters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap_hil.depth.camera import HEIGHT, NO_DATA, WIDTH, Camera, checked

CELL = 4
"""Pixels a side of the cells that are clustered."""
SOLID = 10
"""Foreground pixels of 16 that make a cell: more than a string can fill."""
JOIN = 8.0
"""Counts that neighbouring cells of one thing may differ by."""
FEWEST = 5
"""Frames a background is learned from at least."""


@dataclass(frozen=True, eq=False)
class Background:
    """For each pixel the count below which something stands before the background (480, 640) uint16."""

    limit: Array
    nearest: int

    @classmethod
    def learn(cls, frames: Iterable[Array], camera: Camera) -> Background:
        """From frames of the empty scene: nearer than all of them, and than their median by 4 standard deviations.

        Where the empty scene gives no data, everything with data is foreground.
        """
        stack = np.array([checked(frame) for frame in frames])
        if len(stack) < FEWEST:
            raise ModelError(f"frames: a background needs {FEWEST} frames of the empty scene, got {len(stack)}")
        believed = (stack >= camera.nearest) & (stack <= camera.farthest)
        share = believed.mean()
        if share < 0.2:
            raise ModelError(
                f"frames: only {share:.0%} of the pixels have data. Is the lens covered, the wall beyond "
                f"{camera.far:g} m, or sunlight on it?"
            )
        return cls(_limits(np.where(believed, stack, NO_DATA), believed.sum(axis=0), camera), camera.nearest)

    def foreground(self, frame: Array) -> Array:
        """Which pixels have data nearer than the background (480, 640) bool."""
        return np.asarray(frame - np.uint16(self.nearest) < self.limit - np.uint16(self.nearest))


def _limits(stack: Array, valid: Array, camera: Camera) -> Array:
    ordered = np.sort(stack, axis=0)  # no data comes last
    middle = np.take_along_axis(ordered, (np.maximum(valid, 1) // 2)[None], axis=0)[0].astype(float)
    total = np.where(stack < NO_DATA, stack.astype(np.float32) - middle.astype(np.float32), 0.0)
    sigma = np.sqrt((total**2).sum(axis=0) / np.maximum(valid, 1))
    limit = np.minimum(middle - 4 * np.maximum(sigma, 0.5), ordered[0] - 1.0)
    limit = np.where(valid > 0, limit, camera.farthest + 1)
    return np.clip(limit, camera.nearest, camera.farthest + 1).astype(np.uint16)


@dataclass(frozen=True)
class Cluster:
    """A patch of the image at about one depth."""

    cells: int
    count: float
    """Mean count of its pixels."""
    rows: slice
    columns: slice

    def window(self, margin: int) -> tuple[slice, slice]:
        """Rows and columns of the patch and ``margin`` pixels around it."""
        return (
            slice(max(self.rows.start - margin, 0), min(self.rows.stop + margin, HEIGHT)),
            slice(max(self.columns.start - margin, 0), min(self.columns.stop + margin, WIDTH)),
        )


def clusters(frame: Array, foreground: Array, *, most: int = 12) -> list[Cluster]:
    """Connected cells whose depths go over into each other, the largest first, ``most`` at most."""
    filled = foreground.view(np.uint8).reshape(HEIGHT // CELL, CELL, WIDTH).sum(axis=1, dtype=np.uint8)
    filled = filled.reshape(HEIGHT // CELL, WIDTH // CELL, CELL).sum(axis=2, dtype=np.uint8)
    row, column = np.nonzero(filled >= SOLID)
    if not len(row):
        return []
    mean = _means(frame, foreground, row, column)
    label = _labels(_neighbours(row, column, mean), len(row))
    _, label, sizes = np.unique(label, return_inverse=True, return_counts=True)
    largest = np.argsort(-sizes, kind="stable")[:most]
    return [_cluster(row[label == k], column[label == k], mean[label == k]) for k in largest]


def _means(frame: Array, foreground: Array, row: Array, column: Array) -> Array:
    """Mean count of the foreground of each cell."""
    shape = (HEIGHT // CELL, CELL, WIDTH // CELL, CELL)
    member = foreground.reshape(shape)[row, :, column, :]
    return np.asarray((frame.reshape(shape)[row, :, column, :] * member).sum(axis=(1, 2)) / member.sum(axis=(1, 2)))


def _neighbours(row: Array, column: Array, mean: Array) -> tuple[Array, Array]:
    """Pairs of cells, as indices, that touch and are about as far away."""
    index = np.full((HEIGHT // CELL + 1, WIDTH // CELL + 1), -1)  # the last row and column stay empty
    index[row, column] = np.arange(len(row))
    one = np.tile(np.arange(len(row)), 4)
    other = np.concatenate([index[row + r, column + c] for r, c in ((0, 1), (1, 0), (1, 1), (1, -1))])
    joined = (other >= 0) & (np.abs(mean[one] - mean[other]) < JOIN)
    return one[joined], other[joined]


def _labels(pairs: tuple[Array, Array], n: int) -> Array:
    """The least index each of n things is joined to, by hooking trees onto each other until nothing moves."""
    parent = np.arange(n)
    while True:
        a, b = parent[pairs[0]], parent[pairs[1]]
        if np.array_equal(a, b):
            return parent
        np.minimum.at(parent, np.maximum(a, b), np.minimum(a, b))
        while not np.array_equal(parent, above := parent[parent]):
            parent = above


def _cluster(row: Array, column: Array, mean: Array) -> Cluster:
    return Cluster(
        cells=len(row),
        count=float(mean.mean()),
        rows=slice(int(row.min()) * CELL, (int(row.max()) + 1) * CELL),
        columns=slice(int(column.min()) * CELL, (int(column.max()) + 1) * CELL),
    )
