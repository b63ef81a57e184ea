"""The bench: a board controls a simulated plant that a sensor measures.

Every tick the plant is sampled, the measurement goes to the board, its command comes back, and the motors turn while
encoder counts and efforts are exchanged. In lock-step time passes with messages, so that a run gives the same numbers
on every computer; in real time it is the computer's, and late measurements count as late (`bench/clock.py`).
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from types import TracebackType

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import LinkError
from stepmap_hil.bench.motor_exchange import MotorExchange
from stepmap_hil.bench.sequencer import RunSequencer
from stepmap_hil.bench.setup import Opened, Setup
from stepmap_hil.runs.fault_verdict import MOVING, RunOutcome, evaluate_faults
from stepmap_hil.runs.listener import RunListener
from stepmap_hil.runs.log import STOPPED, Row, Run, Stop, Watch
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.sensors.base import SensorError, checked
from stepmap_hil.sensors.frame_reader import FrameReader
from stepmap_hil.sensors.measurement import Measurement
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.reasons import EXPLANATIONS, Reason, explain
from stepmap_hil.wire.session import Sent

ARMED = dialect.value("STEPMAP_STATE_ARMED")
SETTLE_TICKS = 10  # at rest between arming and running
FRESH_TICKS = 30  # at most beyond these in real time, until the board has a measurement that is fresh enough to run
AFTER_STOP_TICKS = 15  # that are logged after the board has ended a run
SILENT_TICKS = 10  # without telemetry, after which the board is asked for its state


class Bench(RunSequencer):
    """One board, one plant, one sensor."""

    def __init__(
        self,
        setup: Setup,
        opened: Opened,
        *,
        recorder: Recorder | None = None,
        listener: RunListener | None = None,
    ) -> None:
        run = Run(setup.job.name, setup.firmware.board, setup.mode)
        self.clock = setup.clock()
        super().__init__(setup, opened.link, run, options=self.clock.options, recorder=recorder, listener=listener)
        self.plant, self.sensor, self.board, self.injector = opened.plant, opened.sensor, opened.board, opened.injector
        self.channels = [name for name, _ in setup.job.system.sensor_channels]
        self.reader = FrameReader(self.sensor, self.channels, in_thread=self.clock.real_time)
        self.io_cycles, self.frame_delay, self.latency = setup.settings.io_cycles, setup.frame_delay(), setup.latency
        self.motors = MotorExchange(self.session, self.plant, self.period / self.io_cycles, self.injector)
        self.own = bool(setup.controller.encoders)  # the board measures itself
        self.started: float | None = None
        self.last: Row | None = None
        self.silent_ticks = 0  # in a row, without telemetry
        self.sensor_error = ""  # of a lost sensor
        self._pending: deque[Measurement] = deque()  # not due yet
        self._unanswered: dict[int, Measurement] = {}  # in real time: by sequence
        self._heartbeat: Message | None = None
        self._path: list[tuple[float, Array]] = []  # of the robot while running

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self.reader.close()

    @property
    def time(self) -> float:
        """That of the plant."""
        return self.motors.time

    # A run

    def prepare(self) -> None:
        """Connects, calibrates and arms; the filter then settles at rest."""
        heartbeat = self.session.connect()
        self.moved = True
        self.session.ready(heartbeat)
        if self.own:
            self.session.calibrate_encoders(self.motors.counts())
        else:
            self.session.calibrate(self._calibration_measurement, self.motors.counts())
        self._require_consent()
        self.session.arm()
        self.event("armed")
        self.clock.start(self.time)
        for _ in range(SETTLE_TICKS):
            self.tick(running=False)
        self._await_measurement()
        self._require_held()

    def _await_measurement(self) -> None:
        """In real time passes periods at rest until the board has ticked with a measurement: it runs with no old one.

        A slow sensor, or a computer that stood still for a moment, may have left it without one for too long.
        """
        for _ in range(FRESH_TICKS if self.clock.real_time else 0):
            row = self.tick(running=False)
            if row is not None and row.measured:
                break

    def _require_held(self) -> None:
        """Raises where the board did not hold the start: forces that feedback does not keep are switched off."""
        if self.last is not None and self.last.state == dialect.value("STEPMAP_STATE_IDLE"):
            raise LinkError(f"the board could not hold the start of the plan: {explain(self.last.reason)}")

    def _calibration_measurement(self) -> tuple[list[int], int]:
        seen = checked(self.sensor.look(self.plant, self.time), self.channels)
        return self.codec.encode("measurement", seen.z), seen.valid

    def go(self, ticks: int, watch: Watch | None = None) -> Run:
        """Runs the schedule for some ticks, then stops; a run that the board ends is logged a little longer."""
        self._require_consent()
        self.started = self.time
        self._begin_faults()
        self.session.run()
        self.session.last_heartbeat()
        self._heartbeat = None
        self.event("running")
        self.plant.release()
        over, end = None, np.inf
        for _ in range(ticks):
            self.tick(running=True)
            watched = watch is None or self.last is None or watch(self.last)
            if self.plant.finished:
                self.run.ended = self.plant.fell
                break
            if not watched or self.listener.stop_requested():
                self.run.ended = STOPPED
                break
            if self.recording_ended():
                self.run.ended = self.recording_ended()
                self.run.broken = True
                break
            if (over := self._over()) is not None:
                end = self.time - self.started
                self.run.ended = self.sensor_error or f"{over[0]}: {EXPLANATIONS[Reason[over[1].upper()]].meaning}"
                self.run.stop = None if self.sensor_error else Stop(*over, self.time)
                self.run.broken = bool(self.sensor_error)
                self.event(self.run.ended)
                for _ in range(AFTER_STOP_TICKS):
                    self.tick(running=True)
                break
        self._begin_faults()
        self._end()
        if self.injector is not None:
            seen = (self.run.rows, self.started, self._path, over, end)
            outcome = RunOutcome.of(self.controller, *seen, self.run.followed)
            self.run.results += evaluate_faults(self.injector.faults, outcome, self.injector.happened)
        return self.run

    def _require_consent(self) -> None:
        if self.listener.stop_requested():
            raise LinkError(f"{STOPPED} before the run began: the robot has not moved")

    def clear_injected_faults(self) -> None:
        if self.injector is not None:
            self.injector.clear()

    def _end(self) -> None:
        if self.run.ended == STOPPED:
            self.clear_injected_faults()
        try:
            self.session.stop()
            self.event("stopped")
        except LinkError:
            if self.injector is None or not self.injector.faults:
                raise
            self.event("the command to stop was not answered")
        self.moved = False

    def _over(self) -> tuple[str, str] | None:
        """(state, reason) where the board has ended the run; a silent board is asked for its state.

        The bench itself ends a run whose sensor is lost.
        """
        if self.sensor_error:
            answer = self.session.stop()
            return _state_and_reason(answer.state, answer.reason)
        if self.silent_ticks and self.silent_ticks % SILENT_TICKS == 0:
            if self.injector is not None and self.injector.cut:
                return None  # the link may come back
            self._heartbeat = self.session.state()  # telemetry may get lost while the robot runs on
        if self._heartbeat is not None and self._heartbeat.state not in MOVING:
            return _state_and_reason(self._heartbeat.state, self._heartbeat.reason)
        if self.last is None or self.last.state in MOVING or self.silent_ticks:
            return None
        return _state_and_reason(self.last.state, self.last.reason)

    # A tick

    def tick(self, *, running: bool) -> Row | None:
        """Samples the plant and passes a period; the last tick of the board within it, None where there was none."""
        late = self.clock.wait_until(self.time)
        if running:
            self._begin_faults()
        begun, before = time.perf_counter(), len(self.run.rows)
        self._collect(running)
        sample = Measurement.sample(self.plant, self.time, arrived=begun, jitter_ms=1e3 * late)
        if self.own:
            self._miss(running and late > 0.5 * self.period)
        # A camera that is late by half a period has a newer frame soon; reading this one would delay that, too.
        elif late > 0.5 * self.period or self.reader.busy:
            self._miss(running)
        elif not self.sensor_error:
            self.reader.start(self.plant, sample)
            self.plant.told()
        if running and self.started is not None:
            self.streaming.send(self.time - self.started)
            self._path.append((self.time, sample.coordinates[len(self.plant.system.dynamic) :]))

        def serve_frames(seconds: float) -> bool:
            if not self.reader.wait(seconds):
                return False
            self._measure(running)
            return True

        left = self.io_cycles
        while left > 0:
            self._measure(running)
            left -= self.clock.pass_cycles(self.motors, left, serve_frames)
            self._receive(running)
        for event in self.plant.take_events():
            self.log.gap(event)
        for step in self.plant.walked[len(self.run.walked) :]:
            self.log.step(step)
        ticked = len(self.run.rows) > before
        self.silent_ticks = 0 if ticked else self.silent_ticks + 1
        return self.last if ticked else None

    def _miss(self, running: bool) -> None:
        """Counts a missed deadline, until the run has ended."""
        self.run.misses += running and not self.run.ended

    def _collect(self, running: bool) -> None:
        """Queues the measurement of a frame that has been read; none comes from a lost sensor."""
        try:
            seen = self.reader.take()
        except SensorError as error:
            if self.started is None:  # nothing has moved yet
                raise
            self.sensor_error = str(error)
            return
        if seen is not None:
            self._queue(seen, running)

    def _queue(self, seen: Measurement, running: bool) -> None:
        """Queues a measurement for the board, with its delay and with what injected faults do to it."""
        delay = self.latency + (0.0 if self.frame_delay is None else self.frame_delay.next())
        seen = replace(seen, due=seen.time + delay, age=self.time - seen.time)
        if self.injector is not None and running:
            seen = self.injector.apply(seen)
        self._pending.append(seen.encoded(self.codec))

    def _begin_faults(self) -> None:
        if self.injector is None or self.started is None:
            return
        for fault in self.injector.begin(self.time - self.started, self.plant):
            self.event(f"fault{' by the operator' * fault.by_operator}: {fault.kind}")
            if fault.kind == "reset" and self.board is not None:
                self.board.reset()
                self._heartbeat = self.session.link.connect()
                self._sent(Sent("reset", self.session.stamp_us))
                self.motors.answers = False
            elif fault.kind == "unplugged":
                self.sensor.unplug()

    def _measure(self, running: bool) -> None:
        """Sends measurements that are due, and logs their ticks where the clock waits for them."""
        self._collect(running)
        while self._pending and self._pending[0].due <= self.time + 1e-9:
            measurement = self._pending.popleft()
            telemetry = self.clock.send(self.session, measurement)
            if telemetry is None:
                self._unanswered[self.session.sequence] = measurement
                continue
            answered = self.motors.answers = bool(telemetry) and telemetry[-1].sequence == self.session.sequence
            self._miss(running and not answered)
            for message in telemetry[:-1] if answered else telemetry:
                self._log_tick(message, None, running)
            if answered:
                self._log_tick(telemetry[-1], measurement, running)  # without latency: time waited

    def _receive(self, running: bool) -> None:
        """Logs ticks that the board has reported meanwhile, and takes its heartbeat."""
        now = time.perf_counter()
        for message in self.session.ticks():
            if self.own:
                self._log_own_tick(message, running)
                continue
            sent = self._unanswered.pop(message.sequence, None)
            if sent is not None:
                self._miss(running and self.clock.lateness(sent.due) > self.period)
                sent = replace(sent, latency_ms=1e3 * (now - sent.arrived))
            self._log_tick(message, sent, running)
        for number in [n for n in self._unanswered if n <= self.session.sequence - SILENT_TICKS]:
            del self._unanswered[number]
            self._miss(running)
        # Heartbeats come by the computer's clock: after a cut the run would depend on when the next one comes.
        if self.injector is None or not self.injector.cuts:
            self._heartbeat = self.session.last_heartbeat() or self._heartbeat

    # The log

    def _log_tick(self, message: Message, sent: Measurement | None, running: bool) -> None:
        """Logs a tick with the measurement it followed, None where the board ran it without one."""
        seen = Measurement.sample(self.plant, self.time) if sent is None else sent
        self._logged(message, seen, running, measured=sent is not None)

    def _log_own_tick(self, message: Message, running: bool) -> None:
        """Logs a tick that followed what the board itself has measured."""
        seen, measured = self.motors.sample, self.session.own_measurement(message.sequence)
        if measured is not None:
            raw = tuple(measured.z[: len(seen.z)])
            seen = replace(seen, z=self.codec.decode("measurement", raw), valid=measured.valid, raw=raw)
        running = running and message.state != ARMED  # in real time sent before it received "run"
        self._logged(message, seen, running, measured=measured is not None)

    def _logged(self, message: Message, seen: Measurement, running: bool, *, measured: bool) -> None:
        self.streaming.collect(self.time)
        self.last = self.log.tick(self.time, message, seen, running=running, measured=measured)

    def _sent(self, sent: Sent) -> None:
        if self.injector is None or self.injector.port.delivered:
            super()._sent(sent)


def _state_and_reason(state: int, reason: int) -> tuple[str, str]:
    return dialect.word("STEPMAP_STATE", state), Reason(reason).name.lower()
