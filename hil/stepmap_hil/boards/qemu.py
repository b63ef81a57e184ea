"""The firmware in an emulated chip."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepmap_hil.board import Board
from stepmap_hil.boards.child import Child
from stepmap_hil.boards.line import Line

MACHINES = {"stm32f405": "netduinoplus2", "stm32f100": "stm32vldiscovery"}
FLASH = 0x08000000
PATIENCE = 10.0  # s for an answer of the emulator itself


class QemuBoard(Board):
    """Runs an image, .elf or .bin, in QEMU.

    QEMU has neither flash that can be written nor a watchdog; docs/boards.md has the list. `options` are more arguments
    of QEMU.
    """

    def __init__(self, name: str, image: Path, *, options: Sequence[str] = ()) -> None:
        if name not in MACHINES:
            raise ValueError(f"name: QEMU has no board {name!r}, only {', '.join(MACHINES)}")
        self.name = name
        self.image = image
        self.options = tuple(options)
        self._child: Child | None = None
        self._line: Line | None = None
        self._control: socket.socket | None = None

    @property
    def child(self) -> Child:
        if self._child is None:
            raise RuntimeError("the board is not open: call open() first")
        return self._child

    def open(self) -> Line:
        """Boots. Nothing the firmware sends is lost: both ends of the line are there before it starts."""
        if self._line is None:
            self._start()
        if self._line is None:
            raise RuntimeError("unreachable")
        return self._line

    def reset(self) -> None:
        """Like the pin: RAM keeps its content, so what stands in for flash does too."""
        self.open()
        self._ask("system_reset")

    def _start(self) -> None:
        line, their_line = socket.socketpair()
        control, their_control = socket.socketpair()
        if self.image.suffix == ".bin":
            file = str(self.image).replace(",", ",,")
            load = ["-device", f"loader,file={file},addr={FLASH:#x},force-raw=on"]
        else:
            load = ["-kernel", str(self.image)]
        try:
            self._child = Child(
                [
                    *("qemu-system-arm", "-M", MACHINES[self.name], "-nodefaults", "-display", "none"),
                    *("-chardev", f"socket,id=line,fd={their_line.fileno()}", "-serial", "chardev:line"),
                    *("-chardev", f"socket,id=control,fd={their_control.fileno()}"),
                    *("-mon", "chardev=control,mode=control"),
                    *load,
                    *self.options,
                ],
                fds=[their_line.fileno(), their_control.fileno()],
                remedy=f"is QEMU 7.2 or newer installed, and was the image built with `pio run -e {self.name}`?",
            )
        except BaseException:
            line.close()
            control.close()
            raise
        finally:
            their_line.close()
            their_control.close()
        self._line = Line(line, lambda: self.child.ended())
        self._control = control
        control.settimeout(PATIENCE)
        try:
            self._hear("QMP")  # its greeting
            self._ask("qmp_capabilities")
        except BaseException:
            self.close()
            raise

    def _ask(self, command: str) -> None:
        if self._control is None:
            raise RuntimeError("the board is not open: call open() first")
        try:
            self._control.sendall(json.dumps({"execute": command}).encode())
        except OSError:
            raise self.child.ended() from None
        self._hear("return")

    def _hear(self, key: str) -> Any:
        """The next answer with this key; events in between are not for us."""
        if self._control is None:
            raise RuntimeError("the board is not open: call open() first")
        received = b""
        while True:
            try:
                part = self._control.recv(4096)
            except TimeoutError:
                raise self.child.error(f"no answer within {PATIENCE:g} s") from None
            except OSError:
                part = b""
            if not part:
                raise self.child.ended()
            received += part
            *lines, received = received.split(b"\n")
            for answer in map(json.loads, lines):
                if "error" in answer:
                    raise self.child.error(answer["error"]["desc"])
                if key in answer:
                    return answer[key]

    def close(self) -> None:
        if self._child is not None:
            self._child.stop()
        for end in (self._line, self._control):
            if end is not None:
                end.close()
        self._child = self._line = self._control = None
