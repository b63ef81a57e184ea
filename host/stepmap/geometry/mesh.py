"""A solid of triangles, from arrays or from a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, numbers
from stepmap.errors import ModelError, ShapeError
from stepmap.geometry.arithmetic import number
from stepmap.geometry.grids import mesh_file
from stepmap.geometry.grids import triangles as flat
from stepmap.geometry.grids.grid import DistanceGrid, Nodes, cached, nodes

BAND = 3.0  # spacings within which distances are exact at the nodes
PARTS = 40  # of the longest side: the spacing where none is given


@dataclass(frozen=True, eq=False)
class Mesh:
    """The inside of a closed surface: vertices (n, 3) [m] and triangles (m, 3) of their indices, or the name of an STL
    or OBJ file in place of both.

    Distances are exact at the nodes of a grid near the surface and interpolated by cubic splines. ``spacing`` is the
    grid's, by default a fortieth of the mesh's longest side.
    """

    vertices: ArrayLike | str | os.PathLike[str]
    faces: ArrayLike | None = None
    spacing: float | None = None

    def __post_init__(self) -> None:
        given, faces = self.vertices, self.faces
        if isinstance(given, (str, os.PathLike)):
            if faces is not None:
                raise ModelError("faces of a mesh: a file has its own; leave them out")
            given, faces = mesh_file.read(Path(given))
        elif faces is None:
            raise ModelError("faces of a mesh: missing; give (m, 3) indices of vertices, or a file's name alone")
        vertices = numbers(given, "vertices of a mesh")
        if vertices.ndim != 2 or vertices.shape[1:] != (3,):
            raise ShapeError(f"vertices of a mesh: expected (n, 3), got {vertices.shape}")
        if not np.isfinite(vertices).all():
            raise ModelError(f"vertices of a mesh: vertex {np.argwhere(~np.isfinite(vertices))[0][0]} is not finite")
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", _checked(vertices, numbers(faces, "faces of a mesh")))
        if self.spacing is not None:
            object.__setattr__(self, "spacing", number(self.spacing, "spacing of a mesh", above=0.0))
            nodes(*self._box(self._spacing), self._spacing, "a mesh")

    def distance(self, point: Any) -> Any:
        """The signed distance from the surface, of an MX or of points (..., 3)."""
        return self.grid.distance(point)

    def triangles(self) -> Array:
        out: Array = np.asarray(self.vertices, dtype=float)[np.asarray(self.faces)]
        return out

    @cached_property
    def grid(self) -> DistanceGrid:
        """Distances and their spline, made at the first use and kept in the cache folder."""
        return cached("mesh", [self.triangles(), np.asarray(self._spacing)], self._filled)

    @property
    def _spacing(self) -> float:
        return self.spacing or float(np.ptp(self.triangles().reshape(-1, 3), axis=0).max()) / PARTS

    def _box(self, spacing: float) -> tuple[Array, Array]:
        points = self.triangles().reshape(-1, 3)
        low, high = points.min(axis=0), points.max(axis=0)
        pad = np.maximum(4 * spacing, 0.15 * (high - low))
        return low - pad, high + pad

    def _filled(self) -> tuple[Nodes, Array]:
        spacing = self._spacing
        at = nodes(*self._box(spacing), spacing, "a mesh")
        surface, points = flat.subdivide(self.triangles(), 1.5 * spacing), at.points
        away = flat.nearest(points.reshape(-1, 3), surface, BAND * spacing).reshape(points.shape[:-1])
        return at, np.where(flat.crossings(self.triangles(), at) % 2 == 1, -away, away)


def _checked(vertices: Array, faces: Array) -> Array:
    """Triangles whose sides are all shared by two of them: a surface without holes."""
    if faces.ndim != 2 or faces.shape[1:] != (3,) or not len(faces):
        raise ShapeError(f"faces of a mesh: expected (m, 3) indices of vertices, got {faces.shape}")
    index = faces.astype(int)
    if (index != faces).any() or index.min() < 0 or index.max() >= len(vertices):
        raise ModelError(f"faces of a mesh: must be whole numbers from 0 to {len(vertices) - 1}, counted from 0")
    corners = vertices[index]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    if not (area > 0).all():
        raise ModelError(
            f"faces of a mesh: triangle {int(np.argmin(area))} has no area; remove it, or merge its corners"
        )
    sides = np.sort(np.concatenate([index[:, [0, 1]], index[:, [1, 2]], index[:, [2, 0]]]), axis=1)
    _, shared = np.unique(sides, axis=0, return_counts=True)
    if (shared == 1).any():
        raise ModelError(
            f"mesh: it has holes, {int((shared == 1).sum())} sides belong to one triangle alone, so it has no inside; "
            "close them, and merge vertices at the same place"
        )
    if (shared % 2).any():
        raise ModelError("mesh: three or five triangles share a side; remove the one inside, so that sides have two")
    return index
