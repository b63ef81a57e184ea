"""One measurement, from the sensor to the row of the log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from stepmap.arrays import Array
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.wire.raw_values import SignalCodec

CONTACT_BIT = 12  # of the valid bits: channels are below


def _nothing() -> Array:
    return np.zeros(0)


@dataclass(frozen=True)
class Measurement:
    """A value per channel, and a bit per channel that was seen.

    A sensor gives these two. The bench adds what it knows of the plant at the sample time; frame delay and injected
    faults change ``due``, ``z`` and ``valid``; encoding, sending and the answer add the rest.
    """

    z: Array
    valid: int
    time: float = 0.0  # s of the run, when the plant was sampled
    arrived: float = 0.0  # s of the computer's clock, when its frame came
    jitter_ms: float = 0.0  # by which the frame was late
    truth: Array = field(default_factory=_nothing)  # readings without noise
    coordinates: Array = field(default_factory=_nothing)  # q̄ of the plant at the sample time
    skipped: int = 0  # frames before it that were not read
    due: float = 0.0  # s of the run, when it reaches the board
    age: float = 0.0  # s from sampling to sending
    raw: tuple[int, ...] = ()  # raw values, as they are sent
    contacts: int = 0  # a bit per foot that has come down, of robots that walk …
    contact_age: float = 0.0  # … and how long before the sample [s]
    latency_ms: float = 0.0  # from its frame to the command

    @classmethod
    def sample(cls, plant: Plant, time: float, *, arrived: float = 0.0, jitter_ms: float = 0.0) -> Measurement:
        """A sample of the plant now; no channel has been seen yet."""
        truth = plant.readings()
        raw = (0,) * len(truth)
        contacts, since = plant.contact
        told = cls(truth, 0, time, arrived, jitter_ms, truth, plant.coordinates.copy(), due=time, raw=raw)
        return replace(told, contacts=contacts, contact_age=since)

    def seen(self, by_sensor: Measurement) -> Measurement:
        """This sample with the values and valid bits of a sensor."""
        return replace(self, z=by_sensor.z, valid=by_sensor.valid | self.contacts << CONTACT_BIT)

    def encoded(self, codec: SignalCodec) -> Measurement:
        more = () if codec.contact_age is None else (codec.contact_age(self.contact_age),)
        return replace(self, raw=(*codec.encode("measurement", self.z), *more))
