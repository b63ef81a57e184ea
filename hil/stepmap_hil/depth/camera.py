"""The Kinect's depth camera: from counts of disparity to metres, from pixels to the world and back.

Camera axes: x right in the image, y down, z forward. A pose takes camera coordinates to world coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from stepmap.arrays import Array, numbers, rows, vector
from stepmap.errors import ModelError, ShapeError

WIDTH, HEIGHT = 640, 480
COUNTS = 2048
NO_DATA = 2047


def look(eye: Any, target: Any) -> Array:
    """The pose of a camera at ``eye`` that looks at ``target``, its upper edge level with the world's x-z plane."""
    eye, target = vector(eye, 3, "eye"), vector(target, 3, "target")
    forward = target - eye
    right = np.cross(forward, (0.0, 1.0, 0.0))
    if np.linalg.norm(right) < 1e-9 * max(1.0, float(np.linalg.norm(forward))):
        raise ModelError("target: must be away from the eye, and neither above nor below it")
    forward, right = forward / np.linalg.norm(forward), right / np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.column_stack([right, np.cross(forward, right), forward])
    pose[:3, 3] = eye
    return pose


def rigid(pose: Any) -> Array:
    """``pose`` as a 4x4 of a rotation and a shift."""
    out = numbers(pose, "pose")
    if out.shape != (4, 4) or not np.isfinite(out).all():
        raise ShapeError(f"pose: expected 4x4 finite numbers, got shape {out.shape}")
    turn = out[:3, :3]
    if np.abs(turn @ turn.T - np.eye(3)).max() > 1e-6 or np.abs(out[3] - (0, 0, 0, 1)).max() > 1e-9:
        raise ModelError("pose: must be a rotation and a shift, with the last row 0 0 0 1")
    if np.linalg.det(turn) < 0:
        raise ModelError("pose: mirrors; all axes must be right-handed")
    return out


def _standing() -> Array:
    return look((0.3, 0.5, 1.5), (0.3, 0.5, 0.0))


@dataclass(frozen=True, eq=False)
class Camera:
    """A depth camera somewhere in the world.

    Focal lengths and centre [pixels] are those Burrus measured, the law 1/z = a − b count is the OpenKinect project's;
    both differ a little from one Kinect to the next. The projector stands ``baseline`` to the right of the camera.
    """

    pose: Array = field(default_factory=_standing)
    fx: float = 594.21
    fy: float = 591.04
    cx: float = 339.31
    cy: float = 242.74
    inverse_depth: float = 3.3309495161
    """1/z at count 0 [1/m]."""
    inverse_step: float = 0.0030711016
    """What a count takes off 1/z [1/m]."""
    baseline: float = 0.075
    near: float = 0.5
    far: float = 8.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "pose", rigid(self.pose))
        for name in ("fx", "fy", "inverse_depth", "inverse_step", "near", "far"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ModelError(f"{name}: must be a positive number, not {getattr(self, name)!r}")
        if not all(np.isfinite([self.cx, self.cy, self.baseline])):
            raise ModelError("cx, cy, baseline: must be finite numbers")
        if not 0 <= self.count(self.near) < self.count(self.far) < NO_DATA:
            raise ModelError("near, far: must be ordered, and within what the counts can say")

    # Counts and metres

    def count(self, z: Any) -> Any:
        """The count of a surface at depth z [m], before it is rounded."""
        return (self.inverse_depth - 1 / np.asarray(z, dtype=float)) / self.inverse_step

    @cached_property
    def nearest(self) -> int:
        """The least count that is believed."""
        return int(np.ceil(self.count(self.near)))

    @cached_property
    def farthest(self) -> int:
        """The greatest count that is believed."""
        return int(self.count(self.far))

    @cached_property
    def metres(self) -> Array:
        """Depth of each of the 2048 counts [m], NaN for those that are not believed."""
        out = np.full(COUNTS, np.nan)
        believed = np.arange(self.nearest, self.farthest + 1)
        out[believed] = 1 / (self.inverse_depth - self.inverse_step * believed)
        return out

    def depth(self, frame: Array) -> Array:
        """Metres of a frame of counts, NaN where there is no data."""
        return np.asarray(self.metres[np.minimum(frame, NO_DATA)])

    def step(self, z: Any) -> Any:
        """Metres of one count at depth z."""
        return np.square(z) * self.inverse_step

    # Pixels, rays, points

    def rays(self, u: Any, v: Any) -> Array:
        """Directions through pixels (column u, row v), camera axes, with z = 1: depth times ray is the point."""
        u, v = np.broadcast_arrays(u, v)
        return np.stack([(u - self.cx) / self.fx, (v - self.cy) / self.fy, np.ones(u.shape)], axis=-1)

    @cached_property
    def image_rays(self) -> Array:
        """The rays of all pixels (480, 640, 3)."""
        v, u = np.mgrid[0:HEIGHT, 0:WIDTH]
        return self.rays(u, v)

    def pixels(self, points: Any) -> Array:
        """(column, row, depth) of points given in camera axes."""
        p = rows(points, 3, "points")
        z = p[..., 2]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.stack([self.fx * p[..., 0] / z + self.cx, self.fy * p[..., 1] / z + self.cy, z], axis=-1)

    @property
    def turn(self) -> Array:
        """Rotation from camera to world axes."""
        return self.pose[:3, :3]

    @property
    def eye(self) -> Array:
        return self.pose[:3, 3]

    @property
    def projector(self) -> Array:
        """Where the pattern comes from, in the world."""
        return self.eye + self.baseline * self.turn[:, 0]

    def to_world(self, points: Any) -> Array:
        return np.asarray(rows(points, 3, "points") @ self.turn.T + self.eye)

    def to_camera(self, points: Any) -> Array:
        return np.asarray((rows(points, 3, "points") - self.eye) @ self.turn)


def checked(frame: Any) -> Array:
    """A depth frame of the right shape and type."""
    out = np.asarray(frame)
    if out.shape != (HEIGHT, WIDTH) or out.dtype != np.uint16:
        raise ShapeError(f"frame: expected {HEIGHT}x{WIDTH} uint16, got {out.shape} {out.dtype}")
    return out
