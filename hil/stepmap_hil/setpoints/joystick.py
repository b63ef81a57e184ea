"""Set-points from a joystick: how far it is pushed is how fast they move; let go, they stay.

Linux reports sticks as events of eight bytes (linux/joystick.h): time [ms] u32, value i16, type u8, number u8.
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap_codegen.stream.settings import Stream

DEVICES = ("js*",)
EVENT = struct.Struct("<IhBB")
AXIS, INITIAL = 0x02, 0x80  # types of events: an axis has moved; where it was when the device was opened
FULL = 32767.0  # of an axis
BACKWARD = 1  # the axis that counts towards its user; set-points count forwards
DEAD = 0.08  # part of its way in which a stick counts as let go
SECONDS = 60.0  # of a run whose length nobody gave
READ_BYTES = 64 * EVENT.size


def is_device(path: Path) -> bool:
    """Whether a path is a device or a pipe, and no file."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return str(path).startswith("/dev/")
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


@dataclass(frozen=True)
class JoystickReference:
    """A joystick's device; axis i moves streamed coordinate i."""

    path: Path
    stream: Stream

    @property
    def seconds(self) -> float:
        return SECONDS

    @property
    def repeatable(self) -> bool:
        return False

    def open(self, start: Array) -> JoystickSource:
        try:
            device = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise ModelError(
                f"--reference: {self.path} cannot be opened: {error.strerror}",
                hint="Is it plugged in, and may you read it (group input)?",
            ) from None
        return JoystickSource(device, self.stream, start)


class JoystickSource:
    """Set-points that move with the stick since the plan's end, within their limits."""

    def __init__(self, device: int, stream: Stream, start: Array) -> None:
        self.device, self.stream, self.value = device, stream, np.array(start, dtype=float)
        self.axes = np.zeros(len(stream.names))  # −1 … 1
        self._rest = b""  # of an event that has come in part
        self._last: float | None = None
        self.gone = False  # unplugged

    def at(self, t: float) -> Array | None:
        """Where they are at t: pushed all the way, a stick moves them as fast as their rates allow.

        None from a joystick that is gone: a board that gets no set-points stays where it is.
        """
        self._read()
        if self.gone:
            return None
        passed = 0.0 if self._last is None else max(t - self._last, 0.0)
        self._last = t
        pushed = np.where(np.abs(self.axes) > DEAD, self.axes, 0.0)
        self.value = np.clip(self.value + passed * self.stream.rate * pushed, self.stream.low, self.stream.high)
        return self.value.copy()

    def _read(self) -> None:
        """Takes all events that have come."""
        while not self.gone:
            try:
                got = os.read(self.device, READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                self.gone = True
                return
            if not got:  # nobody holds the other end of a pipe
                return
            self._rest += got
            whole = len(self._rest) // EVENT.size * EVENT.size
            for _, value, kind, number in EVENT.iter_unpack(self._rest[:whole]):
                if kind & ~INITIAL == AXIS and number < len(self.axes):
                    forward = -1.0 if number == BACKWARD else 1.0
                    self.axes[number] = max(-1.0, min(1.0, forward * value / FULL))
            self._rest = self._rest[whole:]

    def close(self) -> None:
        os.close(self.device)
