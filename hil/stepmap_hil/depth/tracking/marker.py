"""The place of the robot, from the flat face it turns toward the camera; the face is normal to the world's z axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap_hil.depth.camera import Camera
from stepmap_hil.depth.noise import axial, lateral
from stepmap_hil.depth.scene import Scene, Triple
from stepmap_hil.depth.tracking.segment import CELL, Cluster

FLAT = 3.0  # standard deviations that the face's points may lie before or behind it
FIT = 0.15  # part by which the face may seem too wide or too high
FILLED = 0.8  # share of the face that must be seen
EDGE = 0.001  # m that an edge may be off for other reasons than noise
WINDOW = 9  # pixels a side that err together
STRIP = 0.018  # m on both sides of an edge that are looked at
SYSTEMATIC = 0.0005  # m that no number of points removes


@dataclass(frozen=True, eq=False)
class Face:
    """The face found: its middle in the world, and the variance of each coordinate."""

    center: Array
    variance: Array


@dataclass(frozen=True)
class _End:
    place: float
    variance: float


@dataclass(frozen=True, eq=False)
class _View:
    """Pixels of a window, cast onto the plane of the face."""

    plane: Array  # (n, 2) world x, y
    on: Array  # (n,) whether the pixel's point lies in the plane
    level: float  # world z of the plane
    eye: Array
    pitch: float  # m between pixels
    tolerance: float  # m before or behind the plane that count as on it


def find(frame: Array, foreground: Array, cluster: Cluster, camera: Camera, scene: Scene) -> Face | None:
    """The face that a cluster shows, or None if it shows none."""
    z = float(np.interp(cluster.count, np.arange(len(camera.metres)), camera.metres))
    if not z > 0:
        return None
    pixels = camera.fx * camera.fy * scene.box[0] * scene.box[1] / z**2
    if not 0.5 * pixels < cluster.cells * CELL**2 < 3.0 * pixels:
        return None
    window = cluster.window(2 * CELL)
    rays = camera.image_rays[window].reshape(-1, 3)
    depth = camera.depth(frame[window]).ravel()
    depth = np.where(foreground[window].ravel(), depth, np.nan)
    return _measure(rays @ camera.turn.T, depth, z, camera, scene)


def _measure(rays: Array, depth: Array, z: float, camera: Camera, scene: Scene) -> Face | None:
    sigma = float(axial(z))
    forward = camera.eye[2] + depth * rays[:, 2]  # world z of every pixel's point
    level = _level(forward[np.isfinite(forward)], sigma)
    if level is None:
        return None
    with np.errstate(invalid="ignore"):
        on = np.abs(forward - level) < FLAT * sigma
    if not (rays[:, 2] < -0.2).all():
        return None  # seen from the side or from behind
    plane = camera.eye[:2] + rays[:, :2] * ((level - camera.eye[2]) / rays[:, 2])[:, None]
    view = _View(plane, on, level, camera.eye, z / camera.fx, FLAT * sigma)
    across, up = _ends(view, 0, scene.box), _ends(view, 1, scene.box)
    if across is None or up is None:
        return None
    middles = [_middle(across, scene.box[0]), _middle(up, scene.box[1])]
    center, variance = np.array([m.place for m in middles]), [m.variance for m in middles]
    within = (np.abs(plane - center) < np.array(scene.box[:2]) / 2).all(axis=1)
    if on[within].mean() < FILLED:
        return None
    return Face(np.array([*center, level]), np.array([*variance, sigma**2 * WINDOW**2 / on.sum() + SYSTEMATIC**2]))


def _level(forward: Array, sigma: float) -> float | None:
    """World z of the face: where most points are, and nothing behind them."""
    if len(forward) < 20:
        return None
    level = float(np.median(forward))
    for _ in range(4):
        near = forward[np.abs(forward - level) < 2 * sigma]
        if len(near) < 0.4 * len(forward):
            return None
        level = float(near.mean())
    return level


def _ends(view: _View, axis: int, box: Triple) -> tuple[_End, _End] | None:
    """The lower and the upper end of the face along an axis, or None if they are not as far apart as they should be."""
    middle, half, breadth = np.median(view.plane[view.on], axis=0), box[axis] / 2, box[1 - axis] - 4 * view.pitch
    inner = np.abs(view.plane[:, 1 - axis] - middle[1 - axis]) < breadth / 2
    found = []
    for side in (-1.0, 1.0):
        x = (view.plane[:, axis] - middle[axis]) * side
        strip = inner & (np.abs(x - half) < STRIP)
        if strip.sum() < 20:
            return None
        place = middle[axis] + side * _crossing(x[strip], int(view.on[strip].sum()), view.pitch)
        # A side face that is seen too looks like more of the front as long as it is within the tolerance; seen at a
        # grazing angle, it may as well give no data. Half of it, give or take a half.
        slant = max(0.0, side * (view.eye[axis] - place)) / (view.eye[2] - view.level)
        extra = slant * view.tolerance / 2
        windows = max(1.0, breadth / view.pitch / WINDOW)
        variance = (float(lateral(0.0)) * view.pitch) ** 2 / windows + extra**2
        found.append(_End(place - side * extra, variance))
    low, high = found
    misfit = abs(high.place - low.place - 2 * half)
    allowed = 3.5 * np.sqrt(low.variance + high.variance + 2 * EDGE**2)
    return (low, high) if misfit < min(FIT * 2 * half, allowed) else None


def _crossing(x: Array, on: int, pitch: float) -> float:
    """Where an edge must lie for so many pixels to be before it; pixels at x, each as wide as the pitch.

    Counting is fair where an outermost pixel is not: noise that moves pixels over the edge moves as many each way.
    """
    low, high = float(x.min()) - pitch, float(x.max()) + pitch
    before = np.empty_like(x)  # the part of each pixel that is
    for _ in range(24):
        place = (low + high) / 2
        np.subtract(place, x, out=before)
        before /= pitch
        before += 0.5
        np.minimum(np.maximum(before, 0.0, out=before), 1.0, out=before)  # np.clip takes as long as all of it
        if np.add.reduce(before) < on:
            low = place
        else:
            high = place
    return (low + high) / 2


def _middle(ends: tuple[_End, _End], size: float) -> _End:
    """The middle between two ends of known distance; the better end counts more."""
    low, high = ends
    weight = high.variance / (low.variance + high.variance)
    place = weight * (low.place + size / 2) + (1 - weight) * (high.place - size / 2)
    excess = (high.place - low.place - size) ** 2 / (
        low.variance + high.variance
    )  # above 1 they are worse than thought
    return _End(place, low.variance * weight * max(excess, 1.0) + SYSTEMATIC**2)
