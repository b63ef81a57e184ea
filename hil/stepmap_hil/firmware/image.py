"""Whether a file is a firmware for a chip: what its first words say, and where it looks for its serial port."""

from __future__ import annotations

import struct
from pathlib import Path

from stepmap.errors import ModelError
from stepmap_codegen import boards
from stepmap_codegen.boards import BoardSpec


def require_image(board: str, image: Path) -> None:
    """Raises where a file cannot be a firmware for the board, and says what it is instead."""
    spec = boards.find(board)
    if spec.needs_registry:
        raise ModelError(f"--image: an image alone is not all that {board} needs; give the job instead")
    if not image.is_file():
        raise ModelError(f"--image: there is no file {image}")
    content = image.read_bytes()
    wrong = _problem(spec, content)
    if wrong is not None:
        raise ModelError(f"--image: {image} is no firmware for {board}: {wrong}; stepmap build makes firmware.bin")
    other = made_for(content)
    if other not in (None, board):
        raise ModelError(f"--image: {image} is for {other}, not for {board}: give --board {other}, or another file")


def _problem(board: BoardSpec, content: bytes) -> str | None:
    """What the first two words of a vector table would have to be, where they are not."""
    if content.startswith(b"\x7fELF"):
        return "it is an ELF file, and raw bytes are flashed"
    if not 8 < len(content) <= board.flash_bytes:
        return f"it has {len(content)} bytes, and there is room for {board.flash_bytes}"
    stack, start = struct.unpack_from("<II", content)
    if not 0 < stack - board.ram_origin <= board.ram_bytes or stack % 4:
        return f"its stack would begin at 0x{stack:08x}, which is not in RAM"
    if not 0 < start - board.flash_origin < len(content) or start % 2 == 0:
        return f"it would start at 0x{start:08x}, which is not in its code"
    return None


def made_for(content: bytes) -> str | None:
    """The one board whose serial port's address is in the code; None where that does not tell."""
    words = {word for (word,) in struct.iter_unpack("<I", content[: len(content) // 4 * 4])}
    found = [name for name, board in boards.catalog().items() if board.serial_address in words]
    return found[0] if len(found) == 1 else None
