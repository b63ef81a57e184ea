"""Ground of any form, as heights over a rectangle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, numbers
from stepmap.errors import ModelError, ShapeError
from stepmap.geometry.arithmetic import number
from stepmap.geometry.grids import triangles as flat
from stepmap.geometry.grids.grid import DistanceGrid, Nodes, cached, nodes
from stepmap.geometry.surfaces import sheet

BAND = 3.0  # spacings within which distances are exact at the nodes
LIKELY = 250_000  # nodes that a spacing of our own choice makes at most


@dataclass(frozen=True, eq=False)
class Heightmap:
    """Points below z(x, y) [m]: heights z (len(x), len(y)), between them two triangles per cell; beyond the edges the
    ground goes on as it is there.

    Distances are exact at the nodes of a grid near the ground and interpolated by cubic splines; ``spacing`` is the
    grid's, by default that of x and y.
    """

    x: ArrayLike
    y: ArrayLike
    z: ArrayLike
    spacing: float | None = None

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            object.__setattr__(self, name, _increasing(getattr(self, name), name))
        x, y, z = np.asarray(self.x), np.asarray(self.y), numbers(self.z, "z of a heightmap")
        if z.shape != (len(x), len(y)):
            raise ShapeError(f"z of a heightmap: expected (len(x), len(y)) = ({len(x)}, {len(y)}), got {z.shape}")
        if not np.isfinite(z).all():
            raise ModelError(f"z of a heightmap: entry {np.argwhere(~np.isfinite(z))[0].tolist()} is not finite")
        object.__setattr__(self, "z", z)
        if self.spacing is not None:
            object.__setattr__(self, "spacing", number(self.spacing, "spacing of a heightmap", above=0.0))
            nodes(*self._box(self._spacing), self._spacing, "a heightmap")

    def distance(self, point: Any) -> Any:
        """The signed distance from the ground, of an MX or of points (..., 3)."""
        return self.grid.distance(point)

    def triangles(self) -> Array:
        x, y = np.meshgrid(np.asarray(self.x), np.asarray(self.y), indexing="ij")
        return sheet(np.stack([x, y, np.asarray(self.z)], axis=-1))

    @cached_property
    def grid(self) -> DistanceGrid:
        """Distances and their spline, made at the first use and kept in the cache folder."""
        inputs = [np.asarray(part, dtype=float) for part in (self.x, self.y, self.z, self._spacing)]
        return cached("heightmap", inputs, self._filled)

    @property
    def _spacing(self) -> float:
        if self.spacing is not None:
            return self.spacing
        x, y = np.asarray(self.x), np.asarray(self.y)
        own = float(min(np.median(np.diff(x)), np.median(np.diff(y))))
        low, high = self._box(own)
        return max(own, float(((high - low).prod() / LIKELY) ** (1 / 3)))

    def _box(self, spacing: float) -> tuple[Array, Array]:
        """What the grid covers: the rectangle, from below the ground to above it."""
        x, y, z = (np.asarray(part) for part in (self.x, self.y, self.z))
        pad = max(4 * spacing, 0.25 * float(np.ptp(z)))
        return np.array([x[0], y[0], z.min() - pad]), np.array([x[-1], y[-1], z.max() + pad])

    def _filled(self) -> tuple[Nodes, Array]:
        spacing = self._spacing
        at = nodes(*self._box(spacing), spacing, "a heightmap")
        ground = flat.subdivide(self._wide(float(np.ptp(at.z))), 1.5 * spacing)
        points = at.points
        away = flat.nearest(points.reshape(-1, 3), ground, BAND * spacing).reshape(points.shape[:-1])
        return at, np.where(flat.crossings(ground, at) > 0, away, -away)

    def _wide(self, width: float) -> Array:
        """The ground with what it goes on as, ``width`` beyond each edge."""
        x, y = (np.pad(np.asarray(e), 1, mode="edge") + width * _ends(len(np.asarray(e))) for e in (self.x, self.y))
        heights = np.pad(np.asarray(self.z), 1, mode="edge")
        return sheet(np.stack([*np.meshgrid(x, y, indexing="ij"), heights], axis=-1))


def _ends(count: int) -> Array:
    out = np.zeros(count + 2)
    out[0], out[-1] = -1.0, 1.0
    return out


def _increasing(values: ArrayLike, name: str) -> Array:
    out = numbers(values, f"{name} of a heightmap")
    if out.ndim != 1 or len(out) < 2:
        raise ShapeError(f"{name} of a heightmap: expected two numbers or more, got shape {out.shape}")
    if not np.isfinite(out).all() or not (np.diff(out) > 0).all():
        raise ModelError(f"{name} of a heightmap: must be finite and increasing; sort it, and z with it")
    return out
