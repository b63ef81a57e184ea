"""Solids that rays hit and that stand in the projector's light, all in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stepmap.arrays import Array
from stepmap_hil.depth.camera import Camera
from stepmap_hil.depth.scene import Box

TOUCH = 1e-6  # part of the way to the projector within which a surface does not shade itself


@dataclass(frozen=True, eq=False)
class Rays:
    """From one point in many directions; the direction's length is such that its multiples are depths.

    Vectors are columns here, (3, n): sums over three rows are several times faster than over three columns.
    """

    origin: Array  # (3, 1)
    direction: Array  # (3, n)

    def at(self, t: Array) -> Array:
        return np.asarray(self.origin + t * self.direction)


class Solid(Protocol):
    """Something a ray can hit."""

    def hit(self, rays: Rays) -> tuple[Array, Array]:
        """Depth of the first hit (n,), inf without one, and the cosine of the angle between ray and normal (n,)."""

    def shades(self, points: Array, light: Array) -> Array:
        """Whether it stands between points (3, n) and the light (3, 1)."""

    def outline(self, camera: Camera) -> Array:
        """Points in camera axes whose box in the image holds the solid (m, 3)."""


def _dot(a: Array, b: Array) -> Array:
    return np.asarray(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


@dataclass(frozen=True, eq=False)
class Ball:
    center: Array
    radius: float

    def hit(self, rays: Rays) -> tuple[Array, Array]:
        a, half, root = self._crossing(rays.origin, rays.direction)
        seen = root > 0
        root = np.sqrt(np.where(seen, root, 0.0))
        t = np.where(seen, -(half + root) / a, np.inf)
        return np.where(t > 0, t, np.inf), root / (self.radius * np.sqrt(a))

    def shades(self, points: Array, light: Array) -> Array:
        a, half, root = self._crossing(points, light - points)
        leave = (-half + np.sqrt(np.maximum(root, 0.0))) / a
        return np.asarray((root > 0) & (leave > TOUCH) & (half + a > 0))

    def outline(self, camera: Camera) -> Array:
        return camera.to_camera(self.center) + self.radius * 1.05 * (np.mgrid[0:2, 0:2, 0:2].reshape(3, 8).T * 2.0 - 1)

    def _crossing(self, start: Array, way: Array) -> tuple[Array, Array, Array]:
        """a, half and half² − a c of a t² + 2 half t + c = 0, where start + t way crosses the surface."""
        start = start - self.center[:, None]
        a, half = _dot(way, way), _dot(start, way)
        return a, half, half * half - a * (_dot(start, start) - self.radius**2)


@dataclass(frozen=True, eq=False)
class Block:
    box: Box

    def hit(self, rays: Rays) -> tuple[Array, Array]:
        entries, leave = self._slabs(rays.origin, rays.direction)
        enter = np.maximum(np.maximum(entries[0], entries[1]), entries[2])
        along = np.where(entries[0] == enter, rays.direction[0], rays.direction[1])  # through which face it enters
        along = np.where(entries[2] == enter, rays.direction[2], along)
        t = np.where((enter < leave) & (enter > 0), enter, np.inf)
        return t, np.abs(along) / np.sqrt(_dot(rays.direction, rays.direction))

    def shades(self, points: Array, light: Array) -> Array:
        entries, leave = self._slabs(points, light - points)
        enter = np.maximum(np.maximum(entries[0], entries[1]), entries[2])
        return np.asarray((enter < leave) & (leave > TOUCH) & (enter < 1))

    def outline(self, camera: Camera) -> Array:
        return camera.to_camera(self.box.corners)

    def _slabs(self, start: Array, way: Array) -> tuple[Array, Array]:
        """Where start + t way enters the box along each axis, and where it leaves it."""
        over = 1 / np.where(np.abs(way) < 1e-12, 1e-12, way)
        one, other = (self.box.low[:, None] - start) * over, (self.box.high[:, None] - start) * over
        exits = np.maximum(one, other)
        return np.minimum(one, other), np.minimum(np.minimum(exits[0], exits[1]), exits[2])


@dataclass(frozen=True, eq=False)
class String:
    """A thin cylinder between two points; it throws no shadow."""

    start: Array
    end: Array
    radius: float

    def hit(self, rays: Rays) -> tuple[Array, Array]:
        length = float(np.linalg.norm(self.end - self.start))
        e = (self.end - self.start) / max(length, 1e-12)
        offset, d = self.start - rays.origin[:, 0], rays.direction
        d_d, d_e, d_o, o_e = _dot(d, d), _dot(d, e), _dot(d, offset), float(offset @ e)
        square = np.maximum(d_d - d_e * d_e, 1e-12)  # |d|² sin² of the angle between ray and string
        closest = (d_o - d_e * o_e) / square
        along = d_e * closest - o_e
        gap = closest * d - offset[:, None] - along * e[:, None]
        inside = self.radius**2 - _dot(gap, gap)
        met = (inside > 0) & (along > 0) & (along < length)
        inside = np.sqrt(np.maximum(inside, 0.0))
        t = closest - inside / np.sqrt(square)
        return np.where(met & (t > 0), t, np.inf), inside / self.radius * np.sqrt(square / d_d)

    def shades(self, points: Array, light: Array) -> Array:
        return np.zeros(points.shape[1], dtype=bool)

    def outline(self, camera: Camera) -> Array:
        return camera.to_camera(np.array([self.start, self.end]))


@dataclass(frozen=True, eq=False)
class Wall:
    """The plane z = depth, seen from larger z."""

    depth: float

    def hit(self, rays: Rays) -> tuple[Array, Array]:
        down = rays.direction[2]
        ahead = down < -1e-9
        t = np.where(ahead, (self.depth - rays.origin[2]) / np.where(ahead, down, 1.0), np.inf)
        return np.where(t > 0, t, np.inf), np.abs(down) / np.sqrt(_dot(rays.direction, rays.direction))

    def shades(self, points: Array, light: Array) -> Array:
        return np.zeros(points.shape[1], dtype=bool)

    def outline(self, camera: Camera) -> Array:
        raise NotImplementedError("a wall does not move")


@dataclass(frozen=True, eq=False)
class Surface:
    """What rays hit: depth [m], inf for nothing; angle to the normal [rad]; whether the projector lights it."""

    depth: Array
    angle: Array
    lit: Array


def cast(
    rays: Rays,
    solids: Sequence[Solid],
    light: Array,
    behind: Surface | None = None,
    near: Sequence[Array | slice] | None = None,
) -> Surface:
    """The nearest surface on each ray, among solids and what is ``behind``.

    ``near`` tells for each solid which rays can meet it or its shadow, all without it.
    """
    n = rays.direction.shape[1]
    if behind is None:
        behind = Surface(np.full(n, np.inf), np.zeros(n), np.ones(n, dtype=bool))
    depth, angle, lit = behind.depth.copy(), behind.angle.copy(), behind.lit.copy()
    parts = near or [slice(None)] * len(solids)
    for solid, part in zip(solids, parts, strict=True):
        t, cosine = solid.hit(Rays(rays.origin, rays.direction[:, part]))
        nearer = t < depth[part]
        depth[part] = np.where(nearer, t, depth[part])
        angle[part] = np.where(nearer, np.arccos(np.minimum(cosine, 1.0)), angle[part])
        lit[part] |= nearer
    lit &= np.isfinite(depth)
    points = rays.at(np.where(lit, depth, 1.0))
    for solid, part in zip(solids, parts, strict=True):
        lit[part] &= ~solid.shades(points[:, part], light)
    return Surface(depth, angle, lit)
