"""Depth frames of a scene as a Kinect would send them: 640x480 counts of disparity, 2047 where it sees nothing.

Every pixel casts one ray. What does not move is cast once; a frame casts again only where something moves or throws a
shadow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from stepmap.arrays import Array, vector
from stepmap_hil.depth.camera import HEIGHT, NO_DATA, WIDTH, Camera
from stepmap_hil.depth.noise import STEEP, Noise, axial, lateral, normal, patches
from stepmap_hil.depth.scene import Box, Scene
from stepmap_hil.depth.solids import Ball, Block, Rays, Solid, String, Surface, Wall, cast

REACH = 4
"""Pixels around an outline that lateral noise can change: 4 standard deviations, rounded up."""
SILENT = 4000.0  # counts that stand for no data; finite, so that noise can be added everywhere
CHUNK = 16384  # pixels that are cast at a time
BLIND = 8
"""Columns at the right that a Kinect never fills: the window it correlates does not fit there."""


@dataclass(frozen=True, eq=False)
class _Part:
    """A solid, the rows and columns where it or its shadow may be seen, and the pixels that have to be cast for it."""

    solid: Solid
    rows: tuple[int, int]
    columns: tuple[int, int]
    pixels: Array

    @classmethod
    def window(cls, solid: Solid, rows: tuple[int, int], columns: tuple[int, int]) -> _Part:
        return cls(solid, rows, columns, (np.arange(*rows)[:, None] * WIDTH + np.arange(*columns)).ravel())

    def near(self, u: Array, v: Array) -> Array:
        """Which of these pixels are within."""
        (top, bottom), (left, right) = self.rows, self.columns
        return np.flatnonzero((v >= top) & (v < bottom) & (u >= left) & (u < right))


@dataclass(frozen=True, eq=False)
class Renderer:
    """Frames of a scene. A frame depends on its arguments and the seed alone."""

    camera: Camera = field(default_factory=Camera)
    scene: Scene = field(default_factory=Scene)
    noise: Noise = field(default_factory=Noise)
    seed: int = 0

    def render(
        self,
        ball: Any = None,
        robot: Any = None,
        *,
        occluders: Sequence[Box] = (),
        also: Sequence[Solid] = (),
        number: int = 0,
    ) -> Array:
        """The frame of that number (480, 640), with the ball and the robot at these points, or without them.

        The string hangs between them if both are there. ``occluders`` are boxes that are not part of the background,
        ``also`` what else moves, such as more balls.
        """
        rng = np.random.Generator(np.random.SFC64([self.seed, number]))
        counts, sigma = self._still(rng)
        parts = [self._part(solid) for solid in (*self._moving(ball, robot, occluders), *also)]
        if parts:
            where = np.concatenate([part.pixels for part in parts])
            surface = self._seen(where, parts, rng)
            counts.flat[where], sigma.flat[where] = self._counts(surface, rng)
        return self._digital(counts, sigma, rng)

    def empty(self, frames: int = 30) -> list[Array]:
        """Frames of the scene before the robot and the ball are brought in."""
        return [self.render(number=-1 - k & 0xFFFFFFFF) for k in range(frames)]

    # What stays

    @cached_property
    def _background(self) -> Surface:
        v, u = np.divmod(np.arange(HEIGHT * WIDTH), WIDTH)
        return cast(self._rays(u, v), [Wall(self.scene.wall), *map(Block, self.scene.fixtures)], self._light)

    @property
    def _light(self) -> Array:
        return self.camera.projector[:, None]

    def _rays(self, u: Array, v: Array) -> Rays:
        return Rays(self.camera.eye[:, None], self.camera.turn @ self.camera.rays(u, v).T)

    @cached_property
    def _background_counts(self) -> tuple[Array, Array]:
        """Counts and their noise, float32, of every pixel of the background."""
        counts, sigma = self._counts(self._background, None)
        return counts.astype(np.float32), sigma.astype(np.float32)

    @cached_property
    def _edges(self) -> Array:
        """Pixels of the background that lateral noise can change."""
        counts = self._background_counts[0].reshape(HEIGHT, WIDTH)
        low, high = counts.copy(), counts.copy()
        for axis in (0, 1):
            views = [np.roll(a, k, axis) for k in range(-REACH, REACH + 1) for a in (low, high)]
            low, high = np.minimum.reduce(views), np.maximum.reduce(views)
        return np.flatnonzero(high - low > 8 * REACH)

    def _still(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Counts and their noise of the background, its edges frayed."""
        counts, sigma = (a.copy() for a in self._background_counts)
        if self.noise.lateral:
            shift = self._shifts(self._edges, rng) * (0.8 * self.noise.lateral)
            source = self._beside(self._edges, shift)
            counts[self._edges], sigma[self._edges] = (a[source] for a in self._background_counts)
        return counts.reshape(HEIGHT, WIDTH), sigma.reshape(HEIGHT, WIDTH)

    def _shifts(self, where: Array, rng: np.random.Generator) -> Array:
        """Normal numbers (2, pixels): by how much each looks aside."""
        if self.noise.window == 1:
            return normal(rng, 2, len(where))
        fields = [patches(rng, HEIGHT, WIDTH, self.noise.window).ravel() for _ in range(2)]
        return np.stack([field[where] for field in fields])

    @staticmethod
    def _beside(where: Array, shift: Array) -> Array:
        """The pixels that lie next to these by so many columns and rows."""
        v, u = np.divmod(where, WIDTH)
        u = np.clip(np.rint(u + shift[0]), 0, WIDTH - 1).astype(np.intp)
        v = np.clip(np.rint(v + shift[1]), 0, HEIGHT - 1).astype(np.intp)
        return np.asarray(v * WIDTH + u)

    # What moves

    def _moving(self, ball: Any, robot: Any, occluders: Sequence[Box]) -> list[Solid]:
        solids: list[Solid] = [Block(box) for box in occluders]
        if ball is not None:
            ball = vector(ball, 3, "ball")
            solids.append(Ball(ball, self.scene.radius))
        if robot is not None:
            robot = vector(robot, 3, "robot")
            solids.append(Block(self.scene.robot(robot)))
        if ball is not None and robot is not None:
            solids.append(String(robot, ball, self.scene.string))
        return solids

    def _part(self, solid: Solid) -> _Part:
        outline = self.camera.pixels(solid.outline(self.camera))
        nearest = float(outline[:, 2].min())
        if nearest < 0.1:  # around the camera, or behind it
            return _Part.window(solid, (0, HEIGHT), (0, WIDTH if outline[:, 2].max() > 0 else 0))
        shadow = self.camera.fx * self.camera.baseline * (1 / nearest - 1 / self.camera.far)
        low, high = outline.min(axis=0), outline.max(axis=0)
        columns = _span(low[0] - max(shadow, 0.0), high[0] - min(shadow, 0.0), WIDTH)
        part = _Part.window(solid, _span(low[1], high[1], HEIGHT), columns)
        if isinstance(solid, String):
            return replace(part, pixels=_band(outline, REACH + self.camera.fx * solid.radius / nearest))
        return part

    def _seen(self, where: Array, parts: Sequence[_Part], rng: np.random.Generator) -> Surface:
        """What these pixels see, each along a ray that lateral noise has moved."""
        shift = self._shifts(where, rng) * (lateral(0.0) * self.noise.lateral)
        seen = self._look(where, shift, parts)
        more = lateral(seen.angle) / lateral(0.0)
        steep = np.flatnonzero(more > 1.02) if self.noise.lateral else np.arange(0)
        if len(steep):  # there the noise depends on the angle, which only the first look told
            again = self._look(where[steep], shift[:, steep] * more[steep], parts)
            for old, new in ((seen.depth, again.depth), (seen.angle, again.angle), (seen.lit, again.lit)):
                old[steep] = new
        return seen

    def _look(self, where: Array, shift: Array, parts: Sequence[_Part]) -> Surface:
        """What pixels see, so many at a time that the arrays stay in the cache: half the time for large solids."""
        some = [slice(k, k + CHUNK) for k in range(0, max(len(where), 1), CHUNK)]
        seen = [self._look_at(where[part], shift[:, part], parts) for part in some]
        depth, angle, lit = (np.concatenate([getattr(s, name) for s in seen]) for name in ("depth", "angle", "lit"))
        return Surface(depth, angle, lit)

    def _look_at(self, where: Array, shift: Array, parts: Sequence[_Part]) -> Surface:
        v, u = np.divmod(where, WIDTH)
        source, still = self._beside(where, shift), self._background
        behind = Surface(still.depth[source], still.angle[source], still.lit[source])
        rays = self._rays(u + shift[0], v + shift[1])
        return cast(rays, [part.solid for part in parts], self._light, behind, [part.near(u, v) for part in parts])

    # From metres to counts

    def _counts(self, surface: Surface, rng: np.random.Generator | None) -> tuple[Array, Array]:
        """Counts of a surface and the standard deviation of what is still to be added to them.

        The published σ holds all that is wrong with a count that was sent. What rounding adds to it later, 1/12 count²,
        and what rays that lateral noise has moved (those of a frame, with ``rng``) added before, is taken off.
        """
        gone = ~surface.lit | ~(surface.depth < self.camera.far)
        share = self.noise.missing(surface.angle)
        gone |= share > (0.5 if rng is None else rng.random(len(share)))
        z = np.where(gone, 1.0, surface.depth)
        variance = np.square(self.noise.axial * axial(z, surface.angle) / self.camera.step(z)) - 1 / 12
        if rng is not None:
            aside = self.noise.lateral * lateral(surface.angle) * np.tan(np.minimum(surface.angle, STEEP))
            variance -= np.square(aside * z / (self.camera.fx * self.camera.step(z)))
        sigma = np.sqrt(np.maximum(variance, 0.0))
        return np.where(gone, SILENT, self.camera.count(z)), np.where(gone, 0.0, sigma)

    def _digital(self, counts: Array, sigma: Array, rng: np.random.Generator) -> Array:
        if self.noise.axial:
            sigma *= patches(rng, HEIGHT, WIDTH, self.noise.window)
            counts += sigma
        np.rint(counts, out=counts)
        out = np.asarray(counts.astype(np.uint16))
        low, high = self.camera.nearest, self.camera.farthest
        np.putmask(out, out - np.uint16(low) > high - low, NO_DATA)  # what is below low wraps around
        out[:, -BLIND:] = NO_DATA
        if self.noise.dropout:
            lost = rng.binomial(out.size, self.noise.dropout)
            out.flat[rng.integers(0, out.size, size=lost)] = NO_DATA
        return out


def _span(low: float, high: float, size: int) -> tuple[int, int]:
    """Whole pixels from low to high and what noise can reach, within the image."""
    return int(np.clip(low - REACH, 0, size)), int(np.clip(high + REACH + 2, 0, size))


def _band(ends: Array, half: float) -> Array:
    """Pixels within ``half`` of the line between two points of the image, counted along its steeper axis."""
    steep = int(abs(ends[1, 1] - ends[0, 1]) >= abs(ends[1, 0] - ends[0, 0]))  # the axis it runs along
    size = (WIDTH, HEIGHT)
    along = np.arange(*_span(float(ends[:, steep].min()), float(ends[:, steep].max()), size[steep]))
    run = ends[1, steep] - ends[0, steep]
    slope = (ends[1, 1 - steep] - ends[0, 1 - steep]) / run if run else 0.0
    middle = ends[0, 1 - steep] + slope * (along - ends[0, steep])
    reach = int(np.ceil(half * np.hypot(1.0, slope)))
    across = np.rint(middle).astype(np.intp)[:, None] + np.arange(-reach, reach + 1)
    inside = (across >= 0) & (across < size[1 - steep])
    u, v = (across, along[:, None]) if steep else (along[:, None], across)
    return np.asarray(np.broadcast_to(v * WIDTH + u, inside.shape)[inside])
