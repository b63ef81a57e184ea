"""A recording that a full disk, a crash or a cable cut off, written again as a whole file with an index."""

from __future__ import annotations

from pathlib import Path

from mcap.records import Attachment, Channel, Message, Metadata, Schema
from mcap.writer import CompressionType, Writer

from stepmap.errors import ModelError
from stepmap_hil.runs.mcap import CHUNK, LIBRARY, parts_of, read, records_of, whole_records


def recover(path: Path, out: Path) -> int:
    """Writes what is whole of a recording to another file; the number of its messages."""
    read(path)  # raises where it is no recording of ours
    if out.exists():
        raise ModelError(f"{out} is there already", hint="Give another name with --out.")
    count = 0
    with path.open("rb") as source, out.open("xb") as target:
        writer = Writer(target, compression=CompressionType.ZSTD, chunk_size=CHUNK)
        writer.start(profile="", library=LIBRARY)
        schemas: dict[int, int] = {0: 0}
        channels: dict[int, int] = {}
        for part in whole_records(parts_of(records_of(source, path.stat().st_size), path)):
            if isinstance(part, Schema) and part.id not in schemas:
                schemas[part.id] = writer.register_schema(part.name, part.encoding, part.data)
            elif isinstance(part, Channel) and part.id not in channels:
                channels[part.id] = writer.register_channel(
                    part.topic, part.message_encoding, schemas[part.schema_id], part.metadata
                )
            elif isinstance(part, Message):
                at = (part.log_time, part.data, part.publish_time, part.sequence)
                writer.add_message(channels[part.channel_id], *at)
                count += 1
            elif isinstance(part, Metadata):
                writer.add_metadata(part.name, part.metadata)
            elif isinstance(part, Attachment):
                given = (part.create_time, part.log_time, part.name, part.media_type, part.data)
                writer.add_attachment(*given)
        writer.finish()  # type: ignore[no-untyped-call]
    return count
