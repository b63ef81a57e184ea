"""Chunks of a recording: packed ones opened within bounds, and what is whole of the last one where a file is cut off.

A packed chunk says how large it will be, and may lie. It is opened through a stream that stops at that size, so what a
chunk costs is bounded by `MOST`, and what a file costs by the caller.
"""

from __future__ import annotations

import io
import os
import struct
from dataclasses import replace
from typing import IO

import zstandard
from mcap.records import Chunk

from stepmap.errors import DamagedError
from stepmap.text import printable

MAGIC, CHUNK = b"\x89MCAP0\r\n", 0x06
HEAD = struct.Struct("<BQ")  # opcode and length of a record
ABOUT = 8 + 8 + 8 + 4  # bytes: first and last time, size, checksum; then comes the compression as a text
PACKED = "zstd"  # as ours are; another kind is refused
MOST = 64 * 1024 * 1024  # bytes of a chunk; ours have 16 KiB, other programs' 4 MiB
WINDOW = 32 * 1024 * 1024  # bytes of memory for what zstd looks back on


def unpacked(chunk: Chunk) -> Chunk:
    """The chunk as it was before it was packed; raises DamagedError where opening it could cost too much."""
    if not chunk.compression:
        return chunk
    if chunk.compression != PACKED:
        kind = printable(repr(chunk.compression))
        raise DamagedError(
            f"a chunk is packed by {kind}, and recordings by {PACKED}: mcap decompress makes a file that is not packed"
        )
    size = chunk.uncompressed_size
    if size > MOST:
        raise DamagedError(f"a chunk unpacks to {size} bytes, and those of recordings to {MOST} at most")
    data = _opened(chunk.data, size)
    if len(data) != size:  # damaged: the recording ends before it
        raise ValueError(f"a chunk does not unpack to the {size} bytes that it says")
    return replace(chunk, compression="", data=data)


def _opened(packed: bytes, size: int) -> bytes:
    """At most ``size`` bytes, and one more where there are more; of a damaged or cut text what comes before."""
    found, left = [], size + 1
    try:
        with zstandard.ZstdDecompressor(max_window_size=WINDOW).stream_reader(packed) as stream:
            while left and (part := stream.read(left)):
                found.append(part)
                left -= len(part)
    except zstandard.ZstdError:
        pass  # what came before it is all there is
    return b"".join(found)


def cut_chunk(file: IO[bytes]) -> IO[bytes] | None:
    """The records in a chunk that the file ends in the middle of, as a stream of their own; None without one.

    Of a packed one that is what zstd has closed before the cut: nothing of ours, which are a single block.
    """
    size = os.fstat(file.fileno()).st_size
    file.seek(len(MAGIC))
    while len(head := file.read(HEAD.size)) == HEAD.size:
        opcode, length = HEAD.unpack(head)
        if file.tell() + length <= size:
            file.seek(length, os.SEEK_CUR)
            continue
        rest = file.read()
        if opcode != CHUNK or len(rest) < ABOUT + 4:
            return None  # no chunk, or one of which not even the head is there
        begin = ABOUT + 4 + int.from_bytes(rest[ABOUT : ABOUT + 4], "little")
        kind, data = rest[ABOUT + 4 : begin], rest[begin + 8 :]
        if kind == PACKED.encode():
            data = _opened(data, min(int.from_bytes(rest[16:24], "little"), MOST))
        return None if kind not in (b"", PACKED.encode()) else io.BytesIO(MAGIC + data)
    return None
