"""Clocks of the bench: in lock-step nothing waits, in real time what is late is made up for."""

from __future__ import annotations

import time
from typing import Any, cast

import numpy as np
import pytest

from stepmap_hil.bench import clock as clocks
from stepmap_hil.bench.clock import CLOCKS, LockStepClock, RealTimeClock
from stepmap_hil.bench.motor_exchange import MotorExchange
from stepmap_hil.runs.log import MODES
from stepmap_hil.sensors.measurement import Measurement

CYCLE = 0.004


class Motors:
    """Writes down what a clock does with motors; an exchange takes ``seconds`` of the clock of the test."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.session, self.cycle, self.time, self.seconds = self, CYCLE, 0.0, seconds
        self.done: list[str] = []
        self.now = 100.0

    def pass_time(self, seconds: float) -> None:
        self.done.append(f"stamp {round(seconds / CYCLE)}")

    def exchange(self) -> None:
        self.done.append("exchange")
        self.now += self.seconds

    def advance(self, cycles: int) -> None:
        self.done.append(f"advance {cycles}")
        self.time += cycles * CYCLE

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def no_frame(seconds: float) -> bool:
    return False


def real(monkeypatch: pytest.MonkeyPatch, motors: Motors) -> RealTimeClock:
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: motors.now)
    monkeypatch.setattr(clocks.time, "sleep", motors.sleep)
    made = RealTimeClock()
    made.start(motors.time)
    return made


def test_every_mode_has_a_clock() -> None:
    assert tuple(CLOCKS) == MODES
    assert [made.real_time for made in CLOCKS.values()] == [False, True]


def test_lock_step_waits_for_nothing_and_asks_before_the_motors_move() -> None:
    motors, made, begun = Motors(), LockStepClock(), time.perf_counter()
    made.start(5.0)
    assert made.wait_until(1e6) == made.lateness(-1e6) == 0.0
    assert time.perf_counter() - begun < 60
    assert made.pass_cycles(cast(MotorExchange, motors), 8, no_frame) == 1
    assert motors.done == ["stamp 1", "exchange", "advance 1"]


def test_real_time_waits_and_says_how_late_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    motors = Motors()
    made = real(monkeypatch, motors)
    assert made.wait_until(0.25) == pytest.approx(0.0)
    assert motors.now == pytest.approx(100.25)
    motors.now += 0.5
    assert made.wait_until(0.25) == made.lateness(0.25) == pytest.approx(0.5)


def test_real_time_makes_up_for_cycles_that_are_late_within_the_period(monkeypatch: pytest.MonkeyPatch) -> None:
    motors = Motors()
    made = real(monkeypatch, motors)
    assert made.pass_cycles(cast(MotorExchange, motors), 8, no_frame) == 1
    assert motors.done == ["advance 1", "stamp 1", "exchange"]  # encoders of now, before the next sample
    motors.now += 3.5 * CYCLE
    assert made.pass_cycles(cast(MotorExchange, motors), 7, no_frame) == 3
    motors.now += 100 * CYCLE
    assert made.pass_cycles(cast(MotorExchange, motors), 4, no_frame) == 4


def test_a_slow_exchange_is_done_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Motors keep their efforts for twice as long as it takes, up to MAX_HOLD_S: two cycles of 4 ms cover 6 ms."""
    motors = Motors(seconds=0.9 * CYCLE)
    made = real(monkeypatch, motors)
    counts = [made.pass_cycles(cast(MotorExchange, motors), 8, no_frame) for _ in range(3)]
    assert counts == [1, 2, 2]


def test_frames_are_served_until_the_cycle_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    motors, waits = Motors(), []
    made = real(monkeypatch, motors)

    def serve(seconds: float) -> bool:
        waits.append(seconds)
        motors.now += CYCLE / 4
        return len(waits) < 3

    made.pass_cycles(cast(MotorExchange, motors), 8, serve)
    assert waits == pytest.approx([CYCLE, 0.75 * CYCLE, 0.5 * CYCLE])


@pytest.mark.parametrize(("made", "sent"), [(LockStepClock(), ("tick", 3)), (RealTimeClock(), ("measure", 3, 0.01))])
def test_only_lock_step_waits_for_the_answer(made: Any, sent: tuple[Any, ...]) -> None:
    calls: list[tuple[Any, ...]] = []

    class Session:
        def tick(self, raw: Any, valid: int) -> list[Any]:
            calls.append(("tick", valid))
            return []

        def measure(self, raw: Any, valid: int, age: float) -> None:
            calls.append(("measure", valid, age))

    answer = made.send(Session(), Measurement(np.zeros(2), 3, age=0.01))
    assert calls == [sent]
    assert (answer is None) == made.real_time
