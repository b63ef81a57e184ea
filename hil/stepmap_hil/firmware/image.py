"""Whether a file is a firmware for a chip: what its first words say, and where it looks for its serial port."""

from __future__ import annotations

import struct
from pathlib import Path

from stepmap.errors import ModelError
from stepmap_hil.firmware.build import ESP32, LIMITS

FLASH, RAM = 0x08000000, 0x20000000
SERIAL = {"stm32f405": 0x40011000, "stm32f100": 0x40013800}  # USART1, which every firmware speaks through


def require_image(board: str, image: Path) -> None:
    """Raises where a file cannot be a firmware for the board, and says what it is instead."""
    if board in ESP32:
        raise ModelError(f"--image: an image alone is not all that {board} needs; give the job instead")
    if not image.is_file():
        raise ModelError(f"--image: there is no file {image}")
    content = image.read_bytes()
    wrong = _problem(board, content)
    if wrong is not None:
        raise ModelError(f"--image: {image} is no firmware for {board}: {wrong}; stepmap build makes firmware.bin")
    other = made_for(content)
    if other not in (None, board):
        raise ModelError(f"--image: {image} is for {other}, not for {board}: give --board {other}, or another file")


def _problem(board: str, content: bytes) -> str | None:
    """What the first two words of a vector table would have to be, where they are not."""
    flash, ram = LIMITS[board]
    if content.startswith(b"\x7fELF"):
        return "it is an ELF file, and raw bytes are flashed"
    if not 8 < len(content) <= flash:
        return f"it has {len(content)} bytes, and there is room for {flash}"
    stack, start = struct.unpack_from("<II", content)
    if not RAM < stack <= RAM + ram or stack % 4:
        return f"its stack would begin at 0x{stack:08x}, which is not in RAM"
    if not FLASH < start < FLASH + len(content) or start % 2 == 0:
        return f"it would start at 0x{start:08x}, which is not in its code"
    return None


def made_for(content: bytes) -> str | None:
    """The one board whose serial port's address is in the code; None where that does not tell."""
    words = {word for (word,) in struct.iter_unpack("<I", content[: len(content) // 4 * 4])}
    found = [board for board, address in SERIAL.items() if address in words]
    return found[0] if len(found) == 1 else None
