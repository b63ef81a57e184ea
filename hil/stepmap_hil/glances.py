"""Looking at the plant: at once, or beside the run where that takes long and the clock does not wait."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from stepmap.arrays import Array
from stepmap_hil.plant import Plant
from stepmap_hil.sensors import Seen, Sensor, SensorError, SlowSensor


@dataclass(frozen=True)
class Moment:
    """When the plant was looked at, and how it was then."""

    time: float  # of the run, s
    begun: float  # time.perf_counter
    jitter_ms: float
    truth: Array
    coordinates: Array


class Glances:
    """One frame at a time; with ``aside`` a slow sensor reads its frames in a thread."""

    def __init__(self, sensor: Sensor, *, aside: bool) -> None:
        self._sensor = sensor
        self._slow = sensor if aside and isinstance(sensor, SlowSensor) else None
        self._beside = ThreadPoolExecutor(1, "camera") if self._slow is not None else None
        self._asked: tuple[Moment, Future[Seen]] | None = None

    @property
    def busy(self) -> bool:
        """Whether a frame is still being read: the next would have to wait for it."""
        return self._asked is not None

    def look(self, plant: Plant, moment: Moment) -> None:
        """Takes a frame."""
        if self._slow is None or self._beside is None:
            reading: Future[Seen] = Future()
            try:
                reading.set_result(self._sensor.look(plant, moment.time))
            except SensorError as error:
                reading.set_exception(error)
        else:
            reading = self._beside.submit(self._slow.read, self._slow.expose(plant), moment.time)
        self._asked = moment, reading

    def wait(self, seconds: float) -> bool:
        """Whether a frame is read within that time; at once False where none is being read."""
        return self._asked is not None and seconds > 0 and bool(wait([self._asked[1]], seconds).done)

    def seen(self) -> tuple[Moment, Seen] | None:
        """A frame that has been read since the last call; raises SensorError when the sensor is gone."""
        if self._asked is None or not self._asked[1].done():
            return None
        (moment, reading), self._asked = self._asked, None
        return moment, reading.result()

    def close(self) -> None:
        """Waits for a frame that is being read; its sensor may be closed then."""
        if self._beside is not None:
            self._beside.shutdown()
