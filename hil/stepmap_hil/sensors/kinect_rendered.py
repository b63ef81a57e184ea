"""A Kinect that measures the simulated plant: rendered frames go through the real driver, a tracker reads them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.jobs import Job
from stepmap_hil.depth import TICKS, Camera, FakeKinect, Prediction, Reading, Renderer, Scene, Tracker
from stepmap_hil.depth.errors import CameraError
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.rig.file import RigFile
from stepmap_hil.sensors.base import SensorError
from stepmap_hil.sensors.measurement import Measurement
from stepmap_hil.sensors.staging import Staging, stage
from stepmap_hil.sensors.targets import Targets, targets

ENCODERS = 31  # of the seed: noise of encoders is independent of the camera's


def as_measurement(reading: Reading) -> Measurement:
    """A reading as a measurement: 0 in place of what was not seen."""
    return measured(np.where(reading.valid, reading.z, 0.0), reading.valid)


def measured(z: Array, valid: Array) -> Measurement:
    return Measurement(z, sum(1 << k for k, seen in enumerate(valid) if seen))


def shown(tracker: Tracker, frame: Array | None, most: int) -> Array:
    """What a frame shows before its background, in the world, (N, 3) with at most ``most`` rows."""
    return np.zeros((0, 3)) if frame is None else tracker.points(frame, most)


class Watcher:
    """Reads a job's channels from depth frames: finds its balls, each by where it is expected, and its robot."""

    def __init__(self, job: Job, seen: Targets, tracker: Tracker) -> None:
        self.targets, self.tracker = seen, tracker
        self._prediction = Prediction.begin(seen.places(np.asarray(job.pose, dtype=float))[: len(seen.balls)])

    def read(self, frame: Array, time: float) -> tuple[Array, Array]:
        """Values of all channels and which were seen; those of encoders never are."""
        expected, within = self._prediction.expected(time), self._prediction.within(time)
        sight = self.tracker.find(frame, expected, within, robot=self.targets.box is not None)
        self._prediction = self._prediction.seen(time, sight.balls)
        return self.targets.read(sight)

    def points(self, frame: Array | None, most: int) -> Array:
        """What a frame shows before its background, in the system's axes, (N, 3) with at most ``most`` rows."""
        return shown(self.tracker, frame, most) @ self.targets.turn


@dataclass(frozen=True, eq=False)
class _Staged:
    """What a view depends on; equal where it is of the same job, camera and scene, not of others like them."""

    job: Job
    camera: Camera | None
    scene: Scene | None
    seed: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Staged) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[int, ...]:
        return id(self.job), id(self.camera), id(self.scene), self.seed


@lru_cache(maxsize=1)
def _learned(of: _Staged) -> tuple[Staging, Renderer, Tracker]:
    """A staging, its frames, and a tracker that has seen it empty; kept for the open loop after the closed one."""
    staging = stage(of.job, targets(of.job.system), of.camera or Camera(), of.scene or Scene())
    renderer = Renderer(staging.camera, staging.scene, seed=of.seed)
    tracker = Tracker.learn(renderer.empty(), staging.camera, staging.scene, reach=staging.reach)
    return staging, renderer, tracker


class KinectSensor:
    """Frames one by one: each is rendered, handed to libfreenect, and read when it comes back.

    Channels that no camera can see are those of encoders, with the job's noise.
    """

    def __init__(self, job: Job, seed: int, camera: Camera | None = None, scene: Scene | None = None) -> None:
        seen = targets(job.system)
        self.staging, self.renderer, tracker = _learned(_Staged(job, camera, scene, seed))
        self.watcher = Watcher(job, seen, tracker)
        if seen.encoders and job.noise is None:
            raise ModelError(f"{job.name}: encoders take their noise from [noise], which is missing")
        self.sigma = np.zeros(0) if job.noise is None else job.noise.measurement
        self.rng = np.random.default_rng([seed, ENCODERS])
        self.kinect = FakeKinect()
        self.number = 0
        self.last: Array | None = None  # frame

    def look(self, plant: Plant, time: float) -> Measurement:
        return self.read(self.expose(plant), time)

    def expose(self, plant: Plant) -> tuple[Array, Array]:
        """Where balls and robot are, and what encoders read."""
        encoders = self.watcher.targets.encoders
        read = plant.readings()[encoders] if encoders else np.zeros(0)
        return self.watcher.targets.places(plant.coordinates), read

    def read(self, exposed: tuple[Array, Array], time: float) -> Measurement:
        places, counted = exposed
        depth = self.staging.render(self.renderer, places, self.number)
        self.number += 1
        try:
            frame = self.kinect.show(depth, round(time * TICKS) & 0xFFFFFFFF)
        except CameraError as error:
            raise SensorError(str(error)) from error
        self.last = frame.depth
        z, valid = self.watcher.read(frame.depth, time)
        encoders = self.watcher.targets.encoders
        if encoders:
            z[encoders] = counted + self.sigma[encoders] * self.rng.standard_normal(len(encoders))
            valid[encoders] = True
        return measured(z, valid)

    def points(self, most: int) -> Array:
        """Points of the last frame."""
        return self.watcher.points(self.last, most)

    def unplug(self) -> None:
        self.kinect.unplug()

    def close(self) -> None:
        self.kinect.close()


def kinect(job: Job, seed: int, rig: RigFile) -> KinectSensor:
    return KinectSensor(job, seed, rig.camera, rig.scene)
