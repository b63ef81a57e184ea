"""Recordings: MCAP files with JSON messages and their schemas; Foxglove and PlotJuggler open them.

What was written before the disk was full, or before a crash, can be read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from mcap.exceptions import McapError
from mcap.reader import NonSeekingReader
from mcap.writer import CompressionType, Writer

from stepmap.errors import ModelError

KINDS: dict[type, dict[str, Any]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    list: {"type": "array", "items": {"type": "number"}},
}
LIBRARY = "stepmap"
DAMAGED = (McapError, EOFError, ValueError, AssertionError, LookupError, OverflowError, MemoryError, struct.error)
"""What the reader raises at the end of a cut file, or in the middle of a damaged one."""


@dataclass(frozen=True)
class Entry:
    """One recorded message: its topic, the time of the run in seconds, its content."""

    topic: str
    time: float
    content: dict[str, Any]


class Recorder:
    """Writes entries; the schema of a topic is that of its first entry."""

    def __init__(self, path: Path, about: Mapping[str, str], attachments: Mapping[str, bytes] | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file: IO[bytes] = path.open("wb")
        self._writer = Writer(self._file, compression=CompressionType.NONE, chunk_size=64 * 1024)
        self._channels: dict[str, int] = {}
        self._sequence = 0
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

    def write(self, topic: str, time: float, /, **content: Any) -> None:
        """Adds an entry. Where the disk is full the recording ends, and the run is told by ``failed``."""
        if self.failed is not None:
            return
        try:
            if topic not in self._channels:
                self._channels[topic] = self._channel(topic, content)
            self._sequence += 1
            stamp = round(time * 1e9)
            data = json.dumps(content, allow_nan=False).encode()
            self._writer.add_message(self._channels[topic], stamp, data, stamp, self._sequence)
        except OSError as error:
            self.failed = error

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


@dataclass(frozen=True)
class Recording:
    """A file as far as it is whole."""

    about: dict[str, dict[str, str]]  # metadata by name; "run" is always there
    attachments: dict[str, bytes]
    entries: list[Entry]

    def of(self, topic: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.topic == topic]


def read(path: Path) -> Recording:
    """The content of a file; of one that ends early, what is whole."""
    made = Recording({}, {}, [])
    try:
        with path.open("rb") as file:
            for metadata in _quietly(NonSeekingReader(file).iter_metadata()):
                made.about[metadata.name] = dict(metadata.metadata)
        with path.open("rb") as file:
            for attachment in _quietly(NonSeekingReader(file).iter_attachments()):
                made.attachments[attachment.name] = attachment.data
        with path.open("rb") as file:
            made.entries.extend(_quietly(_entries(file)))
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if "run" not in made.about:
        raise ModelError(f"{path} is no recording of a run, or nothing was written to it")
    return made


def _entries(file: IO[bytes]) -> Iterator[Entry]:
    for _, channel, message in NonSeekingReader(file).iter_messages(log_time_order=False):
        yield Entry(channel.topic, message.log_time * 1e-9, json.loads(message.data))


def _quietly(items: Iterator[Any]) -> Iterator[Any]:
    """Ends where a damaged or cut file ends."""
    try:
        yield from items
    except DAMAGED:
        return
