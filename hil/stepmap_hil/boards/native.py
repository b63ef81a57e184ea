"""The firmware as a process of this computer."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

from stepmap_hil.boards.base import Board
from stepmap_hil.boards.child import Child
from stepmap_hil.boards.line import Line
from stepmap_hil.wire.key import BOARD_ID

REGIONS = ("bank_a", "bank_b", "journal_a", "journal_b")
EXIT_WATCHDOG = 71
EXIT_POWER_CUT = 72
"""How the process ends when the watchdog was not fed, and where the power was told to go (firmware/port/native)."""


class NativeBoard(Board):
    """Runs a program that was built with the environment "native".

    Regions are files in the folder `regions`, or memory that lives as long as the board is open. `baud` lets bytes
    come in at that rate whether the firmware takes them or not; without it none is ever lost. `power_cut` is "N" or
    "N:BYTES": the process ends in the middle of the N-th write to a region. Both are read at each start. The id of the
    board is that of the folder, or a random one where there is none.
    """

    name = "native"

    def __init__(
        self,
        program: Path,
        *,
        regions: Path | None = None,
        baud: int | None = None,
        power_cut: str | None = None,
    ) -> None:
        self.program = program
        self.regions = regions
        self.baud = baud
        self.power_cut = power_cut
        self._memory: dict[str, int] = {}
        self._id = secrets.token_hex(BOARD_ID)
        self._child: Child | None = None
        self._line: Line | None = None

    @property
    def child(self) -> Child:
        if self._child is None:
            raise RuntimeError("the board is not open: call open() first")
        return self._child

    def open(self) -> Line:
        if self._line is None:
            if self.regions is None:
                self._memory = {name: os.memfd_create(name) for name in REGIONS}
            try:
                self._line = Line(self._start("power"), lambda: self.child.ended())
            except BaseException:
                self.close()
                raise
        return self._line

    def reset(self, reason: str = "pin") -> None:
        """Starts the process again; `reason` is what the firmware is told."""
        line = self.open()
        self.child.stop()
        line.move(self._start(reason))

    def wait(self, timeout: float = 5.0) -> int:
        """The exit code of a process that ends by itself."""
        return self.child.wait(timeout)

    def _start(self, reason: str) -> socket.socket:
        ours, theirs = socket.socketpair()
        options = {"--serial": f"fd:{theirs.fileno()}"}
        if self.regions is not None:
            self.regions.mkdir(parents=True, exist_ok=True)
            options["--regions"] = str(self.regions.resolve())
        else:
            options["--id"] = self._id
        if self.baud is not None:
            options["--baud"] = str(self.baud)
        if self.power_cut is not None:
            options["--power-cut"] = self.power_cut
        try:
            self._child = Child(
                [str(self.program), *(word for option in options.items() for word in option)],
                fds=[theirs.fileno(), *self._memory.values()],
                environment={name: value for name, value in os.environ.items() if not name.startswith("STEPMAP_")}
                | {f"STEPMAP_FD_{name}": str(fd) for name, fd in self._memory.items()}
                | {"STEPMAP_RESET": reason},
                remedy="build it with `pio run -e native`; docs/boards.md explains the exit codes",
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return ours

    def close(self) -> None:
        if self._child is not None:
            self._child.stop()
        if self._line is not None:
            self._line.close()
        for fd in self._memory.values():
            os.close(fd)
        self._memory = {}
        self._child = self._line = None
