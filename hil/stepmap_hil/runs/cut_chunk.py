"""What is whole of the last chunk of a recording that was cut off in the middle of it."""

from __future__ import annotations

import io
import os
import struct
from typing import IO

MAGIC, CHUNK = b"\x89MCAP0\r\n", 0x06
HEAD = struct.Struct("<BQ")  # opcode and length of a record
ABOUT = 8 + 8 + 8 + 4  # bytes: first and last time, size, checksum; then comes the compression as a text


def cut_chunk(file: IO[bytes]) -> IO[bytes] | None:
    """The records in a chunk that the file ends in the middle of, as a stream of their own; None without one."""
    size = os.fstat(file.fileno()).st_size
    file.seek(len(MAGIC))
    while len(head := file.read(HEAD.size)) == HEAD.size:
        opcode, length = HEAD.unpack(head)
        if file.tell() + length <= size:
            file.seek(length, os.SEEK_CUR)
            continue
        rest = file.read()
        if opcode != CHUNK or len(rest) < ABOUT + 12 or rest[ABOUT : ABOUT + 4] != bytes(4):
            return None  # no chunk, one of which not even the head is there, or a compressed one
        return io.BytesIO(MAGIC + rest[ABOUT + 12 :])
    return None
