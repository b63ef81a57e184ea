"""Sensors of the bench: the system's own with noise, a Kinect, or those that other packages add (docs/sensors.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from stepmap.errors import StepmapError
from stepmap.jobs import Job
from stepmap.registry import Registry
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.sensors.measurement import Measurement

if TYPE_CHECKING:
    from stepmap_hil.rig.file import RigFile


class SensorError(StepmapError, OSError):
    """A lost sensor; the text says what to do."""


class Sensor(Protocol):
    """Measures the plant once per tick; raises SensorError when the sensor is lost."""

    def look(self, plant: Plant, time: float) -> Measurement: ...

    def unplug(self) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class SlowSensor(Protocol):
    """A sensor that takes long, in two parts: in real time ``read`` runs in a thread beside the run.

    ``look(plant, time)`` is ``read(expose(plant), time)``.
    """

    def expose(self, plant: Plant) -> Any: ...

    def read(self, exposed: Any, time: float) -> Measurement: ...


SENSORS = Registry[Callable[..., Sensor]].of("stepmap.sensors", "sensor", {})

names = SENSORS.names


def make(name: str, job: Job, seed: int, rig: RigFile) -> Sensor:
    """A sensor by its name: its entry point is called with job, seed and rig."""
    return SENSORS.get(name)(job, seed, rig)
