"""In the place of a sensor where the board measures with its own encoders: nothing is looked at from outside."""

from __future__ import annotations

import time

from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.sensors.measurement import Measurement
from stepmap_hil.wire.link import Link

NAME = "encoders"  # what reports call it
PING_S = 0.2  # a board that hears nothing for a second stops


class OwnEncoders:
    """A sensor that sees nothing: of a simulated plant the board gets encoder counts with the efforts it answers."""

    def look(self, plant: Plant, time: float) -> Measurement:
        return Measurement.sample(plant, time)

    def unplug(self) -> None:
        pass

    def close(self) -> None:
        pass


class HostOfOwnEncoders:
    """A camera without frames, for a real robot: while one waits for them the board hears that its host is there."""

    def __init__(self, link: Link) -> None:
        self._link, self._due = link, 0.0

    def next(self, timeout: float) -> Measurement | None:
        while self._link.poll("PING") is not None:
            pass  # replies
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + PING_S
            self._link.send("PING", sequence=0, stamp_us=0)
        time.sleep(timeout)
        return None
