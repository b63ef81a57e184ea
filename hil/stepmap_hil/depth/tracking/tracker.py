"""From a depth frame to where balls and a robot are, and to what the sensors of a suspended mass read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap.arrays import Array, vector
from stepmap_hil.depth.camera import Camera, checked
from stepmap_hil.depth.scene import Scene
from stepmap_hil.depth.tracking import marker, sphere
from stepmap_hil.depth.tracking.marker import Face
from stepmap_hil.depth.tracking.matching import match
from stepmap_hil.depth.tracking.segment import Background, Cluster, clusters
from stepmap_hil.depth.tracking.sphere import Sphere

REACH = 0.25  # m before or behind the plane of motion
CHANNELS = ("mass.x", "mass.y", "xr", "r")


@dataclass(frozen=True, eq=False)
class Reading:
    """What a frame says, in the order of `CHANNELS`; a channel that is not valid is NaN and its variance infinite.

    r is the distance between ball and robot: it adds nothing to the other channels but the robot's height, so a filter
    that has an encoder for r should use that.
    """

    z: Array
    valid: Array
    covariance: Array
    """(4, 4), r's correlation with the others included."""
    seconds: float
    ball: Array
    """Center of the ball in the world, NaN if it was not found."""
    robot: Array
    """Where the string leaves the robot, in the world, NaN if it was not found."""

    @property
    def variance(self) -> Array:
        """Of each channel [m²]."""
        return np.diag(self.covariance)

    @property
    def lost(self) -> tuple[str, ...]:
        """Names of the channels that are not valid."""
        return tuple(name for name, valid in zip(CHANNELS, self.valid, strict=True) if not valid)


@dataclass(frozen=True, eq=False)
class Sight:
    """Where a frame shows things, in the world [m]; NaN where one was not found."""

    balls: Array  # (n, 3)
    robot: Array  # (3,), where its string leaves it


@dataclass(frozen=True, eq=False)
class Tracker:
    """Reads frames. It keeps nothing from one frame to the next: same frame, same reading."""

    camera: Camera
    scene: Scene
    background: Background
    reach: float = REACH
    """How far before or behind the plane of motion things may be [m]."""

    @classmethod
    def learn(
        cls, frames: Iterable[Array], camera: Camera, scene: Scene | None = None, reach: float = REACH
    ) -> Tracker:
        """A tracker that has seen the scene empty."""
        return cls(camera, scene or Scene(), Background.learn(frames, camera), reach)

    def read(self, frame: Array, seconds: float = 0.0, *, expected: Any = None) -> Reading:
        """Where ball and robot are. ``expected`` is where the ball should be, to choose by if there are several."""
        frame = checked(frame)
        foreground = self.background.foreground(frame)
        patches = clusters(frame, foreground)
        face = self._robot(frame, foreground, patches)
        ball = self.find_ball(frame, foreground, patches, expected=expected)
        return _reading(self.camera, self.scene, ball, face, seconds)

    def find(self, frame: Array, expected: Array, within: Array, *, robot: bool) -> Sight:
        """Where balls are, each the one found within a distance (n,) [m] of where it is expected, (n, 3).

        A single ball is expected nowhere: it is the roundest. ``robot``: its box is looked for, too.
        """
        frame = checked(frame)
        foreground = self.background.foreground(frame)
        patches = clusters(frame, foreground)
        face = self._robot(frame, foreground, patches) if robot else None
        nowhere = np.full(3, np.nan)
        hook = nowhere if face is None else face.center - self.scene.face
        if len(expected) == 1:
            ball = self.find_ball(frame, foreground, patches)
            return Sight((nowhere if ball is None else self.camera.to_world(ball.center))[None], hook)
        found = [self.camera.to_world(ball.center) for ball in self._balls(frame, foreground, patches)]
        chosen = match(np.array(found).reshape(-1, 3), expected, within)
        return Sight(np.array([nowhere if k is None else found[k] for k in chosen]).reshape(-1, 3), hook)

    def points(self, frame: Array, most: int) -> Array:
        """Foreground of a frame as points in the world, (N, 3); an even choice of ``most`` where there are more."""
        v, u = np.nonzero(self.background.foreground(checked(frame)))
        few = slice(None, None, max(1, -(-len(v) // most)))
        v, u = v[few], u[few]
        return self.camera.to_world(self.camera.rays(u, v) * self.camera.depth(frame[v, u])[:, None])

    def find_ball(
        self, frame: Array, foreground: Array, patches: list[Cluster], *, expected: Any = None
    ) -> Sphere | None:
        """The ball in camera axes: the one nearest to where it is expected, or else the roundest."""
        balls = self._balls(frame, foreground, patches)
        if expected is None:
            return min(balls, key=lambda ball: ball.scatter / ball.seen, default=None)
        place = self.camera.to_camera(vector(expected, 3, "expected"))
        return min(balls, key=lambda ball: float(np.linalg.norm(ball.center - place)), default=None)

    def _balls(self, frame: Array, foreground: Array, patches: list[Cluster]) -> list[Sphere]:
        found = [sphere.find(frame, foreground, patch, self.camera, self.scene.radius) for patch in patches]
        return [ball for ball in found if ball is not None and self._near(self.camera.to_world(ball.center))]

    def _robot(self, frame: Array, foreground: Array, patches: list[Cluster]) -> Face | None:
        found = [marker.find(frame, foreground, patch, self.camera, self.scene) for patch in patches]
        faces = [face for face in found if face is not None and self._near(face.center)]
        return min(faces, key=lambda face: float(face.variance.sum()), default=None)

    def _near(self, point: Array) -> bool:
        return bool(abs(point[2]) < self.reach)


def _reading(camera: Camera, scene: Scene, ball: Sphere | None, face: Face | None, seconds: float) -> Reading:
    nowhere, unknown = np.full(3, np.nan), np.diag(np.full(3, np.inf))
    place = nowhere if ball is None else camera.to_world(ball.center)
    hook = nowhere if face is None else face.center - scene.face
    spread = unknown if ball is None else camera.turn @ ball.covariance @ camera.turn.T
    z = np.array([place[0], place[1], hook[0], np.linalg.norm(hook - place)])
    covariance = np.diag(np.full(4, np.inf))
    valid = np.isfinite(z)
    if ball is not None:
        covariance[:2, :2] = spread[:2, :2]
    if face is not None:
        covariance[2, 2] = face.variance[0]
    if ball is not None and face is not None:
        along = (hook - place) / max(float(z[3]), 1e-9)
        covariance[3, :2] = covariance[:2, 3] = -(spread @ along)[:2]
        covariance[3, 2] = covariance[2, 3] = face.variance[0] * along[0]
        covariance[3, 3] = along @ (spread + np.diag(face.variance)) @ along
    return Reading(z, valid, covariance, seconds, place, hook)
