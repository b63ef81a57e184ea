"""The serial bootloader of an STM32, on a pseudo terminal: flashing tools talk to it as if it were a chip.

The protocol is that of ST's application note AN3155, as far as flashing needs it. A pseudo terminal has no parity, so
tools have to use 8n1 where a chip wants 8e1.
"""

from __future__ import annotations

import os
import select
import termios
import threading
import tty
from collections.abc import Callable
from functools import reduce
from operator import xor
from types import TracebackType
from typing import Self

from stepmap_codegen.boards import BoardSpec

HELLO, ACK, NACK = 0x7F, 0x79, 0x1F
GET, GET_VERSION, GET_ID, READ, GO, WRITE, ERASE, EXTENDED_ERASE = 0x00, 0x01, 0x02, 0x11, 0x21, 0x31, 0x43, 0x44

TIMEOUT_DS = 250
"""Tenths of a second that a tool waits for each answer, in place of its own limit."""


class RefusedError(Exception):
    """A request that is answered with NACK."""


class ClosedError(Exception):
    """Nobody waits for requests any more."""


class Bootloader:
    """A chip in its bootloader; `port` is where it listens, `flash` what it holds.

    After GO the chip has left its bootloader: it is silent, and `started` is where it went. `reset` brings it back.
    """

    def __init__(self, board: BoardSpec) -> None:
        if board.bootloader is None:
            raise ValueError(f"board: {board.name} has no bootloader")
        self.board, self.chip = board, board.bootloader
        self.flash = bytearray(b"\xff" * self.chip.flash_bytes)
        self.erased: list[int] = []
        """Sectors, in the order they were erased."""
        self.started: int | None = None
        self._ram = bytearray(self.chip.ram[1] - self.chip.ram[0])
        self._greeted = False
        # The other end stays open here too, else the line would end whenever a tool closes it.
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        self._stop, self._stopper = os.pipe()
        self._thread = threading.Thread(target=self._run, name=f"bootloader at {self.port}", daemon=True)
        self._thread.start()

    def reset(self) -> None:
        """Starts the bootloader again, as the reset button with BOOT0 high does."""
        self._greeted = False
        self.started = None

    def close(self) -> None:
        if self._thread.is_alive():
            os.write(self._stopper, b"\0")
            self._thread.join()
        for fd in (self._master, self._slave, self._stop, self._stopper):
            if fd >= 0:
                os.close(fd)
        self._master = self._slave = self._stop = self._stopper = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The line

    def _take(self, count: int) -> bytes:
        received = b""
        while len(received) < count:
            ready, _, _ = select.select([self._master, self._stop], [], [])
            if self._stop in ready:
                raise ClosedError
            received += os.read(self._master, count - len(received))
        return received

    def _say(self, *values: int) -> None:
        os.write(self._master, bytes(values))

    def _extend_timeout(self) -> None:
        """A chip answers at once; a thread of a busy computer may be late, and stm32flash gives up after half a second.

        The limit is a setting of the line (VTIME), which both ends share; the tool has made its own before it greets.
        """
        settings = termios.tcgetattr(self._slave)
        settings[6][termios.VTIME] = TIMEOUT_DS
        termios.tcsetattr(self._slave, termios.TCSANOW, settings)

    def _greeted_again(self) -> bool:
        """Whether the tool has lost patience meanwhile: it greets again then, and a chip refuses that as a command."""
        ready, _, _ = select.select([self._master], [], [], 0)
        return bool(ready) and self._take(1)[0] == HELLO

    def _take_checked(self, count: int, first: bytes = b"") -> bytes:
        """`count` bytes and their checksum, which covers `first` too."""
        received = self._take(count + 1)
        if reduce(xor, first + received, 0) != 0:
            raise RefusedError
        return received[:-1]

    # Requests

    def _run(self) -> None:
        commands: dict[int, Callable[[], None]] = {
            GET: lambda: self._answer(self.chip.version, *sorted(commands)),
            GET_VERSION: lambda: self._say(self.chip.version, 0, 0, ACK),
            GET_ID: lambda: self._answer(self.chip.chip_id >> 8, self.chip.chip_id & 0xFF),
            READ: self._read,
            GO: self._go,
            WRITE: self._write,
        }
        if self.chip.extended_erase:
            commands[EXTENDED_ERASE] = self._extended_erase
        else:
            commands[ERASE] = self._erase
        while True:
            try:
                self._serve(commands)
            except RefusedError:
                self._say(NACK)
            except ClosedError:
                return

    def _serve(self, commands: dict[int, Callable[[], None]]) -> None:
        first = self._take(1)[0]
        if self.started is not None:
            return
        if not self._greeted:
            if first == HELLO:
                self._greeted = True
                self._extend_timeout()
                self._say(NACK if self._greeted_again() else ACK)
            return
        if first == HELLO or self._take(1)[0] != first ^ 0xFF or first not in commands:
            raise RefusedError
        self._say(ACK)
        commands[first]()

    def _answer(self, *values: int) -> None:
        self._say(len(values) - 1, *values, ACK)

    def _take_address(self) -> int:
        return int.from_bytes(self._take_checked(4), "big")

    def _memory(self, address: int, size: int) -> tuple[bytearray, int]:
        """The memory of an address, and where in it."""
        low, high = self.chip.ram
        start = address - self.board.flash_origin
        if start >= 0 and start + size <= self.chip.flash_bytes:
            return self.flash, start
        if low <= address and address + size <= high:
            return self._ram, address - low
        raise RefusedError

    def _read(self) -> None:
        address = self._take_address()
        self._memory(address, 1)
        self._say(ACK)
        count = self._take(1)
        if self._take(1)[0] != count[0] ^ 0xFF:
            raise RefusedError
        memory, start = self._memory(address, count[0] + 1)
        self._say(ACK, *memory[start : start + count[0] + 1])

    def _write(self) -> None:
        address = self._take_address()
        self._memory(address, 1)
        self._say(ACK)
        count = self._take(1)
        data = self._take_checked(count[0] + 1, count)
        memory, start = self._memory(address, len(data))
        if memory is self.flash and memory[start : start + len(data)].strip(b"\xff"):
            raise RefusedError  # not erased
        memory[start : start + len(data)] = data
        self._say(ACK)

    def _go(self) -> None:
        address = self._take_address()
        self._memory(address, 8)
        self.started = address
        self._say(ACK)

    def _erase(self) -> None:
        count = self._take(1)
        if count[0] == 0xFF:
            if self._take(1) != b"\0":
                raise RefusedError
            self._erase_sectors(range(len(self.chip.sectors)))
        else:
            self._erase_sectors(self._take_checked(count[0] + 1, count))

    def _extended_erase(self) -> None:
        count = self._take(2)
        number = int.from_bytes(count, "big")
        if number == 0xFFFF:
            self._take_checked(0, count)
            self._erase_sectors(range(len(self.chip.sectors)))
        elif number >= 0xFFF0:
            raise RefusedError
        else:
            sectors = self._take_checked(2 * (number + 1), count)
            self._erase_sectors([int.from_bytes(sectors[i : i + 2], "big") for i in range(0, len(sectors), 2)])

    def _erase_sectors(self, sectors: range | bytes | list[int]) -> None:
        for sector in sectors:
            if sector >= len(self.chip.sectors):
                raise RefusedError
            start, size = sum(self.chip.sectors[:sector]), self.chip.sectors[sector]
            self.flash[start : start + size] = b"\xff" * size
            self.erased.append(sector)
        self._say(ACK)
