"""Looking at the plant: at once, or beside the run where that takes long and the clock does not wait."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Any

from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.sensors.base import Sensor, SensorError, SlowSensor
from stepmap_hil.sensors.measurement import Measurement

PATIENCE = 5.0  # s for a frame that is being read when a run ends


class Glances:
    """One frame at a time; with ``aside`` a slow sensor reads its frames in a thread.

    The run speaks to the thread through queues without a lock that a signal could leave taken.
    """

    def __init__(self, sensor: Sensor, *, aside: bool) -> None:
        self._sensor = sensor
        self._slow = sensor if aside and isinstance(sensor, SlowSensor) else None
        self._asked: SimpleQueue[tuple[Any, float] | None] = SimpleQueue()
        self._read: SimpleQueue[Measurement | Exception] = SimpleQueue()
        self._next: Measurement | Exception | None = None  # read, and not taken yet
        self._sample: Measurement | None = None
        self._thread = threading.Thread(target=self._work, name="camera", daemon=True)
        if self._slow is not None:
            self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a frame is still being read, or has not been taken."""
        return self._sample is not None

    def look(self, plant: Plant, sample: Measurement) -> None:
        """Takes a frame of the plant as it was sampled now."""
        if self._slow is not None:
            self._asked.put((self._slow.expose(plant), sample.time))
        else:
            try:
                self._next = self._sensor.look(plant, sample.time)
            except SensorError as error:
                self._next = error
        self._sample = sample

    def wait(self, seconds: float) -> bool:
        """Whether a frame is read within that time; at once False where none is being read."""
        if self._next is None and self.busy and seconds > 0:
            try:
                self._next = self._read.get(timeout=seconds)
            except Empty:
                return False
        return self._next is not None

    def seen(self) -> Measurement | None:
        """A frame that has been read since the last call; raises SensorError when the sensor is gone."""
        if self._next is None and not self._read.empty():
            self._next = self._read.get()
        if self._next is None or self._sample is None:
            return None
        sample, self._sample = self._sample, None
        found, self._next = self._next, None
        if isinstance(found, Exception):
            raise found
        return sample.seen(found)

    def close(self) -> None:
        """Waits for a frame that is being read; its sensor may be closed then."""
        if self._slow is not None:
            self._asked.put(None)
            self._thread.join(PATIENCE)

    def _work(self) -> None:
        while self._slow is not None and (asked := self._asked.get()) is not None:
            try:
                self._read.put(self._slow.read(*asked))
            except Exception as error:  # for whoever asked
                self._read.put(error)
