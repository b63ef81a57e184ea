"""Boards: a process of this computer, an emulated chip, and whatever is at a serial port."""

from stepmap_hil.boards.native import NativeBoard
from stepmap_hil.boards.qemu import QemuBoard
from stepmap_hil.boards.serial import SerialBoard

__all__ = ["NativeBoard", "QemuBoard", "SerialBoard"]
