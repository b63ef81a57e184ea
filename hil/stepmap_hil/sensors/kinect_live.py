"""A Kinect that measures a real robot, or a recording of its frames."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np

from stepmap.archives import read_arrays
from stepmap.arrays import Array
from stepmap.errors import DamagedError, JobError
from stepmap.files import write_whole
from stepmap.jobs import Job
from stepmap_hil.depth import Background, Kinect, Tracker
from stepmap_hil.depth.camera import HEIGHT, WIDTH
from stepmap_hil.rig.file import RigFile
from stepmap_hil.sensors.kinect_rendered import Watcher, measured
from stepmap_hil.sensors.measurement import Measurement
from stepmap_hil.sensors.staging import reach
from stepmap_hil.sensors.targets import all_seen


class LiveKinect:
    """Measurements of a Kinect: the newest frame is read, older ones are skipped."""

    def __init__(self, rig: RigFile, job: Job) -> None:
        seen = all_seen(job.system)
        if rig.background is None:
            raise rig.error("kinect: 'background' is missing: stepmap calibrate makes it")
        tracker = Tracker(rig.camera, rig.scene, read_background(rig.background), reach(job, seen))
        self.watcher = Watcher(job, seen, tracker)
        self.latency = rig.latency
        self.kinect = Kinect(rig.recording, every=False)
        self.last: Array | None = None  # frame

    def next(self, timeout: float) -> Measurement | None:
        """The next measurement, with times of `time.monotonic`; None when no frame came within ``timeout`` seconds."""
        frame = self.kinect.next(timeout)
        if frame is None:
            return None
        self.last = frame.depth
        seen = measured(*self.watcher.read(frame.depth, frame.seconds))
        exposed = frame.seconds - self.latency
        return replace(seen, time=exposed, arrived=frame.seconds, skipped=frame.skipped)

    def points(self, most: int) -> Array:
        """Points of the last frame."""
        return self.watcher.points(self.last, most)

    def close(self) -> None:
        self.kinect.close()


def write_background(background: Background, path: Path) -> None:
    packed = BytesIO()
    np.savez_compressed(packed, limit=background.limit, nearest=background.nearest)
    write_whole(path, packed.getvalue())


def read_background(path: Path) -> Background:
    try:
        packed = read_arrays(path, ("limit", "nearest"))
        made = Background(packed["limit"].astype(np.uint16), int(packed["nearest"]))
    except (OSError, TypeError, ValueError, DamagedError) as error:
        raise JobError(f"is no background ({error}): stepmap calibrate makes one", file=str(path)) from error
    if made.limit.shape != (HEIGHT, WIDTH):
        raise JobError(f"is a background of shape {made.limit.shape}: stepmap calibrate makes one", file=str(path))
    return made
