"""Boards: a process of this computer, an emulated chip, and whatever is at a serial port."""

from pathlib import Path

from stepmap_codegen.boards import Runs, find
from stepmap_hil.boards.native import NativeBoard
from stepmap_hil.boards.qemu import QemuBoard
from stepmap_hil.boards.serial import SerialBoard

__all__ = ["NativeBoard", "QemuBoard", "SerialBoard", "without_hardware"]


def without_hardware(name: str, program: Path) -> NativeBoard | QemuBoard:
    """A board that runs a program on this computer, as a process or in QEMU, whichever the catalog says."""
    return NativeBoard(program) if find(name).runs is Runs.PROCESS else QemuBoard(name, program)
