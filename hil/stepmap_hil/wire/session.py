"""The session with one board: measurements out, telemetry back; motors and time are those of messages.

No timeout decides what a run does: a ping follows every message that the board may leave unanswered, and its reply
shows that the board has handled all before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stepmap.errors import LinkError, ModelError
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.reasons import explain

VIRTUAL = ("virtual_io", "virtual_time")
MAX_CALIBRATION_MEASUREMENTS = 256  # the board needs 64 with all channels valid
TIMEOUT_S = 5.0  # for an answer
CALIBRATION_TIMEOUT_S = 10.0


@dataclass
class Actuators:
    """Efforts of the motors as the board commands them [per mille]."""

    effort: tuple[int, ...]
    enabled: bool


@dataclass(frozen=True)
class Sent:
    """A message that was sent; kind is "command", "measurement", "encoder", "set_point", or "reset" of the board."""

    kind: str
    stamp_us: int
    text: str = ""
    sequence: int = 0
    words: tuple[int, ...] = ()  # raw values or counts
    valid: int = 0  # channels of a measurement, alarms of encoders: a bit each


class Session:
    """One board in the time of ``stamp_us``; ``log`` is called with every message that is sent.

    ``schedule`` is the one a board must follow to be armed: the first bytes of its SHA-256, as heartbeats have them.
    """

    def __init__(
        self,
        link: Link,
        codec: SignalCodec,
        *,
        options: Sequence[str] = VIRTUAL,
        schedule: bytes | None = None,
        log: Callable[[Sent], None] | None = None,
    ) -> None:
        self.link, self.codec, self.options, self.schedule = link, codec, tuple(options), schedule
        self.stamp_us = 1_000_000
        self.sequence = 0
        self.set_points = 0  # sent so far
        self._fence = 0
        self._own: dict[int, Message] = {}  # measurements of the board, by sequence
        self._log = log or (lambda sent: None)

    def connect(self, timeout: float = 5.0) -> Message:
        """The board's heartbeat; refuses a board with another model."""
        heartbeat = self.link.connect(timeout)
        if bytes(heartbeat.model) != self.codec.model:
            raise ModelError(
                f"the board runs model {bytes(heartbeat.model).hex()}, and this job is {self.codec.model.hex()}: "
                "build and flash the job's firmware first"
            )
        return heartbeat

    def ready(self, heartbeat: Message) -> None:
        """Brings the board to idle from any state."""
        idle, stopped, fault = (dialect.value(f"STEPMAP_STATE_{name}") for name in ("IDLE", "STOPPED", "FAULT"))
        state = heartbeat.state
        if state != idle:
            state = self.stop().state
        if state in (stopped, fault):
            self.command("reset_fault")

    def calibrate(self, look: Callable[[], tuple[Sequence[int], int]], counts: Sequence[int]) -> None:
        """At rest: the board takes the mean of measured positions as the zero of its encoders.

        ``look`` gives raw values and valid bits; it is called until the board has enough with all channels valid.
        """
        self.command("calibrate", *self.options)
        self.last_heartbeat()
        heartbeat: Message | None = None
        for _ in range(MAX_CALIBRATION_MEASUREMENTS):
            begun = time.perf_counter()
            self.encoders(counts)  # its answer comes after the heartbeat of a calibration that has ended
            heartbeat = self.last_heartbeat() or heartbeat
            if heartbeat is not None and heartbeat.state != dialect.value("STEPMAP_STATE_CALIBRATING"):
                break
            self.measure(*look())
            real_time = "virtual_time" not in self.options  # the board rejects old stamps by its own clock
            self.pass_time(time.perf_counter() - begun if real_time else 0.02)
        else:
            raise LinkError(
                f"the board did not calibrate with {MAX_CALIBRATION_MEASUREMENTS} measurements: is everything in view?"
            )
        if not heartbeat.flags & dialect.value("STEPMAP_FLAG_CALIBRATED"):
            raise LinkError(f"the board could not calibrate: {explain(heartbeat.reason)}")

    def calibrate_encoders(self, counts: Sequence[int]) -> None:
        """At rest at the start: the board takes what its encoders show, here ``counts``, as the start."""
        self.command("calibrate", *self.options)
        self.last_heartbeat()
        heartbeat: Message | None = None
        deadline = time.monotonic() + CALIBRATION_TIMEOUT_S
        while heartbeat is None or heartbeat.state == dialect.value("STEPMAP_STATE_CALIBRATING"):
            self.encoders(counts)
            heartbeat = self.last_heartbeat() or heartbeat
            if "virtual_time" not in self.options:
                time.sleep(min(self.codec.period, 0.01))
            self.pass_time(self.codec.period)
            if time.monotonic() > deadline:
                raise LinkError(f"the board did not calibrate its encoders within {CALIBRATION_TIMEOUT_S:g} s")
        if not heartbeat.flags & dialect.value("STEPMAP_FLAG_CALIBRATED"):
            raise LinkError(f"the board could not calibrate: {explain(heartbeat.reason)}")

    def state(self) -> Message:
        """The next heartbeat, after discarding those already received."""
        while self.link.poll("HEARTBEAT") is not None:
            pass
        deadline = time.monotonic() + TIMEOUT_S
        while (left := deadline - time.monotonic()) > 0:
            heartbeat = self.link.receive("HEARTBEAT", timeout=left)
            if heartbeat is not None and self.link.believes(heartbeat):
                return heartbeat
        raise LinkError(f"the board sent no heartbeat for {TIMEOUT_S:g} s: is it still connected?")

    def last_heartbeat(self) -> Message | None:
        """The latest heartbeat received, if any; the board sends one at every change of state."""
        found = None
        while (heartbeat := self.link.poll("HEARTBEAT")) is not None:
            found = heartbeat if self.link.believes(heartbeat) else found
        return found

    def arm(self) -> None:
        self.require_schedule(self.state())
        self.command("arm", *self.options)

    def require_schedule(self, heartbeat: Message) -> None:
        """Raises where the board would follow another schedule than this job's."""
        used = bytes(heartbeat.schedule)
        if self.schedule is None or used == self.schedule:
            return
        follows = f"follows schedule {used.hex()}" if any(used) else "has no schedule"
        takes = heartbeat.flags & dialect.value("STEPMAP_FLAG_TAKES_UPLOADS")
        raise LinkError(
            f"the board {follows}, and this job's is {self.schedule.hex()}: "
            + ("upload it (stepmap upload)" if takes else "it takes no uploads, so build and flash the job's firmware")
        )

    def run(self) -> None:
        self.command("run")

    def stop(self, timeout: float = 2.0) -> Message:
        return self.command("stop", timeout=timeout)

    def command(self, name: str, *options: str, timeout: float = 2.0) -> Message:
        answer = self.link.command(name, *options, timeout=timeout)
        self._log(Sent("command", self.stamp_us, text=name))
        return answer

    def pass_time(self, seconds: float) -> None:
        self.stamp_us = (self.stamp_us + round(seconds * 1e6)) & 0xFFFFFFFF

    def encoders(self, counts: Sequence[int], alarms: int = 0) -> Actuators:
        """Sends encoder counts and alarms (bits of STEPMAP_ALARM); the efforts in answer."""
        self._send_encoders(counts, alarms)
        while True:
            answer = self._receive("VIRTUAL_ACTUATOR")
            if answer.stamp_us == self.stamp_us:
                return self._actuators(answer)

    def ask_encoders(self, counts: Sequence[int], alarms: int = 0) -> Actuators | None:
        """The same; None where the board does not answer, as after a reset."""
        self._send_encoders(counts, alarms)
        self._send_fence()
        while True:
            answer = self._receive("VIRTUAL_ACTUATOR", "PING")
            if answer.name == "PING":
                if answer.sequence == self._fence:
                    return None
            elif answer.stamp_us == self.stamp_us:
                return self._actuators(answer)

    def _actuators(self, answer: Message) -> Actuators:
        return Actuators(tuple(answer.effort[: len(self.codec.names("command"))]), bool(answer.enabled))

    def _send_encoders(self, counts: Sequence[int], alarms: int) -> None:
        self.link.send("VIRTUAL_ENCODER", stamp_us=self.stamp_us, counts=counts, alarms=alarms)
        self._log(Sent("encoder", self.stamp_us, words=tuple(counts), valid=alarms))

    def measure(self, z: Sequence[int], valid: int, age: float = 0.0) -> None:
        """Sends raw values that were sampled ``age`` seconds ago."""
        self.sequence += 1
        fields: dict[str, Any] = {"stamp_us": self.stamp_us, "sequence": self.sequence, "valid": valid}
        self.link.send("MEASUREMENT", z=z, age_us=min(round(1e6 * max(age, 0.0)), 0xFFFFFFFF), **fields)
        self._log(Sent("measurement", words=tuple(z), **fields))

    def set_point(self, values: Sequence[int]) -> None:
        """Sends raw values that the board is to move to."""
        self.set_points += 1
        self.link.send("SET_POINT", sequence=self.set_points, values=values)
        self._log(Sent("set_point", self.stamp_us, sequence=self.set_points, words=tuple(values)))

    def followed(self) -> list[Message]:
        """What the board has said of set-points since the last call."""
        told: list[Message] = []
        while (message := self.link.poll("SET_POINT_STATUS")) is not None:
            told.append(message)
        return told

    def tick(self, z: Sequence[int], valid: int) -> list[Message]:
        """Sends a measurement; telemetry up to its answer, or without one where the board rejected it."""
        self.measure(z, valid)
        self._send_fence()
        telemetry: list[Message] = []
        while True:
            answer = self._receive("TELEMETRY", "PING")
            if answer.name == "TELEMETRY":
                telemetry.append(answer)
                if answer.sequence == self.sequence:
                    return telemetry
            elif answer.sequence == self._fence:
                return telemetry

    def ticks(self) -> list[Message]:
        """Telemetry already received."""
        telemetry: list[Message] = []
        while (message := self.link.poll("TELEMETRY")) is not None:
            telemetry.append(message)
        return telemetry

    def own_measurement(self, sequence: int) -> Message | None:
        """What a board that measures itself has measured for a tick, after that tick's telemetry; None where lost."""
        while (message := self.link.poll("MEASUREMENT")) is not None:
            self._own[message.sequence] = message
        found = self._own.pop(sequence, None)
        self._own = {number: one for number, one in self._own.items() if number > sequence}
        return found

    def _send_fence(self) -> None:
        while self.link.poll("PING") is not None:
            pass  # replies to earlier fences
        self._fence = (self._fence + 1) & 0xFFFFFFFF
        self.link.send("PING", sequence=self._fence, stamp_us=self.stamp_us)

    def _receive(self, *names: str) -> Message:
        answer = self.link.receive(*names, timeout=TIMEOUT_S)
        if answer is None:
            raise LinkError(f"the board did not answer for {TIMEOUT_S:g} s: is it still running?")
        return answer
