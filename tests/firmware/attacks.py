"""What somebody at the line can send without the key: bytes, again and again."""

from __future__ import annotations

import random
import struct
from typing import Any

from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message


def unsigned(name: str, **fields: Any) -> bytes:
    """A right frame without a signature, to board 1."""
    return dialect.encode(Message(name, {"target_system": 1, **fields}, system=255, component=1), 0)


def forged(payload: bytes, kind: str = "UPLOAD_CHUNK", block: bytes = b"") -> bytes:
    """A frame with a right checksum that says it is signed, and what stands in for its signature block."""
    number = dialect.value(f"MAVLINK_MSG_ID_{kind}")
    head = bytes([0xFD, len(payload), 1, 0, 0, 255, 1]) + number.to_bytes(3, "little")
    crc = dialect.module().x25crc(head[1:] + payload)
    crc.accumulate(bytes([dialect.module().mavlink_map[number].crc_extra]))
    return head + payload + struct.pack("<H", crc.crc) + block


BEGUN = forged(bytes(199))[:10]
"""The head of the longest message, whose rest never comes."""

NESTED = (BEGUN + forged(b"\1", "PING") * 15).ljust(224, b"\xfd")
"""As many frames as there is room for in one, whose own checksum is wrong."""

# A signature costs the more for its bytes the shorter the frame is, and most where SHA-256 needs one block more: with 5
# bytes of payload. Up to 3 bytes of a frame may be the first of the next.
ATTACKS: dict[str, bytes] = {
    "begun frames": BEGUN,
    "begun frames, then zeros": BEGUN + bytes(913),
    "nested frames": NESTED,
    "shortest frames": forged(b"\1", "PING"),
    "overlapping frames": forged(bytes([1] * 5), "PING", bytes(4)),
    "signatures of 1 block": forged(b"\1", "PING", bytes(10)),
    "signatures of 2 blocks": forged(bytes([1] * 5), "PING", bytes(10)),
    "signatures of 3 blocks": forged(bytes([1] * 69), block=bytes(10)),
    "longest frames, wrong signature": forged(bytes([1] * 199), block=bytes(13)),
    "unsigned frames": unsigned("COMMAND", command=dialect.value("STEPMAP_COMMAND_STOP"), token=7),
    "starts of frames": b"\xfd",
    "noise": random.Random(1).randbytes(4096),
}
