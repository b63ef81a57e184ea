"""One measurement, from the sensor to the row of the log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from stepmap.arrays import Array
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.wire.raw_values import Words


def _nothing() -> Array:
    return np.zeros(0)


@dataclass(frozen=True)
class Measurement:
    """A value for each channel, and a bit for each that was seen.

    A sensor gives these two. The rest is added on the way: by the bench when it samples the plant, by frame delay and
    faults (``due``, ``z``, ``valid``), by the encoding (``raw``), and when it is sent and answered.
    """

    z: Array
    valid: int
    time: float = 0.0  # s of the run, when the plant was sampled
    arrived: float = 0.0  # s of the computer's clock, when its frame came
    jitter_ms: float = 0.0  # how late that was
    truth: Array = field(default_factory=_nothing)  # readings without noise
    coordinates: Array = field(default_factory=_nothing)  # q̄ of the plant then
    skipped: int = 0  # frames before it that were not read
    due: float = 0.0  # s of the run, when it reaches the board
    age: float = 0.0  # s from sampling to sending
    raw: tuple[int, ...] = ()  # raw values, as they are sent
    latency_ms: float = 0.0  # from its frame to the command

    @classmethod
    def sample(cls, plant: Plant, time: float, *, arrived: float = 0.0, jitter_ms: float = 0.0) -> Measurement:
        """The plant as it is now; no channel has been seen yet."""
        truth = plant.readings()
        raw = (0,) * len(truth)
        return cls(truth, 0, time, arrived, jitter_ms, truth, plant.coordinates.copy(), due=time, raw=raw)

    def seen(self, by_sensor: Measurement) -> Measurement:
        """This sample with the channels that a sensor has seen of it."""
        return replace(self, z=by_sensor.z, valid=by_sensor.valid)

    def encoded(self, words: Words) -> Measurement:
        return replace(self, raw=tuple(words.encode("measurement", self.z)))
