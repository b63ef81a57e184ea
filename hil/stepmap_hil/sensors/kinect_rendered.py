"""A Kinect that measures the simulated plant: rendered frames go through the real driver, a tracker reads them."""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.jobs import Job
from stepmap_hil.depth import CHANNELS, TICKS, Camera, FakeKinect, Reading, Renderer, Scene, Tracker
from stepmap_hil.depth.errors import CameraError
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.rig.file import RigFile
from stepmap_hil.sensors.base import SensorError
from stepmap_hil.sensors.measurement import Measurement

BALL, ROBOT = "mass", "robot"


def require_channels(job: Job) -> None:
    """Raises where the tracker does not read what the job's system measures."""
    channels = tuple(name for name, _ in job.system.sensor_channels)
    if channels != CHANNELS:
        raise ModelError(
            f"the tracker reads {', '.join(CHANNELS)}, and {job.system.name!r} has {', '.join(channels)}: use the "
            'sensor "gaussian"'
        )


def as_measurement(reading: Reading) -> Measurement:
    """A reading as a measurement: 0 in place of what was not seen."""
    valid = sum(1 << k for k, seen in enumerate(reading.valid) if seen)
    return Measurement(np.where(reading.valid, reading.z, 0.0), valid)


def shown(tracker: Tracker, frame: Array | None, most: int) -> Array:
    """What a frame shows before its background, in the world, (N, 3) with at most ``most`` rows."""
    return np.zeros((0, 3)) if frame is None else tracker.points(frame, most)


class KinectSensor:
    """Frames one by one: each is rendered, handed to libfreenect, and read when it comes back."""

    def __init__(self, job: Job, seed: int, camera: Camera | None = None, scene: Scene | None = None) -> None:
        require_channels(job)
        camera, scene = camera or Camera(), scene or Scene()
        self.renderer = Renderer(camera, scene, seed=seed)
        self.tracker = Tracker.learn(self.renderer.empty(), camera, scene)
        self.kinect = FakeKinect()
        self.number = 0
        self.last: Array | None = None  # frame

    def look(self, plant: Plant, time: float) -> Measurement:
        return self.read(self.expose(plant), time)

    def expose(self, plant: Plant) -> tuple[Array, Array]:
        """Where ball and robot are."""
        where = dict(zip(plant.system.frame_names, plant.system.positions(plant.coordinates), strict=True))
        return where[BALL], where[ROBOT]

    def read(self, exposed: tuple[Array, Array], time: float) -> Measurement:
        depth = self.renderer.render(*exposed, number=self.number)
        self.number += 1
        try:
            frame = self.kinect.show(depth, round(time * TICKS) & 0xFFFFFFFF)
        except CameraError as error:
            raise SensorError(str(error)) from error
        self.last = frame.depth
        return as_measurement(self.tracker.read(frame.depth, time))

    def points(self, most: int) -> Array:
        """Points of the last frame."""
        return shown(self.tracker, self.last, most)

    def unplug(self) -> None:
        self.kinect.unplug()

    def close(self) -> None:
        self.kinect.close()


def kinect(job: Job, seed: int, rig: RigFile) -> KinectSensor:
    return KinectSensor(job, seed, rig.camera, rig.scene)
