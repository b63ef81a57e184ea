"""The center of a ball of known size, from the part of it a depth camera sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap_hil.depth.camera import Camera
from stepmap_hil.depth.noise import axial, lateral
from stepmap_hil.depth.tracking.segment import CELL, Cluster

ROUNDS = 8
WIDE, TIGHT = 4.0, 3.0  # standard deviations within which points are kept, at first and at last
SEEN = 0.35  # share of the disc that must be seen
KEPT = 0.7  # share of the points that must lie on the ball
ROUGH = 1.8  # times the expected noise that they may scatter
BROAD = 1.25  # times as broad as the disc that they may be
ROUND = 1.15  # times as far from a plane as from the ball that they must be
TOGETHER = 40  # points that err together, so that n of them tell as much as n / 40: half a window of 9x9 pixels
SYSTEMATIC = 0.0005  # m that no number of points removes


@dataclass(frozen=True, eq=False)
class Sphere:
    """A ball found, in camera axes."""

    center: Array
    covariance: Array
    scatter: float
    """RMS distance of the points from the ball over what noise explains."""
    seen: float
    """Points on the ball over the pixels of its disc."""


def find(frame: Array, foreground: Array, cluster: Cluster, camera: Camera, radius: float) -> Sphere | None:
    """The ball that a cluster is, or None if it is none."""
    z = float(np.interp(cluster.count, np.arange(len(camera.metres)), camera.metres))
    if not z > 0:
        return None
    disc = _disc(z + radius, camera, radius)
    if not 0.25 * disc < cluster.cells * CELL**2 < 2.0 * disc:
        return None
    points = _points(frame, foreground, cluster, camera, z, radius)
    if len(points) < 0.2 * disc or _breadth(points) > BROAD * radius / 2:  # a disc's RMS distance along any axis
        return None
    return fit(points, camera, radius)


def _breadth(points: Array) -> float:
    """RMS distance from the middle along the longest axis across the view [m]."""
    return float(np.sqrt(np.linalg.eigvalsh(np.cov(points[:, :2].T))[-1]))


def _disc(z: float, camera: Camera, radius: float) -> float:
    """Pixels of a ball's image whose center is at depth z."""
    return float(np.pi * camera.fx * camera.fy * (radius / z) ** 2)


def _points(frame: Array, foreground: Array, cluster: Cluster, camera: Camera, z: float, radius: float) -> Array:
    window = cluster.window(CELL)
    depth = camera.depth(frame[window])
    with np.errstate(invalid="ignore"):
        chosen = foreground[window] & (np.abs(depth - z) < 2 * radius)
    return np.asarray(camera.image_rays[window][chosen] * depth[chosen][:, None])


def fit(points: Array, camera: Camera, radius: float) -> Sphere | None:
    """The sphere of known radius through points (n, 3) on the side toward the camera, or None.

    Gauss–Newton on the distances |p − c| − radius. Noise along the ray counts with the cosine of the angle between ray
    and normal, noise across it with the sine; the greater of them holds the other (see `noise.axial`). Points away from
    the sphere are left out, as the fit tightens.
    """
    mean = points.mean(axis=0)
    center = mean + mean / np.linalg.norm(mean) * (2 / 3 * radius)  # a cap is 2/3 radius before the center on average
    along = points / np.linalg.norm(points, axis=1)[:, None]
    deviations = _deviations(float(mean[2]), camera)
    for k in range(ROUNDS):
        offset = points - center
        distance = np.linalg.norm(offset, axis=1)
        normal = offset / np.maximum(distance, 1e-9)[:, None]
        cosine = np.clip(-np.einsum("ij,ij->i", normal, along), 0.0, 1.0)
        sigma = np.maximum(cosine * deviations[0], np.sqrt(1 - cosine**2) * deviations[1])
        residual = (distance - radius) / sigma
        kept = (np.abs(residual) < (WIDE if k < 3 else TIGHT)) & (cosine > 0.1)
        if kept.sum() < 12:
            return None
        slope = normal[kept] / sigma[kept][:, None]
        curvature = slope.T @ slope
        if np.linalg.cond(curvature) > 1e6:
            return None
        step = np.linalg.solve(curvature, slope.T @ residual[kept])
        center = center + step
        if k >= 3 and np.linalg.norm(step) < 1e-5:
            break
    seen = kept.sum() / _disc(float(center[2]), camera, radius)
    scatter = float(np.sqrt(np.mean(residual[kept] ** 2)))
    if seen < SEEN or kept.mean() < KEPT or scatter > ROUGH or _flatness(points) < ROUND * np.std(distance):
        return None
    covariance = np.linalg.inv(curvature) * TOGETHER * max(scatter, 1.0) ** 2 + SYSTEMATIC**2 * np.eye(3)
    return Sphere(center, covariance, scatter, float(seen))


def _flatness(points: Array) -> float:
    """RMS distance in depth of points from the plane that fits them best [m]."""
    terms = np.column_stack([np.ones(len(points)), points[:, :2]])
    return float(np.std(points[:, 2] - terms @ np.linalg.lstsq(terms, points[:, 2], rcond=None)[0]))


def _deviations(z: float, camera: Camera) -> tuple[float, float]:
    """Standard deviations along the ray and across it [m]; few points are so steep that their angle counts."""
    return float(axial(z)), float(lateral(np.pi / 4)) * z / camera.fx
