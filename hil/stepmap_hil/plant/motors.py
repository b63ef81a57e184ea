"""Motors of the simulated robot: lag, backlash, and encoders that count whole steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stepmap_codegen.emit.motors import Axis


@dataclass(frozen=True)
class MotorErrors:
    """What the firmware does not know about a motor."""

    time_constant_factor: float = 1.3  # times the time constant that its gains were made for
    gain_factor: float = 0.9  # times its top speed
    backlash: float = 0.0005  # units between encoder and load
    zero: int = 12345  # counts at the start: encoders know differences only


def wrapped(counts: int) -> int:
    """Counts as an encoder of 32 bits shows them."""
    return (counts + 2**31) % 2**32 - 2**31


class Motor:
    """A position axis: effort to speed with a lag, speed to position, and a gear with backlash behind the encoder."""

    def __init__(self, axis: Axis, errors: MotorErrors, position: float) -> None:
        self.axis, self.errors = axis, errors
        self.start = self.position = self.load = position
        self.speed = 0.0
        self.stuck = False

    @property
    def counts(self) -> int:
        """Encoder counts; the encoder sits on the motor."""
        return wrapped(math.floor((self.position - self.start) * self.axis.counts_per_unit) + self.errors.zero)

    def advance(self, effort: float, seconds: float) -> float:
        """Position of the load after some time with an effort in per mille."""
        if self.stuck:
            self.speed = 0.0
            return self.load
        wanted = self.errors.gain_factor * self.axis.top_speed * max(-1.0, min(1.0, effort / 1000.0))
        decay = math.exp(-seconds / (self.errors.time_constant_factor * self.axis.time_constant))
        before, self.speed = self.speed, wanted + (self.speed - wanted) * decay
        self.position += 0.5 * (before + self.speed) * seconds
        half = 0.5 * self.errors.backlash
        self.load = max(self.position - half, min(self.position + half, self.load))
        return self.load
