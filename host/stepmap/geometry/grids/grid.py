"""A signed distance on a regular grid with its cubic spline: what heightmaps and meshes are to a search.

Coefficients are data and never code: as constants of a C file, those of a canyon take a compiler 17 s.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.geometry.arithmetic import components, symbolic
from stepmap.geometry.grids import spline
from stepmap.graph import cache

MOST = 4_000_000  # nodes


class Jets(NamedTuple):
    """A function's value, slope and second derivative at K points."""

    value: Array  # (K)
    slope: Array  # (K, 3)
    bend: Array  # (K, 3, 3)


@dataclass(frozen=True, eq=False)
class DistanceGrid:
    """Distances [m] at nodes ``origin`` + ``spacing`` (i, j, k); between them a natural cubic spline."""

    origin: Array  # (3)
    spacing: float
    coefficients: Array  # (nodes + 2 in each axis)

    def distance(self, point: Any) -> Any:
        """The spline at points (..., 3), or as an expression of an MX."""
        if isinstance(point, ca.SX):
            raise ModelError(
                "a distance grid has no SX expression: its coefficients are data; give an MX, or expansions at points"
            )
        if symbolic(point):
            return self._expression(point)
        points = np.stack(components(point), axis=-1)
        found = spline.expand(self.coefficients, self._units(points), 1)
        return found.reshape(points.shape[:-1])

    def jets(self, points: Array) -> Jets:
        """Value, slope and second derivative at points (K, 3)."""
        found, h = spline.expand(self.coefficients, self._units(points), spline.ORDERS), self.spacing
        slope = np.stack([found[:, 1, 0, 0], found[:, 0, 1, 0], found[:, 0, 0, 1]], axis=1) / h
        xx, yy, zz = found[:, 2, 0, 0], found[:, 0, 2, 0], found[:, 0, 0, 2]
        xy, xz, yz = found[:, 1, 1, 0], found[:, 1, 0, 1], found[:, 0, 1, 1]
        bend = np.stack([xx, xy, xz, xy, yy, yz, xz, yz, zz], axis=1).reshape(-1, 3, 3) / h**2
        return Jets(found[:, 0, 0, 0], slope, bend)

    def _units(self, points: Array) -> Array:
        out: Array = (points.reshape(-1, 3) - self.origin) / self.spacing
        return out

    def _expression(self, point: ca.MX) -> ca.MX:
        """The four splines per axis that are not zero at the point, with their coefficients looked up as data.

        Not ca.bspline: its derivatives beyond the third order in one axis, which a straight continuation needs
        beside second derivatives, end the process.
        """
        n, m, _ = self.coefficients.shape
        index, weights = [], []
        for e, origin, count in zip(components(point), self.origin, self.coefficients.shape, strict=True):
            first, four = spline.basis((e - origin) / self.spacing, count - 2)
            index.append([first + i for i in range(4)])
            weights.append(four)
        places = [i + n * (j + m * k) for k in index[2] for j in index[1] for i in index[0]]
        c = ca.reshape(ca.MX(ca.DM(self.coefficients.ravel(order="F")))[ca.vertcat(*places)], 16, 4)
        along_z = ca.reshape(c @ ca.vertcat(*weights[2]), 4, 4)
        return ca.dot(ca.vertcat(*weights[0]), along_z @ ca.vertcat(*weights[1]))


class Nodes(NamedTuple):
    """Coordinates of a regular grid's nodes in each axis."""

    x: Array
    y: Array
    z: Array
    spacing: float

    @property
    def points(self) -> Array:
        """(n, m, l, 3)"""
        return np.stack(np.meshgrid(self.x, self.y, self.z, indexing="ij"), axis=-1)


def nodes(low: Array, high: Array, spacing: float, what: str) -> Nodes:
    """A grid that covers a box, at least four nodes in each axis."""
    counts = np.maximum(np.ceil((high - low) / spacing - 1e-9).astype(int) + 1, 4)
    if counts.astype(float).prod() > MOST:
        raise ModelError(
            f"spacing of {what}: {spacing:g} m makes a grid of {' x '.join(map(str, counts))} nodes, more than "
            f"{MOST}; give a greater one"
        )
    middle = (low + high) / 2
    x, y, z = (m + spacing * (np.arange(n) - (n - 1) / 2) for m, n in zip(middle, counts, strict=True))
    return Nodes(x, y, z, spacing)


def cached(kind: str, inputs: Iterable[Array], make: Callable[[], tuple[Nodes, Array]]) -> DistanceGrid:
    """The grid that ``make`` would fill, from the cache folder where the same inputs filled one before."""
    total = hashlib.sha256(kind.encode())
    for given in inputs:
        total.update(repr(given.shape).encode() + np.ascontiguousarray(given, dtype=float).tobytes())
    for source in sorted(Path(__file__).parent.parent.rglob("*.py")):
        total.update(source.read_bytes())
    path = cache.folder() / f"grid-{total.hexdigest()[:32]}.npz"
    content = cache.content(path)
    if content is None:
        with cache.only_one(path):
            at, distances = make()
            packed = io.BytesIO()
            origin = np.array([at.x[0], at.y[0], at.z[0]])
            np.savez(packed, origin=origin, spacing=at.spacing, coefficients=spline.coefficients(distances))
            cache.publish_bytes(packed.getvalue(), path)
            content = packed.getvalue()
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return DistanceGrid(stored["origin"], float(stored["spacing"]), stored["coefficients"])
