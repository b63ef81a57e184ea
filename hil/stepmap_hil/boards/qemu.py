"""The firmware in an emulated chip."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepmap_codegen import boards
from stepmap_codegen.boards import Runs
from stepmap_hil.boards.base import Board, BoardError
from stepmap_hil.boards.child import Child
from stepmap_hil.boards.line import Line
from stepmap_hil.wire.key import BOARD_ID

PATIENCE = 10.0  # s for an answer of the emulator itself
MARK = b"stepmap emulated id\0"  # in an image, in front of the id of an emulated chip (firmware/port/stm32/identity.c)


class QemuBoard(Board):
    """Runs an image, .elf or .bin, in QEMU.

    QEMU has neither flash that can be written nor a watchdog; docs/boards.md has the list. Nor has it the unique id of
    a chip: `board_id`, a random one where it is not given, is written into its copy of the image. `options` are more
    arguments of QEMU.
    """

    def __init__(self, name: str, image: Path, *, board_id: bytes | None = None, options: Sequence[str] = ()) -> None:
        known = {board.name: board for board in boards.catalog().values() if board.runs is Runs.QEMU}
        if name not in known:
            raise ValueError(f"name: QEMU has no board {name!r}, only {', '.join(known)}")
        self.name, self.spec = name, known[name]
        self.image = image
        self.board_id = secrets.token_bytes(BOARD_ID) if board_id is None else board_id
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
        try:
            with self._provisioned() as flash:
                self._boot(flash, their_line, their_control)
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

    @contextmanager
    def _provisioned(self) -> Iterator[int]:
        """The image with the id in it, as a file that has no name: the key is inside, and nothing of it stays."""
        try:
            content = self.image.read_bytes()
        except OSError as error:
            remedy = f"build it with `pio run -e {self.name}`"
            raise BoardError(
                f"{self.image} cannot be read: {error.strerror}", command=f"boot {self.image}", log="", remedy=remedy
            ) from None
        if content.count(MARK) == 1:  # other programs have no place for one
            at = content.index(MARK) + len(MARK)
            content = content[:at] + self.board_id + content[at + BOARD_ID :]
        fd = os.memfd_create("image")
        try:
            with open(fd, "wb", closefd=False) as file:
                file.write(content)
            yield fd
        finally:
            os.close(fd)

    def _boot(self, flash: int, line: socket.socket, control: socket.socket) -> None:
        file = f"/proc/self/fd/{flash}"
        raw = ["-device", f"loader,file={file},addr={self.spec.flash_origin:#x},force-raw=on"]
        load = raw if self.image.suffix == ".bin" else ["-kernel", file]
        self._child = Child(
            [
                *("qemu-system-arm", "-M", str(self.spec.machine), "-nodefaults", "-display", "none"),
                *("-chardev", f"socket,id=line,fd={line.fileno()}", "-serial", "chardev:line"),
                *("-chardev", f"socket,id=control,fd={control.fileno()}"),
                *("-mon", "chardev=control,mode=control"),
                *load,
                *self.options,
            ],
            fds=[line.fileno(), control.fileno(), flash],
            remedy=f"is QEMU 7.2 or newer installed, and was the image built with `pio run -e {self.name}`?",
        )

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
