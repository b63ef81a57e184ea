"""Recordings: MCAP files with JSON messages and their schemas; Foxglove and PlotJuggler open them.

What was written before the disk was full, or before a crash, can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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


@dataclass(frozen=True)
class Entry:
    """One recorded message: its topic, the time of the run in seconds, its content."""

    topic: str
    time: float
    content: dict[str, Any]


class Recorder:
    """Writes entries; the schema of a topic is that of its first entry."""

    def __init__(self, path: Path, about: Mapping[str, str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file: IO[bytes] = path.open("wb")
        self._writer = Writer(self._file, compression=CompressionType.NONE, chunk_size=64 * 1024)
        self._writer.start(profile="", library=LIBRARY)
        self._writer.add_metadata("run", dict(about))
        self._channels: dict[str, int] = {}
        self._sequence = 0
        self.failed: OSError | None = None

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

    def flush(self) -> None:
        """What was written so far can be read even if nothing follows."""
        try:
            self._file.flush()
        except OSError as error:
            self.failed = error

    def close(self) -> None:
        if self._file.closed:
            return
        try:
            self._writer.finish()  # type: ignore[no-untyped-call]
            self._file.close()
        except OSError as error:
            self.failed = self.failed or error
            self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read(path: Path) -> tuple[dict[str, str], list[Entry]]:
    """(about the run, entries) of a file; of one that ends early, what is whole."""
    about: dict[str, str] = {}
    entries: list[Entry] = []
    try:
        with path.open("rb") as file:
            reader = NonSeekingReader(file)
            for metadata in _quietly(reader.iter_metadata()):
                about = dict(metadata.metadata)
        with path.open("rb") as file:
            for _, channel, message in _quietly(NonSeekingReader(file).iter_messages(log_time_order=False)):
                entries.append(Entry(channel.topic, message.log_time * 1e-9, json.loads(message.data)))
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if not about and not entries:
        raise ModelError(f"{path} is no recording of a run, or nothing was written to it")
    return about, entries


def _quietly(items: Iterator[Any]) -> Iterator[Any]:
    """Ends where a damaged or cut file ends."""
    try:
        yield from items
    except (McapError, EOFError, ValueError, AssertionError):
        return
