"""Speaks to one board: measurement out, telemetry back, motors and time those of messages.

Nothing is waited for that may not come: behind every question goes a ping, and when that is answered the board has
done what it was going to do.
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
from stepmap_hil.wire.raw_values import Words
from stepmap_hil.wire.reasons import explain

VIRTUAL = ("virtual_io", "virtual_time")
CALIBRATIONS = 256  # measurements that a board is shown at most; it wants 64 of them
PATIENCE = 5.0  # s for an answer


@dataclass
class Actuators:
    """What the board asks of its motors."""

    effort: tuple[int, ...]
    enabled: bool


@dataclass(frozen=True)
class Sent:
    """Something that was sent: kind is "command", "measurement" or "encoder"."""

    kind: str
    stamp_us: int
    text: str = ""
    sequence: int = 0
    words: tuple[int, ...] = ()
    valid: int = 0


class Session:
    """One board in the time of ``stamp_us``; ``log`` hears all that is sent.

    ``schedule`` is what heartbeats must name, the first bytes of its SHA-256, before a board is armed.
    """

    def __init__(
        self,
        link: Link,
        words: Words,
        *,
        options: Sequence[str] = VIRTUAL,
        schedule: bytes | None = None,
        log: Callable[[Sent], None] | None = None,
    ) -> None:
        self.link, self.words, self.options, self.schedule = link, words, tuple(options), schedule
        self.stamp_us = 1_000_000
        self.sequence = 0
        self._fence = 0
        self._log = log or (lambda sent: None)

    def connect(self, timeout: float = 5.0) -> Message:
        """The board's heartbeat; refuses a board with another model."""
        beat = self.link.connect(timeout)
        if bytes(beat.model) != self.words.model:
            raise ModelError(
                f"the board runs model {bytes(beat.model).hex()}, and this job is {self.words.model.hex()}: build and "
                "flash the job's firmware first"
            )
        return beat

    def ready(self, beat: Message) -> None:
        """Brings a board that was left in the middle of something back to idle."""
        idle, stopped, fault = (dialect.value(f"STEPMAP_STATE_{name}") for name in ("IDLE", "STOPPED", "FAULT"))
        state = beat.state
        if state != idle:
            state = self.stop().state
        if state in (stopped, fault):
            self.command("reset_fault")

    def calibrate(self, look: Callable[[], tuple[Sequence[int], int]], counts: Sequence[int]) -> None:
        """At rest: the board takes the mean of measured positions, (words, valid), for that of its encoders.

        It wants some with everything seen, so it is shown more until it has them.
        """
        self.command("calibrate", *self.options)
        self.told()
        beat: Message | None = None
        for _ in range(CALIBRATIONS):
            begun = time.perf_counter()
            self.encoders(counts)  # when that is answered the board has told whether it has ended
            beat = self.told() or beat
            if beat is not None and beat.state != dialect.value("STEPMAP_STATE_CALIBRATING"):
                break
            self.measure(*look())
            by_the_clock = "virtual_time" not in self.options  # of the board, to which old stamps are stale
            self.pass_time(time.perf_counter() - begun if by_the_clock else 0.02)
        else:
            raise LinkError(f"the board did not calibrate with {CALIBRATIONS} measurements: is everything in view?")
        if not beat.flags & dialect.value("STEPMAP_FLAG_CALIBRATED"):
            raise LinkError(f"the board could not calibrate: {explain(beat.reason)}")

    def state(self) -> Message:
        """The next heartbeat; those that wait are older than it."""
        while self.link.poll("HEARTBEAT") is not None:
            pass
        deadline = time.monotonic() + PATIENCE
        while (left := deadline - time.monotonic()) > 0:
            beat = self.link.receive("HEARTBEAT", timeout=left)
            if beat is not None and self.link.believes(beat):
                return beat
        raise LinkError(f"the board sent no heartbeat for {PATIENCE:g} s: is it still connected?")

    def told(self) -> Message | None:
        """The last heartbeat that is there, if one is; the board sends one whenever its state changes."""
        found = None
        while (beat := self.link.poll("HEARTBEAT")) is not None:
            found = beat if self.link.believes(beat) else found
        return found

    def arm(self) -> None:
        self.require_schedule(self.state())
        self.command("arm", *self.options)

    def require_schedule(self, beat: Message) -> None:
        """Raises where the board would follow another schedule than this job's."""
        used = bytes(beat.schedule)
        if self.schedule is None or used == self.schedule:
            return
        follows = f"follows schedule {used.hex()}" if any(used) else "has no schedule"
        takes = beat.flags & dialect.value("STEPMAP_FLAG_TAKES_UPLOADS")
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

    def encoders(self, counts: Sequence[int]) -> Actuators:
        """Positions of the motors now; the efforts in answer."""
        self._send_encoders(counts)
        while True:
            answer = self._hear("VIRTUAL_ACTUATOR")
            if answer.stamp_us == self.stamp_us:
                return Actuators(tuple(answer.effort[: len(counts)]), bool(answer.enabled))

    def ask_encoders(self, counts: Sequence[int]) -> Actuators | None:
        """The same of a board that may not answer, such as one that was reset."""
        self._send_encoders(counts)
        self._send_fence()
        while True:
            answer = self._hear("VIRTUAL_ACTUATOR", "PING")
            if answer.name == "PING":
                if answer.sequence == self._fence:
                    return None
            elif answer.stamp_us == self.stamp_us:
                return Actuators(tuple(answer.effort[: len(counts)]), bool(answer.enabled))

    def _send_encoders(self, counts: Sequence[int]) -> None:
        self.link.send("VIRTUAL_ENCODER", stamp_us=self.stamp_us, counts=counts)
        self._log(Sent("encoder", self.stamp_us, words=tuple(counts)))

    def measure(self, z: Sequence[int], valid: int, age: float = 0.0) -> None:
        """Sends what was seen ``age`` seconds ago."""
        self.sequence += 1
        fields: dict[str, Any] = {"stamp_us": self.stamp_us, "sequence": self.sequence, "valid": valid}
        self.link.send("MEASUREMENT", z=z, age_us=min(round(1e6 * max(age, 0.0)), 0xFFFFFFFF), **fields)
        self._log(Sent("measurement", words=tuple(z), **fields))

    def tick(self, z: Sequence[int], valid: int) -> list[Message]:
        """One measurement, and the telemetry up to what the board made of it; without that if it took no notice."""
        self.measure(z, valid)
        self._send_fence()
        heard: list[Message] = []
        while True:
            answer = self._hear("TELEMETRY", "PING")
            if answer.name == "TELEMETRY":
                heard.append(answer)
                if answer.sequence == self.sequence:
                    return heard
            elif answer.sequence == self._fence:
                return heard

    def ticks(self) -> list[Message]:
        """Telemetry that is there already."""
        heard: list[Message] = []
        while (message := self.link.poll("TELEMETRY")) is not None:
            heard.append(message)
        return heard

    def _send_fence(self) -> None:
        while self.link.poll("PING") is not None:
            pass  # of questions that were answered before
        self._fence = (self._fence + 1) & 0xFFFFFFFF
        self.link.send("PING", sequence=self._fence, stamp_us=self.stamp_us)

    def _hear(self, *names: str) -> Message:
        answer = self.link.receive(*names, timeout=PATIENCE)
        if answer is None:
            raise LinkError(f"the board did not answer for {PATIENCE:g} s: is it still running?")
        return answer
