"""A Kinect that watches the simulated plant: rendered frames go through the real driver, a tracker reads them."""

from __future__ import annotations

import numpy as np

from stepmap.errors import ModelError
from stepmap.jobs import Job
from stepmap_hil.depth import CHANNELS, TICKS, Camera, FakeKinect, Renderer, Scene, Tracker
from stepmap_hil.plant import Plant
from stepmap_hil.sensors import Seen

BALL, ROBOT = "mass", "robot"


class KinectSensor:
    """Frames in lock-step: one is rendered, handed to libfreenect, and read when it comes back."""

    def __init__(self, job: Job, seed: int) -> None:
        channels = tuple(name for name, _ in job.system.sensor_channels)
        if channels != CHANNELS:
            raise ModelError(
                f"the tracker reads {', '.join(CHANNELS)}, and {job.system.name!r} has {', '.join(channels)}: use the "
                'sensor "gaussian"'
            )
        camera, scene = Camera(), Scene()
        self.renderer = Renderer(camera, scene, seed=seed)
        self.tracker = Tracker.learn(self.renderer.empty(), camera, scene)
        self.kinect = FakeKinect()
        self.number = 0

    def look(self, plant: Plant, time: float) -> Seen:
        where = dict(zip(plant.system.frame_names, plant.system.positions(plant.coordinates), strict=True))
        depth = self.renderer.render(where[BALL], where[ROBOT], number=self.number)
        self.number += 1
        frame = self.kinect.show(depth, round(time * TICKS) & 0xFFFFFFFF)
        reading = self.tracker.read(frame.depth, time)
        valid = sum(1 << k for k, seen in enumerate(reading.valid) if seen)
        return Seen(np.where(reading.valid, reading.z, 0.0), valid)

    def close(self) -> None:
        self.kinect.close()
