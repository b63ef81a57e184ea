"""A run on a board, in lock-step: measurement out, telemetry back, motors and time those of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stepmap.errors import LinkError, ModelError
from stepmap_hil import dialect
from stepmap_hil.dialect import Message
from stepmap_hil.link import Link
from stepmap_hil.reasons import explain
from stepmap_hil.words import Words

VIRTUAL = ("virtual_io", "virtual_time")
CALIBRATIONS = 64  # SM_CALIBRATION of the firmware
PATIENCE = 5.0  # s for an answer


@dataclass
class Actuators:
    """What the board asks of its motors."""

    effort: tuple[int, ...]
    enabled: bool


class Session:
    """Speaks to one board in its virtual time, which begins at ``start_us``."""

    def __init__(self, link: Link, words: Words) -> None:
        self.link, self.words = link, words
        self.stamp_us = 1_000_000
        self.sequence = 0

    def connect(self, timeout: float = 5.0) -> Message:
        """The board's heartbeat; refuses a board with another model."""
        beat = self.link.connect(timeout)
        if bytes(beat.model) != self.words.model:
            raise ModelError(
                f"the board runs model {bytes(beat.model).hex()}, and this job is {self.words.model.hex()}: build and "
                "flash the job's firmware first"
            )
        return beat

    def calibrate(
        self, look: Callable[[], tuple[Sequence[int], int]], counts: Sequence[int], options: Sequence[str] = VIRTUAL
    ) -> None:
        """At rest: the board takes the mean of measured positions, (words, valid), for that of its encoders."""
        self.link.command("calibrate", *options)
        for _ in range(CALIBRATIONS):
            self.encoders(counts)
            self.measure(*look())
            self.pass_time(0.02)
        beat = self.state()
        if not beat.flags & dialect.value("STEPMAP_FLAG_CALIBRATED"):
            raise LinkError(f"the board could not calibrate: {explain(beat.reason)}")

    def state(self) -> Message:
        """The next heartbeat; those that wait are older than it."""
        while self.link.poll("HEARTBEAT") is not None:
            pass
        beat = self.link.receive("HEARTBEAT", timeout=PATIENCE)
        if beat is None:
            raise LinkError(f"the board sent no heartbeat for {PATIENCE:g} s: is it still connected?")
        return beat

    def arm(self, options: Sequence[str] = VIRTUAL) -> None:
        self.link.command("arm", *options)

    def run(self) -> None:
        self.link.command("run")

    def stop(self) -> None:
        self.link.command("stop")

    def pass_time(self, seconds: float) -> None:
        self.stamp_us = (self.stamp_us + round(seconds * 1e6)) & 0xFFFFFFFF

    def encoders(self, counts: Sequence[int]) -> Actuators:
        """Positions of the motors now; the efforts in answer."""
        self.link.send("VIRTUAL_ENCODER", stamp_us=self.stamp_us, counts=_padded(counts, 2))
        while True:
            answer = self.link.receive("VIRTUAL_ACTUATOR", timeout=PATIENCE)
            if answer is None:
                raise LinkError(f"the board did not answer with its efforts for {PATIENCE:g} s: is it still running?")
            if answer.stamp_us == self.stamp_us:
                return Actuators(tuple(answer.effort), bool(answer.enabled))

    def measure(self, z: Sequence[int], valid: int) -> None:
        self.sequence += 1
        self.link.send("MEASUREMENT", stamp_us=self.stamp_us, sequence=self.sequence, z=_padded(z, 8), valid=valid)

    def tick(self, z: Sequence[int], valid: int) -> list[Message]:
        """One measurement, and what the board made of it: the last; before it, ticks it did without a measurement."""
        self.measure(z, valid)
        heard: list[Message] = []
        while True:
            answer = self.link.receive("TELEMETRY", timeout=PATIENCE)
            if answer is None:
                raise LinkError(f"the board sent no telemetry for {PATIENCE:g} s: is it still running?")
            heard.append(answer)
            if answer.sequence == self.sequence:
                return heard

    def ticks(self) -> list[Message]:
        """Telemetry that is there already."""
        heard: list[Message] = []
        while (message := self.link.poll("TELEMETRY")) is not None:
            heard.append(message)
        return heard


def _padded(values: Sequence[int], size: int) -> list[int]:
    return [*(int(v) for v in values), *([0] * (size - len(values)))]
