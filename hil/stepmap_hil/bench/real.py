"""A run with a real robot: its board turns the motors, a Kinect watches, someone stands beside it.

Nothing moves before someone agrees. From arming to the end any key stops the robot, as do an error, Ctrl-C, a robot
that leaves its room, and the board itself when it sees nothing for 250 ms.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import LinkError
from stepmap_hil.bench.operator import Operator
from stepmap_hil.bench.sequencer import Conductor
from stepmap_hil.bench.setup import Setup
from stepmap_hil.runs.fault_verdict import MOVING
from stepmap_hil.runs.listener import Onlooker
from stepmap_hil.runs.log import STOPPED, Row, Run, Stop, Watch
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.sensors.measurement import Measurement
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.reasons import EXPLANATIONS, Reason, explain
from stepmap_hil.wire.session import PATIENCE

SLICE = 0.005  # s that a frame is waited for before keys and the board are heard
LOOK = 15  # frames that are looked at before anything moves
FAR = 5.0  # standard deviations of the first estimate that the mechanism may be from where the plan begins
CALIBRATING = 10.0  # s until a board that does not calibrate is given up
KEPT = 64  # measurements whose answers are waited for

ARMED = dialect.value("STEPMAP_STATE_ARMED")


class Eye(Protocol):
    """Whatever watches the robot."""

    def next(self, timeout: float) -> Measurement | None: ...


class ObjectionError(LinkError):
    """Someone pressed a key before the run."""


class RobotRun(Conductor):
    """One robot, one run."""

    def __init__(
        self,
        setup: Setup,
        link: Link,
        eye: Eye,
        operator: Operator,
        *,
        recorder: Recorder | None = None,
        onlooker: Onlooker | None = None,
    ) -> None:
        run = Run(setup.job.name, setup.firmware.board, "realtime", plant="real")
        super().__init__(setup, link, run, options=(), recorder=recorder, onlooker=onlooker)
        self.eye, self.operator, self.room = eye, operator, setup.room()
        step = setup.controller.plant.step
        self._nq = step.nd + step.nk
        self._begun = time.monotonic()
        self._pending: dict[int, Measurement] = {}  # by sequence
        self._last_frame: float | None = None

    @property
    def time(self) -> float:
        """Seconds since this object was made."""
        return time.monotonic() - self._begun

    # Before the run

    def prepare(self, countdown: float) -> None:
        """Looks whether the robot stands where the plan begins, asks, calibrates, arms and counts down."""
        self.session.ready(self.session.connect())
        self.session.require_schedule(self.session.state())
        self._require_start(self._look())
        if not self.operator.agrees("The robot is about to be armed: keep clear of it. From then on any key stops it."):
            raise ObjectionError("left before the robot was armed: nothing has moved")
        self.moved = True
        self._calibrate()
        self._pending.clear()  # what calibrates makes no tick
        self.session.arm()
        self.event("armed")
        self.operator.tell("armed. ANY KEY STOPS THE ROBOT")
        end, told = self.time + countdown, 0
        while (left := end - self.time) > 0:
            if told != int(np.ceil(left)):
                told = int(np.ceil(left))
                self.operator.tell(f"{told} …")
            self.turn(running=False)
            self._heed_operator()

    def _heed_operator(self) -> None:
        if self.operator.objects() or self.onlooker.stops():
            self.session.stop()
            self.moved = False
            self.event("stopped")
            raise ObjectionError(f"{STOPPED} before the run began")

    def _look(self) -> list[Measurement]:
        seen: list[Measurement] = []
        while len(seen) < LOOK:
            measurement = self.eye.next(1.0)
            if measurement is None:
                raise LinkError("the Kinect sends no frames: check its plugs, then try again")
            seen.append(measurement)
        return seen

    def _require_start(self, seen: Sequence[Measurement]) -> None:
        """Raises where a channel is not seen, or is far from where the plan begins."""
        begin = np.asarray(self.job.system.readings(self.job.pose), dtype=float)
        allowed = FAR * self._start_spread(begin)
        far = []
        for k, name in enumerate(self.words.names("measurement")):
            values = [one.z[k] for one in seen if one.valid >> k & 1]
            if 2 * len(values) < len(seen):
                raise LinkError(
                    f"{name} is seen in {len(values)} of {len(seen)} frames: is anything before the camera?"
                )
            if abs(np.median(values) - begin[k]) > allowed[k]:
                far.append(f"{name} is at {np.median(values):.3f}, not {begin[k]:.3f}")
        if far:
            raise LinkError(
                f"the robot is not where the plan begins: {'; '.join(far)}. Move it there, then start again"
            )

    def _start_spread(self, begin: Array) -> Array:
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
        self.operator.tell("calibrating: nothing moves yet")
        busy, deadline = dialect.value("STEPMAP_STATE_CALIBRATING"), self.time + CALIBRATING
        beat: Message | None = None
        self.session.told()
        while beat is None or beat.state == busy:
            self.turn(running=False)
            self._heed_operator()
            beat = self.session.told() or beat
            if self.time > deadline:
                raise LinkError(f"the board did not calibrate within {CALIBRATING:g} s: does it get measurements?")
        if not beat.flags & dialect.value("STEPMAP_FLAG_CALIBRATED"):
            raise LinkError(f"the board could not calibrate: {explain(beat.reason)}")

    # The run

    def go(self, ticks: int, watch: Watch | None = None) -> Run:
        """Runs the schedule for some ticks, then stops."""
        self.session.run()
        self.session.told()
        self.event("running")
        self.operator.tell("running. ANY KEY STOPS THE ROBOT")
        quiet = self.time
        while not self.run.ended:
            rows = self.turn(running=True)
            quiet = self.time if rows else quiet
            self.run.ended = self._why(rows, quiet, watch)
            if rows and rows[-1].tick + 1 >= ticks:
                break
        self.session.stop()
        self.moved = False
        self.event("stopped")
        return self.run

    def _why(self, rows: Sequence[Row], quiet: float, watch: Watch | None) -> str:
        """Why the run must end now; empty where it need not."""
        if self.operator.objects() or self.onlooker.stops():
            return STOPPED
        if self.time - quiet > PATIENCE:
            return f"the board said nothing for {PATIENCE:g} s"
        if self.recording_ended():
            return self.recording_ended()
        beat = self.session.told()
        if beat is not None and beat.state not in MOVING:
            state, reason = dialect.word("STEPMAP_STATE", beat.state), Reason(beat.reason)
            self.run.stop = Stop(state, reason.name.lower(), self.time)
            return f"{state}: {EXPLANATIONS[reason].meaning}"
        for row in rows:
            outside = self.room.left(np.asarray(row.coordinates))
            if outside is not None:
                return f"the robot left its room: {outside}"
            if watch is not None and not watch(row):
                return STOPPED
        return ""

    def turn(self, *, running: bool) -> list[Row]:
        """Sends a measurement if a frame has come, and hears what the board says."""
        found = self.eye.next(SLICE)
        if found is not None:
            self.session.stamp_us = round(self.time * 1e6) & 0xFFFFFFFF
            age = time.monotonic() - found.time
            sent = replace(found.encoded(self.words), time=found.time - self._begun, age=age)
            self.session.measure(sent.raw, sent.valid, sent.age)
            self._pending[self.session.sequence] = sent
            if running:
                self.run.misses += sent.skipped
            for old in [number for number in self._pending if number <= self.session.sequence - KEPT]:
                del self._pending[old]
                self.run.misses += running
        return [self._keep(message, running) for message in self.session.ticks()]

    # What is kept

    def _keep(self, message: Message, running: bool) -> Row:
        """A tick as the board told it; where the plant is, nobody knows better than its estimate."""
        sent = self._pending.pop(message.sequence, None)
        running = running and message.state != ARMED  # one may have been on its way before the board heard "run"
        estimate = self.words.decode("estimate", message.estimate[: len(self.words.fields["estimate"])])
        nz = len(self.words.fields["measurement"])
        seen = Measurement(np.zeros(nz), 0, raw=(0,) * nz) if sent is None else self._answered(sent)
        seen = replace(seen, truth=seen.z, coordinates=estimate[: self._nq])
        if running:
            self.run.misses += seen.latency_ms > 1e3 * self.period
        return self.log.tick(self.time, message, seen, running=running, measured=sent is not None)

    def _answered(self, sent: Measurement) -> Measurement:
        """With its latency, and its jitter: how far the time since the last frame is from a period."""
        before, self._last_frame = self._last_frame, sent.arrived
        jitter = 0.0 if before is None else abs(sent.arrived - before - self.period)
        return replace(sent, latency_ms=1e3 * (time.monotonic() - sent.arrived), jitter_ms=1e3 * jitter)
