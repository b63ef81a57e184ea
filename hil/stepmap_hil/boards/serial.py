"""A board at a serial port."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import serial

from stepmap.errors import ModelError
from stepmap_hil.board import Board, BoardError

if TYPE_CHECKING:
    from stepmap_hil.link import Port

BAUD = 460800
PULSE = 0.1  # s that a reset line is held
PLUGGED = "is it plugged in, is no other program using it, and is your user in the group dialout?"
LISTENS = "does a program listen there, and is no other connected to it already?"


class SerialBoard(Board):
    """Whatever answers at `port`: a device or any address pyserial understands.

    `reset_line` is the line of the adapter that is wired to the board's reset, if one is.
    """

    def __init__(
        self, port: str, *, baud: int = BAUD, reset_line: Literal["rts", "dtr"] | None = None, name: str | None = None
    ) -> None:
        self.port = _checked(port)
        self.baud = baud
        self.reset_line = reset_line
        self.name = name or port
        self._serial: serial.Serial | None = None

    def open(self) -> Port:
        if self._serial is None:
            try:
                self._serial = serial.serial_for_url(self.port, self.baud, exclusive=True)
            except (serial.SerialException, ValueError) as error:
                raise BoardError(
                    f"{self.port} cannot be opened: {error}",
                    command=f"open {self.port} at {self.baud} baud",
                    log="",
                    remedy=LISTENS if "://" in self.port else PLUGGED,
                ) from error
        return self._serial

    def reset(self) -> None:
        if self.reset_line is None:
            raise BoardError(
                f"{self.name} has no reset line",
                command=f"reset {self.name}",
                log="",
                remedy='press its button, or wire RTS or DTR to its reset and give reset_line="rts" or "dtr"',
            )
        self.open()
        for level in (True, False):
            setattr(self._serial, self.reset_line, level)
            time.sleep(PULSE)

    def close(self) -> None:
        if self._serial is not None:
            self._serial.close()
        self._serial = None


def _checked(port: str) -> str:
    """The port, if it can be one; what pyserial says of a wrong address names something else."""
    if not port.strip():
        raise ModelError("the port is empty: name a serial device, a pseudo terminal, or socket://HOST:NUMBER")
    kind = port.partition("://")[0]
    if kind in ("socket", "rfc2217"):
        try:
            address = urlsplit(port)
            whole = bool(address.hostname) and address.port is not None
        except ValueError:  # not a number, or too large
            whole = False
        if not whole:
            raise ModelError(f"{port} is no address: write {kind}://HOST:NUMBER, such as {kind}://localhost:4000")
    return port
