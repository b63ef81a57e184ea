"""A board at a serial port."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import serial

from stepmap_hil.boards.base import Board, BoardError
from stepmap_hil.boards.line import Line
from stepmap_hil.wire.ports import require_port

if TYPE_CHECKING:
    from stepmap_hil.wire.link import Port

BAUD = 460800
PULSE = 0.1  # s that a reset line is held
SOCKET = "socket://"
CONNECTING = 10.0  # s
PLUGGED = "is it plugged in, is no other program using it, and is your user in the group dialout?"
LISTENS = "does a program listen there, and is no other connected to it already?"


class SerialBoard(Board):
    """Whatever answers at `port`: a device, `socket://` or `rfc2217://`.

    `reset_line` is the line of the adapter that is wired to the board's reset, if one is.
    """

    def __init__(
        self, port: str, *, baud: int = BAUD, reset_line: Literal["rts", "dtr"] | None = None, name: str | None = None
    ) -> None:
        self.port = require_port(port)
        self.baud = baud
        self.reset_line = reset_line
        self.name = name or port
        self._opened: serial.Serial | Line | None = None

    def open(self) -> Port:
        if self._opened is None:
            try:
                self._opened = self._connect() if self.port.startswith(SOCKET) else self._open()
            except (OSError, ValueError) as error:  # a SerialException is an OSError
                raise self._error(f"cannot be opened: {error}") from error
        return self._opened

    def _open(self) -> serial.Serial:
        opened = serial.serial_for_url if "://" in self.port else serial.Serial
        return opened(self.port, self.baud, exclusive=True)

    def _connect(self) -> Line:
        """Not by pyserial, which reads a socket byte by byte."""
        place = urlsplit(self.port)
        end = socket.create_connection((place.hostname or "", place.port or 0), CONNECTING)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Line(end, lambda: self._error("has ended the connection"))

    def _error(self, problem: str) -> BoardError:
        return BoardError(
            f"{self.port} {problem}",
            command=f"open {self.port} at {self.baud} baud",
            log="",
            remedy=LISTENS if "://" in self.port else PLUGGED,
        )

    def reset(self) -> None:
        if self.reset_line is None or self.port.startswith(SOCKET):
            raise BoardError(
                f"{self.name} has no reset line",
                command=f"reset {self.name}",
                log="",
                remedy='press its button, or wire RTS or DTR to its reset and give reset_line="rts" or "dtr"',
            )
        self.open()
        for level in (True, False):
            setattr(self._opened, self.reset_line, level)
            time.sleep(PULSE)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._opened = None
