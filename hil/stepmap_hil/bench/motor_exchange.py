"""Motors of the simulated plant: encoder counts to the board, efforts back, several I/O cycles per period."""

from __future__ import annotations

from stepmap_hil.faults.injector import Injector
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.sensors.measurement import Measurement
from stepmap_hil.wire.session import Actuators, Session


class MotorExchange:
    """The board's motors; `advance` moves the plant with the efforts that `exchange` asked for."""

    def __init__(self, session: Session, plant: Plant, cycle: float, injector: Injector | None) -> None:
        self.session, self.plant, self.cycle, self.injector = session, plant, cycle, injector
        self.time = 0.0  # s, of the plant
        self.answers = True  # False: the board was reset, and may not answer encoders
        self.sample = Measurement.sample(plant, 0.0)  # the plant when encoders were sent last, where the board measures
        self._efforts = self._without_power = Actuators((0,) * len(plant.axes), enabled=False)

    def counts(self) -> list[int]:
        """Encoder counts as they are sent, with injected faults."""
        counts = self.plant.counts
        return counts if self.injector is None else self.injector.count(counts, self.plant.motor_encoders)

    def exchange(self) -> None:
        """Sends encoder counts and takes the efforts in answer; without an answer the motors have no power."""
        if self.plant.encoders:
            self.sample = Measurement.sample(self.plant, self.time)
        ask = self.session.encoders if self.answers else self.session.ask_encoders
        alarms = 0 if self.injector is None else self.injector.alarms(self.plant.motor_encoders)
        self._efforts = ask(self.counts(), alarms) or self._without_power

    def advance(self, cycles: int) -> None:
        """Moves the plant with the last efforts."""
        for _ in range(cycles):
            self.plant.advance(self._efforts.effort, self._efforts.enabled, self.cycle)
            self.time += self.cycle
