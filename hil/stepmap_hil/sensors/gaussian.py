"""The sensors of the system itself, with independent noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.jobs import Job
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.sensors.base import SensorError
from stepmap_hil.sensors.measurement import Measurement

if TYPE_CHECKING:
    from stepmap_hil.rig.file import RigFile


class Gaussian:
    """The system's channels with independent noise; seeded."""

    def __init__(self, sigma: Array, seed: int) -> None:
        self.sigma = sigma
        self.rng = np.random.default_rng(seed)
        self.unplugged = False

    def look(self, plant: Plant, time: float) -> Measurement:
        if self.unplugged:
            raise SensorError("the sensor is gone. Check its plug.")
        z = plant.readings() + self.sigma * self.rng.standard_normal(len(self.sigma))
        return Measurement(z, (1 << len(z)) - 1)

    def unplug(self) -> None:
        self.unplugged = True

    def close(self) -> None:
        pass


def gaussian(job: Job, seed: int, rig: RigFile) -> Gaussian:
    if job.noise is None:
        raise ModelError(f'{job.name}: the sensor "gaussian" takes its noise from [noise], which is missing')
    return Gaussian(job.noise.measurement, seed)
