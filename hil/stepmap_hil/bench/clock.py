"""Whose time a run on the bench follows: the bench's own in lock-step, the computer's in real time."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil
from typing import Protocol

from stepmap_hil.bench.motor_exchange import MotorExchange
from stepmap_hil.sensors.measurement import Measurement
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.session import VIRTUAL, Session

MAX_HOLD_S = 0.006  # for which motors keep their efforts so that an emulator may rest

ServeFrames = Callable[[float], bool]
"""Waits so many seconds at most for a frame and sends it; False where none came."""


class Clock(Protocol):
    """Passes the time of a run."""

    options: tuple[str, ...]  # of the board's commands: what of it is virtual
    real_time: bool  # frames arrive when they do, and slow sensors read them in a thread

    def start(self, run_time: float) -> None:
        """From now on ``run_time`` [s] is now."""

    def wait_until(self, run_time: float) -> float:
        """Waits for a time of the run; seconds by which it is late then."""

    def lateness(self, run_time: float) -> float:
        """Seconds since a time of the run; negative before it."""

    def send(self, session: Session, measurement: Measurement) -> list[Message] | None:
        """Sends a measurement; telemetry up to its answer, None where that comes later."""

    def pass_cycles(self, motors: MotorExchange, left: int, serve_frames: ServeFrames) -> int:
        """Moves the motors for some of the I/O cycles that are left of a period; how many."""


class LockStepClock:
    """Time passes with messages, so that a run gives the same numbers on every computer."""

    options: tuple[str, ...] = VIRTUAL
    real_time = False

    def start(self, run_time: float) -> None:
        pass

    def wait_until(self, run_time: float) -> float:
        return 0.0

    def lateness(self, run_time: float) -> float:
        return 0.0

    def send(self, session: Session, measurement: Measurement) -> list[Message] | None:
        return session.tick(measurement.raw, measurement.valid)

    def pass_cycles(self, motors: MotorExchange, left: int, serve_frames: ServeFrames) -> int:
        """One: its end is the time of the encoders, and its efforts are those in answer."""
        motors.session.pass_time(motors.cycle)
        motors.exchange()
        motors.advance(1)
        return 1


class RealTimeClock:
    """Time is the computer's: what is late counts as late."""

    options: tuple[str, ...] = ("virtual_io",)
    real_time = True

    def __init__(self) -> None:
        self._started = time.perf_counter()  # when the run's time was 0
        self._exchange_s = 0.0  # that the last exchange of encoders and efforts took

    def start(self, run_time: float) -> None:
        self._started = time.perf_counter() - run_time

    def wait_until(self, run_time: float) -> float:
        time.sleep(max(0.0, -self.lateness(run_time)))
        return self.lateness(run_time)

    def lateness(self, run_time: float) -> float:
        return time.perf_counter() - self._started - run_time

    def send(self, session: Session, measurement: Measurement) -> list[Message] | None:
        session.measure(measurement.raw, measurement.valid, measurement.age)
        return None

    def pass_cycles(self, motors: MotorExchange, left: int, serve_frames: ServeFrames) -> int:
        """As many as an exchange takes; frames that come meanwhile are sent.

        A command belongs to the time of the last encoders, so they are sent at the end of a period, before the next
        sample. An exchange with an emulated chip may take longer than a cycle: motors then keep their efforts for
        longer, and for as long again up to MAX_HOLD_S, so that the emulator leaves the computer time for the rest.
        """
        count = min(max(1, ceil(min(2 * self._exchange_s, MAX_HOLD_S) / motors.cycle)), left)
        until = motors.time + count * motors.cycle
        while serve_frames(-self.lateness(until)):
            pass
        late = self.wait_until(until)
        count = min(count + int(late / motors.cycle), left)
        motors.advance(count)
        motors.session.pass_time(count * motors.cycle)
        begun = time.perf_counter()
        motors.exchange()
        self._exchange_s = time.perf_counter() - begun
        return count


CLOCKS: dict[str, type[LockStepClock] | type[RealTimeClock]] = {"lockstep": LockStepClock, "realtime": RealTimeClock}
