"""Clearances of moving parts from obstacles: rows that are not negative where there is room.

A part is a ball or a capsule on frames of a mechanism. Its probe points are expressions of the pose; a row is the
distance of an obstacle from one of them, or from the segment between two, less radius and margin. Distance grids have
no SX expression, so rows of theirs are second-order expansions about the present points, which come as data: value,
slope and second derivative of a row are then exact at these points.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, rows
from stepmap.geometry.probes import Part, Probes
from stepmap.geometry.rows import EXPANSION, PointRow, expansions, rows_of
from stepmap.geometry.shape import Gridded, Shape
from stepmap.mechanics.system import System


class Clearances:
    """Clearances of a system's parts, ``count`` rows [m], for expressions and for many poses at once."""

    def __init__(
        self, system: System, frame: str | tuple[str, str], parts: Sequence[Part], world: Sequence[Shape], margin: float
    ) -> None:
        self.system, self.margin, probes = system, margin, Probes(system)
        made = [probes.part(frame, part) for part in parts]
        pairs = [(shape, row) for part in made for shape in world for row in rows_of(part, shape)]
        self.rows = [row for _, row in pairs]
        where = frame if isinstance(frame, str) else " to ".join(frame)
        self.labels = tuple(f"clearance of {where} from the {_words(type(s).__name__)}" for s, _ in pairs)
        self._gridded = [r for r in self.rows if isinstance(r, PointRow) and isinstance(r.shape, Gridded)]
        e = system.expressions
        self.points = ca.Function("points", [e.q, e.parameters], [ca.densify(ca.horzcat(*probes.points))])

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def data_size(self) -> int:
        """Numbers per pose that ``expression`` needs beside the points; 0 where no obstacle has a grid."""
        return EXPANSION * len(self._gridded)

    def evaluate(self, poses: ArrayLike) -> Array:
        """The rows (..., count) [m] at poses q̄ (..., n): distances less radii and margin; 0 or more is clear."""
        q = rows(poses, int(self.points.size1_in(0)), "pose")
        flat = self.probes(q.reshape(-1, q.shape[-1])).reshape(-1, int(self.points.size2_out(0)), 3)
        places = np.moveaxis(flat, 1, 0)
        found = np.stack([row.value(places) for row in self.rows], axis=-1) - self.margin
        return found.reshape(*q.shape[:-1], self.count)

    def clear(self, poses: ArrayLike) -> Array:
        """Whether all rows are 0 or more, (...), at poses q̄ (..., n)."""
        return np.asarray((self.evaluate(poses) >= 0).all(axis=-1))

    def expression(self, points: ca.SX, data: ca.SX) -> ca.SX:
        """The rows as an expression of probe points (3, m), as ``points`` makes them, and of their ``expansions``."""
        columns = [points[:, i] for i in range(points.shape[1])]
        made, at = [], 0
        for row in self.rows:
            if isinstance(row, PointRow) and isinstance(row.shape, Gridded):
                made.append(row.expanded(columns, data[at : at + EXPANSION]))
                at += EXPANSION
            else:
                made.append(row.value(columns))
        out: ca.SX = ca.vertcat(*made) - self.margin
        return out

    def expansions(self, points: Array) -> Array:
        """Data (K, data_size) that makes ``expression`` exact to second order at probe points (K, 3 m)."""
        made = np.zeros((len(points), len(self._gridded), EXPANSION))
        places = points.reshape(len(points), -1, 3)
        for shape in {id(row.shape): row.shape for row in self._gridded}.values():
            own = [i for i, row in enumerate(self._gridded) if row.shape is shape]
            at = places[:, [self._gridded[i].at for i in own]]
            made[:, own] = expansions(shape, at.reshape(-1, 3)).reshape(len(points), len(own), EXPANSION)
        return made.reshape(len(points), self.data_size)

    def callback(self, count: int) -> ca.Function:
        """``expansions`` as a CasADi function: probe points (3 m, count) of poses to data (data_size, count)."""
        return Expansions(self, count)

    def probes(self, poses: Array) -> Array:
        """Probe points (K, 3 m) of poses (K, n)."""
        flat = np.asarray(self.points(poses.T, self.system.parameter_values))  # (3, m K): one pose after the other
        out: Array = np.ascontiguousarray(flat.T).reshape(len(poses), -1)
        return out


def _words(name: str) -> str:
    """HalfSpace as "half-space"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


class Expansions(ca.Callback):
    """Clearances.expansions for graphs of CasADi; it has no derivatives, since what it gives are derivatives."""

    def __init__(self, clearances: Clearances, count: int) -> None:
        ca.Callback.__init__(self)
        self.clearances, self.count = clearances, count
        self._last: tuple[Array, ca.DM] | None = None
        self.construct("expansions", {})

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(self.clearances.points.numel_out(0), self.count)

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(self.clearances.data_size, self.count)

    def eval(self, arg: Sequence[Any]) -> list[ca.DM]:
        points = np.ascontiguousarray(np.asarray(arg[0]).T)
        # A solver asks at one iterate for rows, slopes and second derivatives, one after the other.
        if self._last is None or not np.array_equal(points, self._last[0]):
            self._last = points, ca.DM(self.clearances.expansions(points).T)
        return [self._last[1]]
