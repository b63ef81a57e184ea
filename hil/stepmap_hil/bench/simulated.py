"""The bench: a board controls a simulated plant that a sensor watches.

Every tick: the sensor looks, the measurement goes to the board, its command comes back, and the motors turn while
encoder counts and efforts go back and forth. In lock-step time is the bench's, so a run gives the same numbers on
every machine; in real time it is the clock's, and what is late counts as late.
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
from stepmap_hil.bench.sequencer import Conductor
from stepmap_hil.bench.setup import Opened, Setup
from stepmap_hil.runs.fault_verdict import MOVING, Course, judge
from stepmap_hil.runs.listener import Onlooker
from stepmap_hil.runs.log import STOPPED, Row, Run, Stop, Watch
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.sensors.base import SensorError
from stepmap_hil.sensors.frame_reader import Glances
from stepmap_hil.sensors.measurement import Measurement
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.reasons import EXPLANATIONS, Reason
from stepmap_hil.wire.session import Sent

SETTLE = 10  # ticks at rest between arming and running
AFTER = 15  # ticks that are watched after the board has ended a run
SILENT = 10  # ticks without telemetry after which the board is asked what it is doing


class Bench(Conductor):
    """One board, one plant, one sensor."""

    def __init__(
        self,
        setup: Setup,
        opened: Opened,
        *,
        recorder: Recorder | None = None,
        onlooker: Onlooker | None = None,
    ) -> None:
        run = Run(setup.job.name, setup.firmware.board, setup.mode)
        self.clock = setup.clock()
        super().__init__(setup, opened.link, run, options=self.clock.options, recorder=recorder, onlooker=onlooker)
        self.plant, self.sensor, self.board, self.injector = opened.plant, opened.sensor, opened.board, opened.injector
        self.glances = Glances(self.sensor, aside=self.clock.real_time)
        self.substeps, self.arrivals, self.latency = setup.settings.substeps, setup.arrivals(), setup.latency
        self.motors = MotorExchange(self.session, self.plant, self.period / self.substeps, self.injector)
        self.started: float | None = None
        self.last: Row | None = None
        self.quiet = 0  # ticks without telemetry
        self.lost = ""  # why the sensor is gone
        self._pending: deque[Measurement] = deque()
        self._beat: Message | None = None
        self._unanswered: dict[int, Measurement] = {}  # in real time: by sequence
        self._path: list[tuple[float, Array]] = []  # of the robot while running

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self.glances.close()

    @property
    def time(self) -> float:
        """That of the plant."""
        return self.motors.time

    # A run

    def prepare(self) -> None:
        """Connects, calibrates and arms; the filter then settles at rest."""
        beat = self.session.connect()
        self.moved = True
        self.session.ready(beat)
        self.session.calibrate(self._look, self.motors.counts())
        self._require_consent()
        self.session.arm()
        self.event("armed")
        self.clock.start(self.time)
        for _ in range(SETTLE):
            self.tick(running=False)

    def _look(self) -> tuple[list[int], int]:
        seen = self.sensor.look(self.plant, self.time)
        return self.words.encode("measurement", seen.z), seen.valid

    def go(self, ticks: int, watch: Watch | None = None) -> Run:
        """Runs the schedule for some ticks, then stops; a run that the board ends is watched a little longer."""
        self._require_consent()
        self.started = self.time
        self._begin_faults()
        self.session.run()
        self.session.told()
        self._beat = None
        self.event("running")
        over, end = None, np.inf
        for _ in range(ticks):
            self.tick(running=True)
            watched = watch is None or self.last is None or watch(self.last)
            if not watched or self.onlooker.stops():
                self.run.ended = STOPPED
                break
            if self.recording_ended():
                self.run.ended = self.recording_ended()
                self.run.broken = True
                break
            if (over := self._over()) is not None:
                end = self.time - self.started
                self.run.ended = self.lost or f"{over[0]}: {EXPLANATIONS[Reason[over[1].upper()]].meaning}"
                self.run.stop = None if self.lost else Stop(*over, self.time)
                self.run.broken = bool(self.lost)
                self.event(self.run.ended)
                for _ in range(AFTER):
                    self.tick(running=True)
                break
        self._begin_faults()
        self._end()
        if self.injector is not None:
            course = Course.of(self.controller, self.run.rows, self.started, self._path, over, end)
            self.run.results += judge(self.injector.faults, course, self.injector.happened)
        return self.run

    def _require_consent(self) -> None:
        if self.onlooker.stops():
            raise LinkError(f"{STOPPED} before the run began: the robot has not moved")

    def clear_the_line(self) -> None:
        if self.injector is not None:
            self.injector.mend()

    def _end(self) -> None:
        if self.run.ended == STOPPED:
            self.clear_the_line()
        try:
            self.session.stop()
            self.event("stopped")
        except LinkError:
            if self.injector is None or not self.injector.faults:
                raise
            self.event("the command to stop was not answered")
        self.moved = False

    def _over(self) -> tuple[str, str] | None:
        """(state, reason) where the board has ended the run; one that keeps silent is looked after.

        Without a sensor the run is ended from here.
        """
        if self.lost:
            answer = self.session.stop()
            return _told(answer.state, answer.reason)
        if self.quiet and self.quiet % SILENT == 0:
            if self.injector is not None and self.injector.cut:
                return None  # the link may come back
            self._beat = self.session.state()  # telemetry may get lost, and the robot does not mind
        if self._beat is not None and self._beat.state not in MOVING:
            return _told(self._beat.state, self._beat.reason)
        if self.last is None or self.last.state in MOVING or self.quiet:
            return None
        return _told(self.last.state, self.last.reason)

    # A tick

    def tick(self, *, running: bool) -> Row | None:
        """Looks, and lets a period pass; the last that was heard from the board, None where nothing was."""
        late = self.clock.wait_until(self.time)
        if running:
            self._begin_faults()
        begun, before = time.perf_counter(), len(self.run.rows)
        self._collect(running)
        sample = Measurement.sample(self.plant, self.time, arrived=begun, jitter_ms=1e3 * late)
        # A camera that is late by half a period has a newer frame soon; to look at this one delays that, too.
        if late > 0.5 * self.period or self.glances.busy:
            self._miss(running)
        elif not self.lost:
            self.glances.look(self.plant, sample)
        if running:
            self._path.append((self.time, sample.coordinates[self.plant.nd :]))

        def serve_frames(seconds: float) -> bool:
            if not self.glances.wait(seconds):
                return False
            self._measure(running)
            return True

        left = self.substeps
        while left > 0:
            self._measure(running)
            left -= self.clock.pass_cycles(self.motors, left, serve_frames)
            self._hear(running)
        heard = len(self.run.rows) > before
        self.quiet = 0 if heard else self.quiet + 1
        return self.last if heard else None

    def _collect(self, running: bool) -> None:
        """Takes a frame that has been read."""
        frame = self._frame()
        if frame is not None:
            self._hand_on(frame, running)

    def _miss(self, running: bool) -> None:
        """A deadline; nobody keeps one where the board has ended the run."""
        self.run.misses += running and not self.run.ended

    def _frame(self) -> Measurement | None:
        """What has been seen; nothing from when the sensor is gone."""
        try:
            return self.glances.seen()
        except SensorError as error:
            if self.started is None:  # nothing has moved yet
                raise
            self.lost = str(error)
            return None

    def _hand_on(self, seen: Measurement, running: bool) -> None:
        """Puts a measurement on its way to the board."""
        delay = self.latency + (0.0 if self.arrivals is None else self.arrivals.next())
        seen = replace(seen, due=seen.time + delay, age=self.time - seen.time)
        if self.injector is not None and running:
            seen = self.injector.apply(seen)
        self._pending.append(seen.encoded(self.words))

    def _begin_faults(self) -> None:
        if self.injector is None or self.started is None:
            return
        for fault in self.injector.begin(self.time - self.started, self.plant):
            self.event(f"fault{' by hand' * fault.by_hand}: {fault.kind}")
            if fault.kind == "reset" and self.board is not None:
                self.board.reset()
                self._beat = self.session.link.connect()
                self._sent(Sent("reset", self.session.stamp_us))
                self.motors.answers = False
            elif fault.kind == "unplugged":
                self.sensor.unplug()

    def _measure(self, running: bool) -> None:
        """Sends measurements that are due, and in lock-step hears what the board makes of them."""
        self._collect(running)
        while self._pending and self._pending[0].due <= self.time + 1e-9:
            measurement = self._pending.popleft()
            heard = self.clock.send(self.session, measurement)
            if heard is None:
                self._unanswered[self.session.sequence] = measurement
                continue
            answered = self.motors.answers = bool(heard) and heard[-1].sequence == self.session.sequence
            self._miss(running and not answered)
            for message in heard[:-1] if answered else heard:
                self._keep(message, None, running)
            if answered:
                self._keep(heard[-1], measurement, running)  # no latency: nobody waits for the clock

    def _hear(self, running: bool) -> None:
        """Keeps what the board has told meanwhile."""
        now = time.perf_counter()
        for message in self.session.ticks():
            sent = self._unanswered.pop(message.sequence, None)
            if sent is not None:
                self._miss(running and self.clock.lateness(sent.due) > self.period)
                sent = replace(sent, latency_ms=1e3 * (now - sent.arrived))
            self._keep(message, sent, running)
        for number in [n for n in self._unanswered if n <= self.session.sequence - SILENT]:
            del self._unanswered[number]
            self._miss(running)
        # A heartbeat that gets lost with the rest comes again when the clock wants: then the run depends on it.
        if self.injector is None or not self.injector.cuts:
            self._beat = self.session.told() or self._beat

    # What is kept

    def _keep(self, message: Message, sent: Measurement | None, running: bool) -> None:
        """Logs a tick with the measurement it followed, None where the board did it without one."""
        seen = Measurement.sample(self.plant, self.time) if sent is None else sent
        self.last = self.log.tick(self.time, message, seen, running=running, measured=sent is not None)

    def _sent(self, sent: Sent) -> None:
        if self.injector is None or self.injector.port.delivered:
            super()._sent(sent)


def _told(state: int, reason: int) -> tuple[str, str]:
    return dialect.word("STEPMAP_STATE", state), Reason(reason).name.lower()
