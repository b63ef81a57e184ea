"""The way from the places of a start to those of a dancer's first pose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array

STRAIGHT = 0.35  # rad: places that are turned by less are led along straight lines


@dataclass(frozen=True, eq=False)
class Lead:
    """From ``first`` (frames, 3) on, turned by ``angle`` about ``up`` on the way.

    Straight lines to a dancer who looks elsewhere would lead limbs through the trunk and shorten them.
    """

    first: Array
    angle: float
    up: Array

    @classmethod
    def between(cls, first: Array, last: Array, up: Array) -> Lead:
        """By the angle that brings the first places nearest to the last ones."""
        a, b = first - first.mean(axis=0), last - last.mean(axis=0)
        a, b = a - np.outer(a @ up, up), b - np.outer(b @ up, up)
        angle = float(np.arctan2(np.sum(np.cross(a, b) @ up), np.sum(a * b)))
        return cls(first, angle if abs(angle) > STRAIGHT else 0.0, up)

    def to(self, places: Array, parts: Array) -> Array:
        """Places (n, frames, 3) after parts of the way (n) to places (frames, 3), or to others each, (n, frames, 3)."""
        from scipy.spatial.transform import Rotation

        parts = np.asarray(parts, dtype=float)
        places = np.broadcast_to(places, (len(parts), *self.first.shape))
        centres, centre = places.mean(axis=1, keepdims=True), self.first.mean(axis=0)
        part = parts[:, None, None]
        back = Rotation.from_rotvec(-self.angle * self.up).apply((places - centres).reshape(-1, 3))
        mixed = (1 - part) * (self.first - centre) + part * back.reshape(places.shape)
        turns = Rotation.from_rotvec(np.outer(parts * self.angle, self.up)).as_matrix()
        turned = np.einsum("nij,nfj->nfi", turns, mixed)
        out: Array = (1 - part) * centre + part * centres + turned
        return out
