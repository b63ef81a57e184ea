"""Sensors of the bench: the system's own with noise, a Kinect, or those that other packages add (docs/sensors.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from stepmap.errors import StepmapError
from stepmap.jobs import Job
from stepmap.registry import Registry
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.sensors.measurement import Measurement

if TYPE_CHECKING:
    from stepmap_hil.rig.file import RigFile


class SensorError(StepmapError, OSError):
    """A lost sensor; the text says what to do."""


def checked(seen: object, channels: Sequence[str]) -> Measurement:
    """A sensor's measurement as it can be sent, with 0 for what was not seen and is no number.

    Raises SensorError where it is none: sensors come from other packages, too, and what they return is sent to a board.
    """
    n = len(channels)
    if not isinstance(seen, Measurement):
        raise SensorError(f"the sensor returned {type(seen).__name__} instead of a Measurement")
    if not isinstance(seen.valid, int | np.integer) or not 0 <= seen.valid < 1 << n:
        raise SensorError(f"the sensor says it has seen channels {seen.valid!r}, and there are bits 0 to {n - 1}")
    z = np.asarray(seen.z)
    if z.shape != (n,) or z.dtype.kind not in "fiu":
        raise SensorError(
            f"the sensor returned values of shape {z.shape} and type {z.dtype}, and there are {n} channels, each a "
            f"number: {', '.join(channels)}"
        )
    has_seen = np.array([bool(seen.valid >> k & 1) for k in range(n)], dtype=bool)
    wrong = has_seen & ~np.isfinite(z)
    if wrong.any():
        k = int(np.flatnonzero(wrong)[0])
        raise SensorError(f"the sensor says it has seen {channels[k]}, and returned {z[k]} for it")
    if not np.isfinite([seen.time, seen.arrived]).all():
        raise SensorError(f"the sensor returned the times {seen.time} and {seen.arrived}")
    return replace(seen, z=np.where(np.isfinite(z), z, 0.0), valid=int(seen.valid))


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
