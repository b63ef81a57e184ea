"""Recordings: MCAP files with JSON messages, and protobuf ones for viewers; Foxglove and PlotJuggler open them.

Chunks are packed by zstd and small: what was written before the disk was full, or before a crash, can be read, up to
the last whole chunk.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from mcap.exceptions import McapError
from mcap.records import Attachment, Channel, Chunk, McapRecord, Message, Metadata
from mcap.stream_reader import StreamReader, breakup_chunk
from mcap.writer import CompressionType, Writer

from stepmap.errors import DamagedError, ModelError
from stepmap.files import open_file
from stepmap.text import printable
from stepmap_hil.runs.chunks import cut_chunk, unpacked

KINDS: dict[type, dict[str, Any]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    list: {"type": "array", "items": {"type": "number"}},
}
LIBRARY = "stepmap"
NAME = re.compile(r"\w[\w .+-]{0,79}")  # no separator of paths, nothing that begins with a dot or a dash
EPOCH = re.compile(r"[0-9]{1,19}")
LARGEST = 2 * 1024**3  # bytes of a file and of its unpacked chunks: some hours; all of it is read into memory
CHUNK = 16 * 1024  # bytes, about 0.1 s: what a cut may cost; four times larger ones are a tenth smaller
DAMAGED = (McapError, EOFError, ValueError, AssertionError, LookupError, OverflowError, MemoryError, struct.error)
"""What the reader raises at the end of a cut file, or in the middle of a damaged one."""


def name_of(text: str) -> str:
    """A name for a recording: what no reader would take becomes an underline."""
    made = re.sub(r"[^\w .+-]", "_", text)[:80]
    return made if NAME.fullmatch(made) else f"_{made[:79]}"


@dataclass(frozen=True)
class Entry:
    """One recorded message: its topic, the time of the run in seconds, its content."""

    topic: str
    time: float
    content: dict[str, Any]
    stamp_ns: int = field(default=0, compare=False)  # as the file has it


class Recorder:
    """Writes entries; the schema of a topic is that of its first entry."""

    def __init__(self, path: Path, about: Mapping[str, str], attachments: Mapping[str, bytes] | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file: IO[bytes] = path.open("wb")
        self._writer = Writer(self._file, compression=CompressionType.ZSTD, chunk_size=CHUNK)
        self._channels: dict[str, int] = {}
        self._sequence = 0
        self._epoch = _epoch(about)
        self.failed: OSError | None = None
        try:
            self._writer.start(profile="", library=LIBRARY)
            self._writer.add_metadata("run", dict(about))
            for name, data in (attachments or {}).items():
                self._writer.add_attachment(0, 0, name, "application/octet-stream", data)
        except OSError as error:
            self.failed = error

    def add(self, name: str, about: Mapping[str, str]) -> None:
        """More about the run, known only now."""
        if self.failed is None:
            try:
                self._writer.add_metadata(name, dict(about))
            except OSError as error:
                self.failed = error

    @contextmanager
    def telling_why(self) -> Iterator[None]:
        """Adds why a run was cut off, where an error leaves the block."""
        try:
            yield
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            self.add("aborted", {"why": str(error) or ("interrupted" if interrupted else type(error).__name__)})
            raise

    def write(self, topic: str, time: float, /, **content: Any) -> None:
        """Adds an entry. Where the disk is full the recording ends, and the run is told by ``failed``."""
        if self.failed is not None:
            return
        try:
            if topic not in self._channels:
                self._channels[topic] = self._channel(topic, content)
            self._add(topic, time, json.dumps(content, allow_nan=False).encode())
        except OSError as error:
            self.failed = error

    def write_proto(self, topic: str, time: float, message: Any) -> None:
        """Adds a protobuf message for viewers; ``read`` passes over it."""
        if self.failed is not None:
            return
        try:
            if topic not in self._channels:
                kind = message.DESCRIPTOR
                number = self._writer.register_schema(kind.full_name, "protobuf", _described(kind))
                self._channels[topic] = self._writer.register_channel(topic, "protobuf", number)
            self._add(topic, time, message.SerializeToString())
        except OSError as error:
            self.failed = error

    def stamp(self, time: float) -> int:
        """A time of the run in nanoseconds since 1970, where the recording says when it began."""
        return self._epoch + round(time * 1e9)

    def _add(self, topic: str, time: float, data: bytes) -> None:
        self._sequence += 1
        stamp = self.stamp(time)
        self._writer.add_message(self._channels[topic], stamp, data, stamp, self._sequence)

    def _channel(self, topic: str, content: Mapping[str, Any]) -> int:
        properties = {name: KINDS[type(value)] for name, value in content.items()}
        schema = {"title": topic.strip("/"), "type": "object", "properties": properties}
        number = self._writer.register_schema(
            f"stepmap{topic.replace('/', '.')}", "jsonschema", json.dumps(schema).encode()
        )
        return self._writer.register_channel(topic, "json", number)

    def close(self) -> None:
        """Ends the file. One that could not be written to the end keeps what is whole."""
        if self._file.closed:
            return
        try:
            if self.failed is None:
                self._writer.finish()  # type: ignore[no-untyped-call]
            self._file.close()
        except OSError as error:
            self.failed = self.failed or error
            with suppress(OSError):
                self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _described(kind: Any) -> bytes:
    """A FileDescriptorSet with the file of a protobuf message and all that it imports."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    made, seen, queue = FileDescriptorSet(), set(), [kind.file]
    while queue:
        file = queue.pop()
        if file.name not in seen:
            seen.add(file.name)
            file.CopyToProto(made.file.add())
            queue += file.dependencies
    return bytes(made.SerializeToString())


@dataclass(frozen=True)
class Recording:
    """A file as far as it is whole."""

    about: dict[str, dict[str, str]]  # metadata by name; "run" is always there
    attachments: dict[str, bytes]
    entries: list[Entry]

    def of(self, topic: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.topic == topic]


def read(path: Path) -> Recording:
    """The content of a file; of one that ends early or is damaged, what comes before that.

    Nothing of it is believed: texts of its metadata come printable, and no length that it declares exceeds the file's.
    """
    made = Recording({}, {}, [])
    try:
        with open_file(path, links=True) as file:
            size = os.fstat(file.fileno()).st_size
            if size > LARGEST:
                raise DamagedError(f"{path} has {size} bytes, and recordings have {LARGEST} at most")
            for part in whole_records(_entries(records_of(file, size), path)):
                if isinstance(part, Metadata):
                    made.about[part.name] = {name: printable(text) for name, text in part.metadata.items()}
                elif isinstance(part, Attachment):
                    made.attachments[part.name] = part.data
                elif isinstance(part, Entry):
                    epoch = _epoch(made.about.get("run", {}))
                    made.entries.append(replace(part, time=(part.stamp_ns - epoch) * 1e-9) if epoch else part)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if "run" not in made.about:
        raise ModelError(f"{path} is no recording of a run, or nothing was written to it")
    return made


def _entries(records: Iterator[McapRecord], path: Path) -> Iterator[McapRecord | Entry]:
    """Records, with messages as entries."""
    topics: dict[int, str] = {}  # of channels in JSON; the others are for viewers
    known: set[int] = set()
    for part in parts_of(records, path):
        if isinstance(part, Channel):
            known.add(part.id)
            if part.message_encoding == "json":
                topics[part.id] = part.topic
        elif isinstance(part, Message):
            if part.channel_id in topics or part.channel_id not in known:
                content = _content(part.data, path)
                yield Entry(topics[part.channel_id], part.log_time * 1e-9, content, part.log_time)
        else:
            yield part


def parts_of(records: Iterator[McapRecord], path: Path) -> Iterator[McapRecord]:
    """Records with those of chunks in their place; all that is unpacked has a bound."""
    total = 0
    for record in records:
        if not isinstance(record, Chunk):
            yield record
            continue
        try:
            opened = unpacked(record)
        except DamagedError as error:
            raise DamagedError(f"{path}: {error}") from None
        total += len(opened.data)
        if total > LARGEST:
            raise DamagedError(f"{path} unpacks to more than {LARGEST} bytes, and recordings have that at most")
        yield from breakup_chunk(opened)


def _content(data: bytes, path: Path) -> dict[str, Any]:
    try:
        made = json.loads(data, parse_constant=_refuse)
    except RecursionError:
        raise DamagedError(f"{path} is damaged: one of its messages is nested too deeply") from None
    if not isinstance(made, dict):
        raise DamagedError(f"{path} is damaged: one of its messages is not a set of named values")
    return made


def _epoch(about: Mapping[str, str]) -> int:
    """When a recording began [ns since 1970]; 0 of one that does not say it."""
    told = about.get("epoch_ns", "")
    return int(told) if EPOCH.fullmatch(told) else 0


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")  # as the recorder, which writes none


def records_of(file: IO[bytes], size: int) -> Iterator[McapRecord]:
    """Records and chunks; of a file that is cut off in the middle of a chunk also those of it that are whole."""
    limit = max(size, 1)
    try:
        yield from StreamReader(file, emit_chunks=True, record_size_limit=limit).records
    except DAMAGED:
        rest = cut_chunk(file)
        if rest is None:
            raise
        yield from StreamReader(rest, record_size_limit=limit).records


def whole_records(items: Iterator[Any]) -> Iterator[Any]:
    """Ends where a damaged or cut file ends."""
    try:
        yield from items
    except DAMAGED:
        return
