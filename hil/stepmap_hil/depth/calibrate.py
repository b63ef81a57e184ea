"""The pose of a camera from a ball held at known places.

At each place a few frames tell where the ball is in camera axes; the pose is the rigid motion that takes those points
to the known ones with the least squared error (Kabsch 1976, Horn 1987). Data that do not give a pose, or not well
enough, are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stepmap.arrays import Array, rows
from stepmap_hil.depth.camera import Camera, checked
from stepmap_hil.depth.errors import CalibrationError
from stepmap_hil.depth.tracking import sphere
from stepmap_hil.depth.tracking.segment import Background, clusters
from stepmap_hil.depth.tracking.sphere import Sphere

PLACES = 4
"""Fewest places."""
BREADTH = 0.05
"""RMS distance [m] of the places from the line that fits them best, at least."""
RMS, WORST = 0.005, 0.012
"""What may remain [m]: on average, and at one place."""
LEAST = 0.0015
"""Error of a place [m] that is reckoned with at least, however well a few of them happen to fit."""
UNSURE = 0.006
"""Standard deviation [m] that the pose may give to a position in the workspace."""
ROLL = np.deg2rad(45.0)
"""A camera that leans farther is not believed unless it is allowed."""
WORKSPACE = ((-0.3, 0.0, 0.0), (0.9, 0.0, 0.0), (0.9, 1.1, 0.0), (-0.3, 1.1, 0.0))
"""Corners [m] of where the mechanism moves, unless others are given."""
STILL = 2.0
"""Times its expected scatter by which a ball may seem to move while it is held still."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A camera whose pose is known, and how well."""

    camera: Camera
    places: int
    rms: float
    """RMS distance [m] between where the ball was and where the camera now sees it."""
    worst: float
    """The largest of these distances [m]."""
    deviation: float = float("nan")
    """Standard deviation [m] that the pose gives to a position, at that corner of the workspace where it is largest."""


def sight(frames: Iterable[Array], background: Background, camera: Camera, radius: float) -> Array:
    """Where a ball held still is, in camera axes; the pose of the camera does not matter."""
    frames = list(frames)
    found = [ball for frame in frames if (ball := _ball(frame, background, camera, radius)) is not None]
    if not frames or len(found) < (len(frames) + 1) // 2:
        raise CalibrationError(
            f"the ball was found in {len(found)} of {len(frames)} frames: is it in view, nothing before it, its radius "
            f"{radius:g} m, and was the background learned without it?"
        )
    centers = np.array([ball.center for ball in found])
    spread = float(np.sqrt(centers.var(axis=0).sum()))
    expected = float(np.sqrt(np.mean([np.trace(ball.covariance) for ball in found])))
    if spread > STILL * expected:
        raise CalibrationError(f"the ball moved by {spread * 1e3:.0f} mm while it was looked at: hold it still")
    return np.asarray(centers.mean(axis=0))


def _ball(frame: Array, background: Background, camera: Camera, radius: float) -> Sphere | None:
    foreground = background.foreground(checked(frame))
    balls = [sphere.find(frame, foreground, patch, camera, radius) for patch in clusters(frame, foreground)]
    return min((ball for ball in balls if ball is not None), key=lambda ball: ball.scatter / ball.seen, default=None)


def calibrate(
    seen: Sequence[Any],
    known: Sequence[Any],
    camera: Camera,
    *,
    workspace: Sequence[Any] = WORKSPACE,
    rolled: bool = False,
) -> Calibration:
    """The camera with the pose that takes the points it has ``seen`` to the ``known`` ones, both (n, 3) [m].

    ``workspace`` are points where positions must come out well. A camera that leans by more than 45° must be allowed by
    ``rolled``: places of a square or a rectangle, in another order, fit such a camera without any error.
    """
    a, b = rows(seen, 3, "seen"), rows(known, 3, "known")
    if a.ndim != 2 or a.shape != b.shape:
        raise CalibrationError(f"each place is seen once and known once, not {a.shape} and {b.shape}")
    if len(a) < PLACES:
        raise CalibrationError(f"{len(a)} places are too few: hold the ball at {PLACES} or more")
    for points, which in ((b, "known"), (a, "seen")):
        _check_breadth(points, which)
    pose = _rigid_motion(a, b)
    distance = np.linalg.norm(a @ pose[:3, :3].T + pose[:3, 3] - b, axis=1)
    rms, worst = float(np.sqrt(np.mean(distance**2))), float(distance.max())
    if rms > RMS or worst > WORST:
        raise CalibrationError(_misfit(a, b, distance))
    if pose[2, 3] < 0:
        raise CalibrationError(
            "the camera would stand behind the plane of motion: does z point to the camera, has an axis a wrong sign?"
        )
    if not rolled:
        _check_roll(pose)
    deviation = _deviation(b, rms, rows(workspace, 3, "workspace").reshape(-1, 3))
    if deviation > UNSURE:
        raise CalibrationError(
            f"positions would be uncertain by {deviation * 1e3:.0f} mm in the workspace, and {UNSURE * 1e3:.0f} mm are "
            "allowed: hold the ball at places farther apart, or at more of them"
        )
    return Calibration(replace(camera, pose=pose), len(a), rms, worst, deviation)


def _check_roll(pose: Array) -> None:
    """Raises where the world's down is not below in the image."""
    roll = float(np.arctan2(pose[1, 0], -pose[1, 1]))
    if abs(roll) > ROLL:
        raise CalibrationError(
            f"the camera would be rolled by {np.rad2deg(abs(roll)):.0f}°: are the places in another order than the "
            "ball was held at, or have x and y a wrong sign? If it is mounted so, allow it (rolled=True, --rolled)"
        )


def _deviation(places: Array, rms: float, workspace: Array) -> float:
    """Standard deviation [m] of a position that the pose's error causes, the largest of the workspace.

    With independent errors of variance s² on every coordinate of n places at b from their middle, the middle has the
    covariance s²/n, the rotation s² J⁻¹ with J = Σ |b|² − b bᵀ, and both are independent; a point at d from the middle
    moves by d x rotation. s² is the squared misfit over the 3n − 6 degrees of freedom that six parameters leave.
    """
    n, b = len(places), places - places.mean(axis=0)
    variance = max(rms**2 * n / (3 * n - 6), LEAST**2)
    rotation = np.linalg.inv(np.sum(b**2) * np.eye(3) - b.T @ b)
    d = workspace - places.mean(axis=0)
    # trace of [d] C [d]ᵀ with [d] the matrix of the cross product: tr(C) |d|² − dᵀ C d
    turned = np.trace(rotation) * np.sum(d**2, axis=1) - np.einsum("ij,jk,ik->i", d, rotation, d)
    return float(np.sqrt(variance * (3 / n + turned.max())))


def _check_breadth(points: Array, which: str) -> None:
    breadth = float(np.linalg.svd(points - points.mean(axis=0), compute_uv=False)[1] / np.sqrt(len(points)))
    if breadth < BREADTH:
        raise CalibrationError(
            f"the {which} places lie within {breadth * 1e3:.0f} mm of one line, and the camera could turn about it: "
            "move some of them away from it"
        )


def _rigid_motion(a: Array, b: Array) -> Array:
    """The 4x4 that takes points a to points b with the least squared error."""
    u, _, vt = np.linalg.svd((a - a.mean(axis=0)).T @ (b - b.mean(axis=0)))
    flip = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    pose = np.eye(4)
    pose[:3, :3] = vt.T @ flip @ u.T
    pose[:3, 3] = b.mean(axis=0) - pose[:3, :3] @ a.mean(axis=0)
    return pose


def _misfit(a: Array, b: Array, distance: Array) -> str:
    """Why points do not match."""
    scale = float(np.linalg.norm(a - a.mean(axis=0)) / np.linalg.norm(b - b.mean(axis=0)))
    worst = int(distance.argmax())
    text = f"the places do not match by {np.sqrt(np.mean(distance**2)) * 1e3:.0f} mm RMS"
    if abs(scale - 1) > 0.03:
        return f"{text}: seen from the camera they are {scale:.3g} times as far apart; are they in metres?"
    return (
        f"{text}, number {worst + 1} by {distance[worst] * 1e3:.0f} mm: measure it again; are they in the same order?"
    )
