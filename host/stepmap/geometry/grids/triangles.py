"""Exact distances of points from triangles, and which side of a surface they are on."""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.geometry.grids.grid import Nodes

PAIRS = 1 << 18  # of point and triangle, worked on at once
MOST = 2_000_000  # triangles of a surface; they take 0.5 kB each while distances are found
FIRST, FAR = 16, 8  # triangles tried per point: at first, and for points that are far away


def distance(points: Array, triangles: Array) -> Array:
    """The distance (K) of each point (K, 3) from its triangle (K, 3, 3): from its plane where the foot of the
    perpendicular is within, else from the nearest side."""
    a, b, c = np.moveaxis(triangles, 1, 0)
    squared = np.minimum(np.minimum(_to_side(points, a, b), _to_side(points, b, c)), _to_side(points, c, a))
    ab, ac, ap = b - a, c - a, points - a
    normal = np.cross(ab, ac)
    area = _dot(normal, normal)
    v = _dot(np.cross(ap, ac), normal)
    w = _dot(np.cross(ab, ap), normal)
    within = (v >= 0) & (w >= 0) & (v + w <= area)
    over = _dot(ap, normal) ** 2 / np.maximum(area, 1e-300)
    out: Array = np.sqrt(np.where(within, np.minimum(over, squared), squared))
    return out


def _to_side(p: Array, a: Array, b: Array) -> Array:
    along, off = b - a, p - a
    t = np.clip(_dot(off, along) / np.maximum(_dot(along, along), 1e-300), 0.0, 1.0)
    left = off - t[:, None] * along
    return _dot(left, left)


def _dot(a: Array, b: Array) -> Array:
    out: Array = np.einsum("ki,ki->k", a, b)
    return out


def subdivide(triangles: Array, longest: float) -> Array:
    """The same surface from triangles with sides of ``longest`` at most: the longest one is halved, again and again."""
    done, count = [], 0
    while len(triangles):
        if count + len(triangles) > MOST:
            raise ModelError(
                f"a surface makes more than {MOST} triangles with sides of {longest:g} m; give a greater spacing"
            )
        sides = np.linalg.norm(triangles - np.roll(triangles, -1, axis=1), axis=2)
        short = sides.max(axis=1) <= longest
        done.append(triangles[short])
        count += len(done[-1])
        left, at = triangles[~short], sides[~short].argmax(axis=1)
        k = np.arange(len(left))
        a, b, c = left[k, at], left[k, (at + 1) % 3], left[k, (at + 2) % 3]
        middle = (a + b) / 2
        triangles = np.concatenate([np.stack([a, middle, c], axis=1), np.stack([middle, b, c], axis=1)])
    return np.concatenate(done)


def nearest(points: Array, triangles: Array, band: float) -> Array:
    """Distances (K) of points (K, 3) from a surface of small triangles: exact up to ``band``, beyond it too large by
    about r²/2d, r the radius of a triangle and d the distance.

    The surface is no further than the nearest centroid, so only triangles whose centroid is within that and the largest
    radius of a triangle can be nearest; as many are tried as it takes to have them all.
    """
    from scipy.spatial import cKDTree  # takes a while to load

    centroids = triangles.mean(axis=1)
    radius = float(np.linalg.norm(triangles - centroids[:, None], axis=2).max())
    tree = cKDTree(centroids)
    best: Array = tree.query(points)[0]
    reach = best + radius
    near = best <= band + radius
    _try(best, np.flatnonzero(~near), tree, points, triangles, min(FAR, len(triangles)))
    open_, count = np.flatnonzero(near), min(FIRST, len(triangles))
    while len(open_):
        furthest = _try(best, open_, tree, points, triangles, count)
        if count == len(triangles):
            break
        open_, count = open_[furthest < reach[open_]], min(2 * count, len(triangles))
    return best


def _try(best: Array, chosen: Array, tree: object, points: Array, triangles: Array, count: int) -> Array:
    """Lowers ``best`` of the chosen points to their ``count`` nearest triangles; how far the last centroid was."""
    furthest = np.zeros(len(chosen))
    for start in range(0, len(chosen), max(1, PAIRS // count)):
        part = slice(start, start + max(1, PAIRS // count))
        at = chosen[part]
        away, which = tree.query(points[at], k=[*range(1, count + 1)])  # type: ignore[attr-defined]
        furthest[part] = away[:, -1]
        found = distance(np.repeat(points[at], count, axis=0), triangles[which.ravel()])
        best[at] = np.minimum(best[at], found.reshape(-1, count).min(axis=1))
    return furthest


def crossings(triangles: Array, at: Nodes) -> Array:
    """How often a ray from each node straight down goes through the surface, (n, m, l).

    Rays stand a millionth of the spacing beside the nodes, so that none goes through a side or a corner.
    """
    x, y = at.x + 1.3e-6 * at.spacing, at.y + 0.7e-6 * at.spacing
    low, high = triangles.min(axis=1), triangles.max(axis=1)
    first = np.stack([np.searchsorted(x, low[:, 0]), np.searchsorted(y, low[:, 1])], axis=1)
    last = np.stack([np.searchsorted(x, high[:, 0]), np.searchsorted(y, high[:, 1])], axis=1)
    across = np.maximum(last - first, 0)
    count = across.prod(axis=1)
    which = np.repeat(np.arange(len(triangles)), count)
    within = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    i = first[which, 0] + within // np.maximum(across[which, 1], 1)
    j = first[which, 1] + within % np.maximum(across[which, 1], 1)
    a, b, c = np.moveaxis(triangles[which], 1, 0)
    p = np.stack([x[i], y[j]], axis=1)
    weights = np.stack([_area(p, b, c), _area(p, c, a), _area(p, a, b)], axis=1)
    through = (weights > 0).all(axis=1) | (weights < 0).all(axis=1)
    shares = weights[through] / weights[through].sum(axis=1, keepdims=True)
    z = _dot(shares, triangles[which][through][:, :, 2])
    above = np.zeros((len(at.x), len(at.y), len(at.z) + 1), dtype=int)
    np.add.at(above, (i[through], j[through], np.searchsorted(at.z, z)), 1)
    out: Array = above.cumsum(axis=2)[:, :, :-1]
    return out


def _area(p: Array, a: Array, b: Array) -> Array:
    out: Array = (a[:, 0] - p[:, 0]) * (b[:, 1] - p[:, 1]) - (a[:, 1] - p[:, 1]) * (b[:, 0] - p[:, 0])
    return out
