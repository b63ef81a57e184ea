"""A serial port on which frames get lost, damaged, doubled or out of order, by rules."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stepmap_hil.faults.spec import FRAMES, Fault
from stepmap_hil.wire import dialect
from stepmap_hil.wire.link import Port

MOTORS = ("VIRTUAL_ENCODER", "VIRTUAL_ACTUATOR", "WIDE_VIRTUAL_ENCODER", "WIDE_VIRTUAL_ACTUATOR")
INSIDE = ("PING", "HEARTBEAT", *MOTORS)
"""Frames that stay whole: simulated motors are wired inside the robot, and pings keep the bench in step."""


@dataclass
class Rule:
    """What happens to frames of some names; all but those INSIDE where there are none."""

    fault: Fault
    rng: np.random.Generator
    names: tuple[str, ...] = ()
    left: float = field(init=False)
    hits: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.left = self.fault.count
        if self.fault.kind != "cut":
            self.names = FRAMES[self.fault.frames]

    def takes(self, name: str) -> bool:
        """Whether it happens to this frame; counts it."""
        if self.left <= 0 or (name not in self.names if self.names else name in INSIDE):
            return False
        if self.fault.kind != "cut" and self.fault.amount < 1.0 and self.rng.random() >= self.fault.amount:
            return False
        self.left -= 1
        self.hits += 1
        return True


class FaultyPort:
    """Stands between a link and its port; ``rules`` say what happens, in both directions."""

    def __init__(self, inner: Port) -> None:
        self.inner = inner
        self.rules: list[Rule] = []
        self.delivered = True
        """Whether the last frame that was written reached the board whole and in time."""
        self.commands: set[int] = set()
        self.answers: set[int] = set()
        """Tokens of commands that reached the board, and of answers that it sent."""
        self.hit = 0
        """Frames something happened to."""
        self._framer = dialect.Framer()
        self._overtaken: list[bytes] = []
        self._ready = bytearray()

    @property
    def timeout(self) -> float | None:
        return self.inner.timeout

    @timeout.setter
    def timeout(self, seconds: float | None) -> None:
        self.inner.timeout = seconds

    @property
    def in_waiting(self) -> int:
        return len(self._ready) + self.inner.in_waiting

    def write(self, data: bytes, /) -> int:
        """One whole frame."""
        held, self._overtaken = self._overtaken, []
        rule = self._rule(data)
        kind = "" if rule is None else rule.fault.kind
        self.delivered = kind in ("", "duplicated")
        if kind == "overtaken":
            self._overtaken.append(data)
        elif kind in ("", "duplicated"):
            self.inner.write(data)
            self._note(data, "COMMAND", self.commands)
            if kind:
                self.inner.write(data)
        elif kind == "corrupted" and rule is not None:
            self.inner.write(_damaged(data, rule.rng))
        for frame in held:
            self.inner.write(frame)
            self._note(frame, "COMMAND", self.commands)
        return len(data)

    def read(self, size: int = 1, /) -> bytes:
        """Bytes of whole frames that came through; may be none though some were waiting."""
        if not self._ready:
            for frame in self._framer.feed(self.inner.read(max(1, self.inner.in_waiting))):
                self._ready += self._arrive(frame)
        part = bytes(self._ready[:size])
        del self._ready[:size]
        return part

    def _arrive(self, frame: bytes) -> bytes:
        self._note(frame, "COMMAND_ACK", self.answers)
        held, self._overtaken_in = self._overtaken_in, b""
        rule = self._rule(frame)
        kind = "" if rule is None else rule.fault.kind
        if kind == "overtaken":
            self._overtaken_in = frame
            return held
        if kind == "corrupted" and rule is not None:
            return _damaged(frame, rule.rng) + held
        return {"": frame, "duplicated": frame + frame}.get(kind, b"") + held

    _overtaken_in = b""

    def _rule(self, frame: bytes) -> Rule | None:
        name = dialect.module().mavlink_map[dialect.frame_id(frame)].msgname
        for rule in self.rules:
            if rule.takes(name):
                self.hit += 1
                return rule
        return None

    def _note(self, frame: bytes, name: str, tokens: set[int]) -> None:
        if dialect.frame_id(frame) == dialect.value(f"MAVLINK_MSG_ID_{name}"):
            tokens.add(int(dialect.decode(frame).token))

    def close(self) -> None:
        self.inner.close()


def _damaged(frame: bytes, rng: np.random.Generator) -> bytes:
    """The frame with one bit turned, somewhere behind its start."""
    at = int(rng.integers(1, len(frame)))
    return frame[:at] + bytes([frame[at] ^ 1 << int(rng.integers(8))]) + frame[at + 1 :]
