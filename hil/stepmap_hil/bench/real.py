"""A run with a real robot: its board turns the motors, a sensor or the board measures, an operator stands by.

Nothing moves before the operator agrees. From arming to the end any key stops the robot, as do an error, Ctrl-C, a
robot that leaves its limits, and the board itself when it gets no measurement for 250 ms.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import LinkError
from stepmap_hil.bench.operator import Operator
from stepmap_hil.bench.sequencer import RunSequencer
from stepmap_hil.bench.setup import Setup
from stepmap_hil.runs.fault_verdict import MOVING
from stepmap_hil.runs.listener import RunListener
from stepmap_hil.runs.log import STOPPED, Row, Run, Stop, Watch
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.sensors.base import checked
from stepmap_hil.sensors.live import MeasurementSource
from stepmap_hil.sensors.measurement import Measurement
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.reasons import EXPLANATIONS, Reason, explain
from stepmap_hil.wire.session import TIMEOUT_S

POLL_S = 0.005  # that a frame is waited for before keys and telemetry are read
START_FRAMES = 15  # by which the start is checked before anything moves
MAX_START_SIGMAS = 5.0  # standard deviations of the first estimate from the start of the nominal trajectory
CALIBRATION_TIMEOUT_S = 10.0
FRESH_S = 1.0  # at most after the countdown, until the board has a measurement that is fresh enough to run
MAX_UNANSWERED = 64  # measurements whose answers are waited for

ARMED = dialect.value("STEPMAP_STATE_ARMED")


class ObjectionError(LinkError):
    """The operator stopped before the run."""


class RobotRun(RunSequencer):
    """One robot, one run."""

    def __init__(
        self,
        setup: Setup,
        link: Link,
        camera: MeasurementSource,
        operator: Operator,
        *,
        recorder: Recorder | None = None,
        listener: RunListener | None = None,
    ) -> None:
        run = Run(setup.job.name, setup.firmware.board, "realtime", plant="real")
        super().__init__(setup, link, run, options=(), recorder=recorder, listener=listener)
        self.camera, self.operator, self.workspace = camera, operator, setup.workspace()
        self.sensor_name = setup.sensor_name
        self._channels = [name for name, _ in self.job.system.sensor_channels]
        self._pose = setup.controller.plant.step.layout.pose
        self.own = bool(setup.controller.encoders)  # the board measures itself
        self._begun = time.monotonic()
        self._unanswered: dict[int, Measurement] = {}  # by sequence
        self._last_frame: float | None = None
        self._started = 0.0  # when the run began
        self._streamed = 0  # ticks since then, whose set-points are sent

    @property
    def time(self) -> float:
        """Seconds since this object was made."""
        return time.monotonic() - self._begun

    # Before the run

    def prepare(self, countdown: float) -> None:
        """Checks that the robot stands at the start, asks the operator, calibrates, arms and counts down."""
        self.session.ready(self.session.connect())
        self.session.require_schedule(self.session.state())
        if not self.own:  # else the board takes where the robot stands as the start
            self._require_start(self._start_measurements())
        if not self.operator.confirms(
            "The robot is about to be armed: keep clear of it. From then on any key stops it."
        ):
            raise ObjectionError("left before the robot was armed: nothing has moved")
        self.moved = True
        self._calibrate()
        self._unanswered.clear()  # measurements of the calibration make no tick
        self.session.arm()
        self.event("armed")
        self.operator.report("armed. ANY KEY STOPS THE ROBOT")
        end, shown = self.time + countdown, 0
        while (left := end - self.time) > 0:
            if shown != int(np.ceil(left)):
                shown = int(np.ceil(left))
                self.operator.report(f"{shown} …")
            self.cycle(running=False)
            self._require_no_stop()
        self._await_measurement()

    def _await_measurement(self) -> None:
        """Returns when the board has ticked with a measurement: it runs with no old one. In vain only for a while."""
        end = self.time + FRESH_S
        while self.time < end and not any(row.measured for row in self.cycle(running=False)):
            self._require_no_stop()

    def _require_no_stop(self) -> None:
        if self.operator.stop_requested() or self.listener.stop_requested():
            self.session.stop()
            self.moved = False
            self.event("stopped")
            raise ObjectionError(f"{STOPPED} before the run began")

    def _next(self, timeout: float) -> Measurement | None:
        found = self.camera.next(timeout)
        return None if found is None else checked(found, self._channels)

    def _start_measurements(self) -> list[Measurement]:
        seen: list[Measurement] = []
        while len(seen) < START_FRAMES:
            measurement = self._next(1.0)
            if measurement is None:
                raise LinkError(f"the sensor {self.sensor_name!r} sends nothing: check its plugs, then try again")
            seen.append(measurement)
        return seen

    def _require_start(self, seen: Sequence[Measurement]) -> None:
        """Raises where a channel is not seen, or is far from the start of the nominal trajectory."""
        begin = np.asarray(self.job.system.readings(self.job.pose), dtype=float)
        allowed = MAX_START_SIGMAS * self._start_sigma(begin)
        away = []
        for k, (name, unit) in enumerate(self.job.system.sensor_channels):
            values = [one.z[k] for one in seen if one.valid >> k & 1]
            if 2 * len(values) < len(seen):
                raise LinkError(
                    f"{name} is seen in {len(values)} of {len(seen)} measurements: is anything before the sensor?"
                )
            if abs(np.median(values) - begin[k]) > allowed[k]:
                away.append(f"{name} is at {np.median(values):.3f}, not {begin[k]:.3f} {unit}".rstrip())
        if away:
            raise LinkError(
                f"the robot is not where the plan begins: {'; '.join(away)}. Move it there, then start again"
            )

    def _start_sigma(self, begin: Array) -> Array:
        """Standard deviations of measurements at the start: of the first estimate, and of the measurement itself."""
        noise, system = self.job.noise, self.job.system
        if noise is None:
            raise TypeError("a controller was made with noise")
        q = np.asarray(self.job.pose, dtype=float)
        moved = [np.asarray(system.readings(q + 1e-6 * e), dtype=float) for e in np.eye(len(q))]
        jacobian = (np.array(moved) - begin).T / 1e-6
        spread: Array = np.sqrt(jacobian**2 @ noise.start[: len(q)] ** 2 + noise.measurement**2)
        return spread

    def _calibrate(self) -> None:
        self.session.command("calibrate")
        self.operator.report("calibrating: nothing moves yet")
        busy, deadline = dialect.value("STEPMAP_STATE_CALIBRATING"), self.time + CALIBRATION_TIMEOUT_S
        heartbeat: Message | None = None
        self.session.last_heartbeat()
        while heartbeat is None or heartbeat.state == busy:
            self.cycle(running=False)
            self._require_no_stop()
            heartbeat = self.session.last_heartbeat() or heartbeat
            if self.time > deadline:
                asked = "do its encoders rest?" if self.own else "does it get measurements?"
                raise LinkError(f"the board did not calibrate within {CALIBRATION_TIMEOUT_S:g} s: {asked}")
        if not heartbeat.flags & dialect.value("STEPMAP_FLAG_CALIBRATED"):
            raise LinkError(f"the board could not calibrate: {explain(heartbeat.reason)}")

    # The run

    def go(self, ticks: int, watch: Watch | None = None) -> Run:
        """Runs the schedule for some ticks, then stops."""
        self.session.run()
        self.session.last_heartbeat()
        self.event("running")
        self._started = self.time
        self.operator.report("running. ANY KEY STOPS THE ROBOT")
        last_tick = self.time
        while not self.run.ended:
            rows = self.cycle(running=True)
            last_tick = self.time if rows else last_tick
            self.run.ended = self._end_reason(rows, last_tick, watch)
            if rows and rows[-1].tick + 1 >= ticks:
                break
        self.session.stop()
        self.moved = False
        self.event("stopped")
        return self.run

    def _end_reason(self, rows: Sequence[Row], last_tick: float, watch: Watch | None) -> str:
        """Why the run must end now; empty while it goes on."""
        if self.operator.stop_requested() or self.listener.stop_requested():
            return STOPPED
        if self.time - last_tick > TIMEOUT_S:
            return f"the board said nothing for {TIMEOUT_S:g} s"
        if self.recording_ended():
            return self.recording_ended()
        heartbeat = self.session.last_heartbeat()
        if heartbeat is not None and heartbeat.state not in MOVING:
            state, reason = dialect.word("STEPMAP_STATE", heartbeat.state), Reason(heartbeat.reason)
            self.run.stop = Stop(state, reason.name.lower(), self.time)
            return f"{state}: {EXPLANATIONS[reason].meaning}"
        for row in rows:
            outside = self.workspace.violation(np.asarray(row.coordinates))
            if outside is not None:
                return f"the robot left its workspace: {outside}"
            if watch is not None and not watch(row):
                return STOPPED
        return ""

    def cycle(self, *, running: bool) -> list[Row]:
        """Sends a measurement if a frame has come; the ticks that the board has reported since the last call."""
        found = self._next(POLL_S)
        if running and self.time - self._started >= self._streamed * self.period:
            self.streaming.send(self._streamed * self.period)
            self._streamed += 1
        if found is not None:
            self.session.stamp_us = round(self.time * 1e6) & 0xFFFFFFFF
            age = time.monotonic() - found.time
            sent = replace(found.encoded(self.codec), time=found.time - self._begun, age=age)
            self.session.measure(sent.raw, sent.valid, sent.age)
            self._unanswered[self.session.sequence] = sent
            if running:
                self.run.misses += sent.skipped
            for old in [number for number in self._unanswered if number <= self.session.sequence - MAX_UNANSWERED]:
                del self._unanswered[old]
                self.run.misses += running
        rows = [self._log_tick(message, running) for message in self.session.ticks()]
        self.streaming.collect(self.time)
        return rows

    # The log

    def _log_tick(self, message: Message, running: bool) -> Row:
        """Logs a tick; the estimate stands for the coordinates of the plant, which are not known."""
        sent = self._unanswered.pop(message.sequence, None)
        running = running and message.state != ARMED  # the board may have sent it before it received "run"
        estimate = self.codec.decode("estimate", message.estimate[: len(self.codec.fields["estimate"])])
        nz = len(self.codec.fields["measurement"])
        seen = Measurement(np.zeros(nz), 0, raw=(0,) * nz) if sent is None else self._answered(sent)
        own = self.session.own_measurement(message.sequence) if self.own else None
        if own is not None:
            raw = tuple(own.z[:nz])
            seen = replace(seen, z=self.codec.decode("measurement", raw), valid=own.valid, raw=raw)
        seen = replace(seen, truth=seen.z, coordinates=self._pose(estimate))
        if running:
            self.run.misses += seen.latency_ms > 1e3 * self.period
        return self.log.tick(self.time, message, seen, running=running, measured=bool(sent or own))

    def _answered(self, sent: Measurement) -> Measurement:
        """With its latency, and its jitter: how far the time since the last frame is from a period."""
        before, self._last_frame = self._last_frame, sent.arrived
        jitter = 0.0 if before is None else abs(sent.arrived - before - self.period)
        return replace(sent, latency_ms=1e3 * (time.monotonic() - sent.arrived), jitter_ms=1e3 * jitter)
