"""A serial port whose other end is a process of this computer."""

from __future__ import annotations

import array
import fcntl
import math
import select
import socket
import termios
import time
from collections.abc import Callable

STUCK = 10.0  # s after which a process that takes no bytes counts as gone


class Line:
    """Behaves like pyserial's Serial, as far as a link needs it, over a stream socket.

    `gone` makes the error to raise when the other end has been closed.
    """

    def __init__(self, end: socket.socket, gone: Callable[[], Exception]) -> None:
        self.timeout: float | None = None
        self._end = end
        self._gone = gone
        end.setblocking(False)

    @property
    def in_waiting(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._end, termios.FIONREAD, count)
        return count[0]

    def read(self, size: int = 1, /) -> bytes:
        """Up to `size` bytes; fewer when `timeout` has passed, which is None for ever."""
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        received = bytearray()
        while len(received) < size:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not _ready(self._end, select.POLLIN, left):
                break
            try:
                part = self._end.recv(size - len(received))
            except ConnectionError:
                part = b""
            if not part:
                if received:
                    break
                raise self._gone()
            received += part
        return bytes(received)

    def write(self, data: bytes, /) -> int:
        """Sends everything."""
        rest = memoryview(data)
        while rest:
            if not _ready(self._end, select.POLLOUT, STUCK):
                raise self._gone()
            try:
                rest = rest[self._end.send(rest) :]
            except BlockingIOError:
                continue
            except ConnectionError:
                raise self._gone() from None
        return len(data)

    def close(self) -> None:
        self._end.close()

    def move(self, end: socket.socket) -> None:
        """To the socket of a process that was started again."""
        self._end.close()
        self._end = end
        end.setblocking(False)


def _ready(end: socket.socket, event: int, seconds: float | None) -> bool:
    """Whether a socket is ready within so long. ``select`` would refuse one with a number above 1023."""
    asked = select.poll()
    asked.register(end, event)
    return bool(asked.poll(None if seconds is None else math.ceil(1e3 * seconds)))
