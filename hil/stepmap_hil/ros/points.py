"""What a recording has for viewers alone: when it began, and clouds of a depth camera's points.

Recordings come from elsewhere: a cloud that is not as this program writes them is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mcap.records import Channel, McapRecord, Message, Metadata

from stepmap.errors import DamagedError
from stepmap.files import open_file
from stepmap_hil.runs.foxglove.points import MOST
from stepmap_hil.runs.mcap import EPOCH, parts_of, records_of, whole_records

TOPIC, STRIDE = "/points", 12  # bytes of x, y and z


@dataclass(frozen=True)
class Cloud:
    """Points of one frame."""

    stamp: int  # ns since 1970, when it was recorded
    seen: int  # when it was taken
    packed: bytes  # x, y, z in the world [m], 32-bit floats, little endian


def _parts(file: Path) -> Iterator[McapRecord]:
    with open_file(file, links=True) as opened:
        yield from whole_records(parts_of(records_of(opened, os.fstat(opened.fileno()).st_size), file))


def begin_of(file: Path) -> int:
    """When a recording began [ns since 1970]; 0 of one that does not say it."""
    for part in _parts(file):
        if isinstance(part, Metadata) and part.name == "run":
            told = part.metadata.get("epoch_ns", "")
            return int(told) if EPOCH.fullmatch(told) else 0
    return 0


def clouds(file: Path) -> Iterator[Cloud]:
    """The clouds of a recording, in their order; none of one without a depth camera."""
    from foxglove_schemas_protobuf.PointCloud_pb2 import PointCloud
    from google.protobuf.message import DecodeError

    known: set[int] = set()
    for part in _parts(file):
        if isinstance(part, Channel) and part.topic == TOPIC and part.message_encoding == "protobuf":
            known.add(part.id)
        elif isinstance(part, Message) and part.channel_id in known:
            try:
                cloud = PointCloud.FromString(part.data)
            except DecodeError:
                raise DamagedError(f"{file} is damaged: one of its clouds of points cannot be read") from None
            if cloud.point_stride != STRIDE or len(cloud.data) % STRIDE or len(cloud.data) > STRIDE * MOST:
                raise DamagedError(f"{file} is damaged: a cloud has points that are not x, y and z")
            yield Cloud(part.log_time, cloud.timestamp.ToNanoseconds(), cloud.data)
