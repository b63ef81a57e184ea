"""Reads frames of a sensor: at once, or in a thread where reading is slow and time is real."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Any

from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.sensors.base import Sensor, SensorError, SlowSensor, checked
from stepmap_hil.sensors.measurement import Measurement

TIMEOUT_S = 5.0  # for a frame that is being read when a run ends


class FrameReader:
    """One frame at a time; ``in_thread``: a slow sensor reads its frames in a thread.

    Run and thread communicate through queues that have no lock which a signal could leave taken.
    """

    def __init__(self, sensor: Sensor, channels: Sequence[str], *, in_thread: bool) -> None:
        self._sensor, self._channels = sensor, channels
        self._slow = sensor if in_thread and isinstance(sensor, SlowSensor) else None
        self._requests: SimpleQueue[tuple[Any, float] | None] = SimpleQueue()
        self._read: SimpleQueue[Measurement | Exception] = SimpleQueue()
        self._next: Measurement | Exception | None = None  # read, not taken yet
        self._sample: Measurement | None = None
        self._thread = threading.Thread(target=self._work, name="camera", daemon=True)
        if self._slow is not None:
            self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a frame is still being read, or has not been taken."""
        return self._sample is not None

    def start(self, plant: Plant, sample: Measurement) -> None:
        """Exposes a frame of the plant, of which ``sample`` was taken now."""
        if self._slow is not None:
            self._requests.put((self._slow.expose(plant), sample.time))
        else:
            try:
                self._next = self._sensor.look(plant, sample.time)
            except SensorError as error:
                self._next = error
        self._sample = sample

    def wait(self, seconds: float) -> bool:
        """Whether a frame has been read, waiting at most so long; False at once where none is being read."""
        if self._next is None and self.busy and seconds > 0:
            try:
                self._next = self._read.get(timeout=seconds)
            except Empty:
                return False
        return self._next is not None

    def take(self) -> Measurement | None:
        """The measurement of a frame that has been read since the last call; raises SensorError of a lost sensor
        or of one that returned no measurement."""
        if self._next is None and not self._read.empty():
            self._next = self._read.get()
        if self._next is None or self._sample is None:
            return None
        sample, self._sample = self._sample, None
        found, self._next = self._next, None
        if isinstance(found, Exception):
            raise found
        return sample.seen(checked(found, self._channels))

    def close(self) -> None:
        """Waits for a frame that is being read; the sensor may be closed afterwards."""
        if self._slow is not None:
            self._requests.put(None)
            self._thread.join(TIMEOUT_S)

    def _work(self) -> None:
        while self._slow is not None and (request := self._requests.get()) is not None:
            try:
                self._read.put(self._slow.read(*request))
            except Exception as error:  # raised by `take`
                self._read.put(error)
