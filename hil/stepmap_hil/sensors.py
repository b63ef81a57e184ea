"""What sees the plant: the system's own sensors with noise, or a Kinect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stepmap.arrays import Array
from stepmap_hil.plant import Plant


@dataclass(frozen=True)
class Seen:
    """One measurement: a value for each channel, and a bit for each that was seen."""

    z: Array
    valid: int


class Sensor(Protocol):
    """Looks at the plant once a tick."""

    def look(self, plant: Plant, time: float) -> Seen: ...

    def close(self) -> None: ...


class Gaussian:
    """The system's channels with independent noise; seeded."""

    def __init__(self, sigma: Array, seed: int) -> None:
        self.sigma = sigma
        self.rng = np.random.default_rng(seed)

    def look(self, plant: Plant, time: float) -> Seen:
        z = plant.readings() + self.sigma * self.rng.standard_normal(len(self.sigma))
        return Seen(z, (1 << len(z)) - 1)

    def close(self) -> None:
        pass
