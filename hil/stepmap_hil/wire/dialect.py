"""Messages of the stepmap dialect as values, and as frames on the wire (docs/wire.md).

Packing and unpacking is done by the module that mavgen writes from firmware/dialect/stepmap.xml. It is generated at
first use and kept in the cache, named by the digest of all that went into it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import importlib
import importlib.metadata
import io
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from stepmap.errors import ToolchainError
from stepmap.graph import cache
from stepmap.text import printable, sentence
from stepmap_codegen.emit.wire_limits import source

START = 0xFD
SIGNED = 1
HEADER = 10
CHECKSUM = 2
SIGNATURE = 13
PARTS = {
    "estimate": "states",
    "innovation": "channels",
    "command": "commands",
}  # of telemetry's words, and their counts


@dataclass(frozen=True)
class Message:
    """A message and who sent it. Fields are read as attributes: numbers, tuples of numbers, bytes, or text.

    Of TELEMETRY also `estimate`, `innovation`, `command` and, whatever is behind them, `modes`: its words.
    """

    name: str
    fields: Mapping[str, Any]
    system: int = 0
    component: int = 0
    trusted: bool = False
    """Signed with the key of the link."""

    def __getattr__(self, field: str) -> Any:
        fields, name = self.__dict__.get("fields", {}), self.__dict__.get("name", "message")
        if field in fields:
            return fields[field]
        if name == "TELEMETRY" and field in (*PARTS, "modes"):
            return _part(fields, field)
        raise AttributeError(f"{name} has no field {field}")


def _part(telemetry: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """Some words of a tick: they are sent one behind the other."""
    begin, words = 0, tuple(telemetry.get("words", ()))
    for part, count in PARTS.items():
        end = begin + telemetry.get(count, 0)
        if part == name:
            return words[begin:end]
        begin = end
    return words[begin:]


@functools.cache
def module() -> ModuleType:
    """What mavgen writes for Python."""
    version = importlib.metadata.version("pymavlink")
    digest = hashlib.sha256(source().read_bytes() + version.encode()).hexdigest()[:16]
    path = cache.folder() / f"stepmap_dialect_{digest}.py"
    if not cache.own(path):
        _generate(path)
    loaded = ModuleType("stepmap_dialect")
    exec(compile(path.read_bytes(), path, "exec"), loaded.__dict__)  # not imported: that would run a .pyc beside it
    return loaded


def _generate(path: Path) -> None:
    mavgen = importlib.import_module("pymavlink.generator.mavgen")
    said = io.StringIO()
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        fresh = Path(folder) / "stepmap_dialect.py"
        options = mavgen.Opts(str(fresh), wire_protocol="2.0", language="Python3")
        with contextlib.redirect_stdout(said):
            done = mavgen.mavgen(options, [str(source())])
        if not done:
            raise ToolchainError(
                "mavgen refused the dialect", command="mavgen", log=said.getvalue(), remedy=f"correct {source()}"
            )
        fresh.chmod(0o600)
        os.replace(fresh, path)


def value(name: str) -> int:
    """A value by its full name: value("STEPMAP_COMMAND_ARM")."""
    found: int = getattr(module(), name)
    return found


def word(enum: str, number: int) -> str:
    """A value in a word: word("STEPMAP_STATE", 3) is "armed"."""
    entry = module().enums[enum].get(number)
    return entry.name.removeprefix(f"{enum}_").lower().replace("_", " ") if entry else str(number)


def meaning(enum: str, number: int) -> str:
    """A value in a sentence, with what to do about it."""
    entry = module().enums[enum].get(number)
    return entry.description.strip() if entry else f"{enum} {number}, which this version of the host does not know."


def cause_and_remedy(enum: str, number: int) -> tuple[str, str]:
    """The two halves of that sentence, which a colon parts: cause and hint of an error."""
    cause, _, remedy = meaning(enum, number).partition(": ")
    return sentence(cause), sentence(remedy)


def _kind(name: str) -> Any:
    try:
        return _kinds()[name]
    except KeyError:
        raise ValueError(f"the dialect has no message {name}") from None


@functools.cache
def _kinds() -> dict[str, Any]:
    return {kind.msgname: kind for kind in module().mavlink_map.values()}


def fields(name: str) -> tuple[str, ...]:
    """Names of a message's fields, in the order of the XML."""
    return tuple(_kind(name).fieldnames)


def known(name: str) -> bool:
    """Whether the dialect has a message of this name."""
    return name in _kinds()


def lengths(name: str) -> dict[str, int]:
    """Arrays of a message, and how many entries each has."""
    kind = _kind(name)
    return {field: n for field, n in zip(kind.ordered_fieldnames, kind.array_lengths, strict=True) if n > 0}


def encode(message: Message, sequence: int, *, key: bytes | None = None, timestamp: int = 0, link_id: int = 0) -> bytes:
    """The frame of a message; fields left out are 0."""
    kind = _kind(message.name)
    unknown = set(message.fields) - set(kind.fieldnames)
    if unknown:
        raise ValueError(f"{message.name} has no field {', '.join(sorted(unknown))}")
    packer = module().MAVLink(None, srcSystem=message.system, srcComponent=message.component)
    packer.seq = sequence % 256
    if key is not None:
        packer.signing.secret_key = key
        packer.signing.link_id = link_id
        packer.signing.timestamp = timestamp
        packer.signing.sign_outgoing = True
    values = [
        _wire(message.fields.get(name), kind.fieldtypes[i], kind.array_lengths[kind.ordered_fieldnames.index(name)])
        for i, name in enumerate(kind.fieldnames)
    ]
    return bytes(kind(*values).pack(packer))


def _wire(given: Any, kind: str, length: int) -> Any:
    """A field as mavgen's module takes it."""
    if kind == "char":
        return (given or "").encode()[:length]
    if length == 0:
        return int(given or 0)
    entries = [] if given is None else [int(entry) for entry in given]
    if len(entries) > length:
        raise ValueError(f"{len(entries)} entries for a field of {length}")
    return entries + [0] * (length - len(entries))


def decode(frame: bytes, *, trusted: bool = False) -> Message:
    """The message of a whole frame; checks neither checksum nor signature."""
    kind = module().mavlink_map[frame_id(frame)]
    payload = frame[HEADER : HEADER + frame[1]].ljust(kind.unpacker.size, b"\0")
    words = kind.unpacker.unpack(payload)
    read: dict[str, Any] = {}
    for name, kind_of, length in zip(kind.ordered_fieldnames, _wire_types(kind), kind.array_lengths, strict=True):
        if kind_of == "char":
            text, words = words[0], words[1:]
            read[name] = printable(text.split(b"\0")[0].decode(errors="replace"))
        elif length == 0:
            read[name], words = words[0], words[1:]
        else:
            part, words = words[:length], words[length:]
            read[name] = bytes(part) if kind_of == "uint8_t" else part
    return Message(kind.msgname, read, system=frame[5], component=frame[6], trusted=trusted)


def _wire_types(kind: Any) -> list[str]:
    return [kind.fieldtypes[kind.fieldnames.index(name)] for name in kind.ordered_fieldnames]


def frame_id(frame: bytes | bytearray) -> int:
    return int.from_bytes(frame[7:10], "little")


def signature(frame: bytes, key: bytes) -> bytes:
    """The 48 bits that a signed frame ends with if it was made with this key."""
    return hashlib.sha256(key + frame[:-6]).digest()[:6]


def timestamp(frame: bytes) -> int:
    return int.from_bytes(frame[-12:-6], "little")


KeyOf = Callable[[bytes], bytes | None]
"""The key that a signed frame must have been made with; None where that is not known."""


class Framer:
    """Cuts a stream of bytes into frames with a right checksum and, where there is a key, a right signature.

    After a damaged frame it looks again at every byte behind its start: noise never costs a frame that arrived whole.
    Signed frames of senders whose key is not known are left out.
    """

    def __init__(self, key: bytes | KeyOf | None = None) -> None:
        self._key = key
        self._bytes = bytearray()
        self.noise = 0
        """Bytes that belonged to no frame."""
        self.damaged = 0
        """Frames with a wrong checksum."""
        self.forged = 0
        """Frames signed with another key."""
        self.unknown = 0
        """Signed frames of senders whose key is not known."""

    def feed(self, received: bytes) -> Iterator[bytes]:
        """The frames that are whole now; those without a signature too."""
        self._bytes += received
        while (size := self._examine()) is not None:
            if size > 0:
                frame = bytes(self._bytes[:size])
                del self._bytes[:size]
                yield frame

    def _examine(self) -> int | None:
        """Size of the frame at the start; 0 where there was none, and its bytes are gone; None where more is needed."""
        begun = self._bytes
        if not begun:
            return None
        if begun[0] != START or (len(begun) > 2 and begun[2] & ~SIGNED):
            return self._skip()
        if len(begun) < HEADER:
            return None
        kind = module().mavlink_map.get(frame_id(begun))
        if kind is None or begun[1] > kind.unpacker.size:
            return self._skip()
        signed = bool(begun[2] & SIGNED)
        checked = HEADER + begun[1]
        size = checked + CHECKSUM + (SIGNATURE if signed else 0)
        if len(begun) < size:
            return None
        seeded = bytes(begun[1:checked]) + bytes([kind.crc_extra])
        if module().x25crc(seeded).crc != int.from_bytes(begun[checked : checked + CHECKSUM], "little"):
            self.damaged += 1
            return self._skip()
        if signed and self._key is not None:
            frame = bytes(begun[:size])
            key = self._key(frame) if callable(self._key) else self._key
            if key is None:
                self.unknown += 1
                del begun[:size]
                return 0
            if not hmac.compare_digest(signature(frame, key), frame[-6:]):
                self.forged += 1
                del begun[: checked + CHECKSUM]  # what follows may belong to the next: this one may have been cut off
                return 0
        return size

    def _skip(self) -> int:
        """Drops bytes up to the next that may start a frame."""
        next_ = self._bytes.find(START, 1)
        size = next_ if next_ > 0 else len(self._bytes)
        self.noise += size
        del self._bytes[:size]
        return 0
