"""Where a camera stands before a job's mechanism, and frames of it with balls, strings and box."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.jobs import Job
from stepmap_hil.depth import Camera, Renderer, Scene, look
from stepmap_hil.depth.camera import HEIGHT, WIDTH
from stepmap_hil.depth.solids import Ball, Solid, String
from stepmap_hil.depth.tracking.tracker import REACH
from stepmap_hil.sensors.targets import Targets, targets

MARGIN = 24  # pixels between what moves and the edge of the image
NEAREST, FARTHEST = 0.9, 3.5  # m from the camera, of what moves
BEHIND = 0.5  # m from what moves to the wall, at least


@dataclass(frozen=True, eq=False)
class Staging:
    """A camera and what it sees: balls first, then the robot's box; all that a process which films has to know."""

    camera: Camera
    scene: Scene
    balls: int
    box: bool
    strings: tuple[tuple[int, int], ...]
    reach: float  # m before and behind z = 0 that things are looked for

    def render(self, renderer: Renderer, places: Array, number: int) -> Array:
        """The frame with targets at these places, (target, 3)."""
        robot = places[self.balls] if self.box else None
        if self.balls == 1 and self.box and self.strings in (((0, 1),), ((1, 0),)):
            return renderer.render(places[0], robot, number=number)
        solids: list[Solid] = [Ball(np.array(place), self.scene.radius) for place in places[: self.balls]]
        solids += [String(np.array(places[a]), np.array(places[b]), self.scene.string) for a, b in self.strings]
        return renderer.render(None, robot, also=solids, number=number)


def stage(job: Job, seen: Targets, camera: Camera, scene: Scene) -> Staging:
    """The staging of a job. Where the usual camera does not see the whole motion, one is placed that does."""
    places = seen.places(plan(job)).reshape(-1, 3)
    if np.array_equal(camera.pose, Camera().pose) and not _sees(camera, places):
        size = scene.radius if seen.box is None else max(scene.box) / 2 + max(map(abs, scene.body))
        camera, scene = (
            _placed(camera, places, size),
            replace(scene, fixtures=(), wall=float(places[:, 2].min()) - BEHIND),
        )
    return Staging(camera, scene, len(seen.balls), seen.box is not None, seen.strings, reach(job, seen))


def require_visible(job: Job, camera: Camera, scene: Scene) -> None:
    """Raises where no camera can see what the job's system measures, or not all of its motion."""
    stage(job, targets(job.system), camera, scene)


def reach(job: Job, seen: Targets) -> float:
    """How far before and behind z = 0 of the scene things are looked for [m]."""
    return float(np.abs(seen.places(plan(job))[..., 2]).max()) + REACH


def plan(job: Job) -> Array:
    """Poses that a mechanism is to go through: those of the reference, or the start alone where a job has none."""
    reference = getattr(job, "reference", None)
    start = np.asarray(job.pose, dtype=float)[None]
    return start if reference is None else np.vstack([start, reference.poses])


def _sees(camera: Camera, places: Array) -> bool:
    u, v, z = camera.pixels(camera.to_camera(places)).T
    within = (u > MARGIN) & (u < WIDTH - MARGIN) & (v > MARGIN) & (v < HEIGHT - MARGIN)
    return bool((within & (z > camera.near) & (z < FARTHEST)).all())


def _placed(camera: Camera, places: Array, size: float) -> Camera:
    """A camera before the middle of the motion of things of some size [m], as near as it sees all of it."""
    low, high = places.min(axis=0) - size, places.max(axis=0) + size
    middle = (low + high) / 2
    wide = (
        (high - low)[:2] / 2 / np.array([(WIDTH / 2 - 2 * MARGIN) / camera.fx, (HEIGHT / 2 - 2 * MARGIN) / camera.fy])
    )
    away = max(float(wide.max()), NEAREST)
    if away + float(high[2] - low[2]) > FARTHEST:
        x, y, z = high - low
        raise ModelError(
            f"a Kinect cannot see a motion of {x:.1f} by {y:.1f} by {z:.1f} m well enough: {away:.1f} m away a ball is "
            "too small",
            hint='Plan a smaller motion, place a camera in a rig with larger balls, or use the sensor "gaussian".',
        )
    eye = np.array([*middle[:2], high[2] + away])
    return replace(camera, pose=look(eye, [*middle[:2], low[2]]))
