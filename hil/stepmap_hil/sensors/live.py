"""Sensors of real robots, found by name: the Kinect, and those that other packages add (docs/sensors.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stepmap.jobs import Job
from stepmap.registry import Registry
from stepmap.text import nearest
from stepmap_hil.rig.file import KINECT, RigFile
from stepmap_hil.sensors.measurement import Measurement
from stepmap_hil.sensors.targets import all_seen


class MeasurementSource(Protocol):
    """Gives measurements as time passes."""

    def next(self, timeout: float) -> Measurement | None:
        """The next measurement, its times those of `time.monotonic`; None when none came within so many seconds."""


class LiveSensor(MeasurementSource, Protocol):
    """Measures a robot."""

    def close(self) -> None: ...


def _load(name: str) -> Callable[[RigFile, Job], LiveSensor]:
    from stepmap_hil.sensors.kinect_live import LiveKinect

    return LiveKinect


LIVE = Registry[Callable[[RigFile, Job], LiveSensor]]("stepmap.live_sensors", "live sensor", lambda: (KINECT,), _load)


def make(rig: RigFile, job: Job) -> LiveSensor:
    """The sensor that a rig names: it is called with rig and job."""
    return LIVE.get(rig.sensor)(rig, job)


def require(rig: RigFile, job: Job) -> None:
    """Raises where there is no such sensor, or where a Kinect cannot see what the job's system measures."""
    if rig.sensor not in LIVE.names():
        raise rig.error(f"rig.sensor: no live sensor is called {rig.sensor!r}", hint=nearest(rig.sensor, LIVE.names()))
    if rig.sensor == KINECT:
        all_seen(job.system)
