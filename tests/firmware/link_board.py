"""A board in a process (harness_link.c, with address and undefined-behaviour sanitizers) and lines to it.

Where the environment names a folder in STEPMAP_COVERAGE, branches are counted there instead of sanitizing.
"""

from __future__ import annotations

import atexit
import functools
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.key import Key
from stepmap_hil.wire.link import Link, clock

ROOT = Path(__file__).parents[2]
CORE = ROOT / "firmware" / "core"
HERE = Path(__file__).parent
SOURCES = [HERE / "flash.c", *(CORE / f"sm_{name}.c" for name in ("link", "upload", "store", "sha256", "schedule"))]
FLAGS = ["-std=c11", "-g", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
SANITIZE = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
COUNT = ["-O0", "--coverage"]

BOARD = bytes(range(12))  # its id


class KeyOfBoard(Key):
    """A key, and what follows from it for this board."""

    @property
    def link(self) -> bytes:
        return self.of_board(BOARD).link

    @property
    def upload(self) -> bytes:
        return self.of_board(BOARD).upload


KEY = KeyOfBoard(bytes(range(32)))
OTHER_KEY = KeyOfBoard(bytes(range(1, 33)))
MODEL = b"model001"
BANK = 36864
JOURNAL = 1024


@functools.cache
def folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="stepmap-link-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def headers() -> Path:
    """What mavgen writes for C."""
    out = folder() / "dialect"
    subprocess.run([sys.executable, ROOT / "tools" / "mavgen.py", "--out", out], check=True)
    return out / "c"


@functools.cache
def harness() -> Path:
    counted = os.environ.get("STEPMAP_COVERAGE")
    place = Path(counted) if counted else folder()
    built = place / "harness_link"
    kind = COUNT if counted else SANITIZE
    include = [f"-I{CORE}", f"-I{HERE}", "-isystem", str(headers())]
    sources = [str(path) for path in [HERE / "harness_link.c", *SOURCES]]
    subprocess.run(["gcc", *FLAGS, *kind, *include, "-o", str(built), *sources], check=True, cwd=place)
    return built


@dataclass(frozen=True)
class Facts:
    """What the board says about itself."""

    received: int
    noise: int
    damaged: int
    bare: int
    forged: int
    replayed: int
    unsaved: int
    elsewhere: int
    sent: int
    unsent: int
    active: int
    sequence: int
    operations: int
    alive: int
    activations: int
    commands: int
    floor: int
    timestamp: int
    counter: int


class Board:
    """The process; ended with the block. Its memory lasts over `reset` as flash does."""

    def __init__(self, key: Key | None = KEY, *, banks: int = BANK, journals: int = JOURNAL) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([harness()], stdin=pipe, stdout=pipe)
        self.ask("Z", struct.pack("<4I", banks, banks, journals, journals))
        self.ask("K", key.secret if key else b"")
        self.reset()

    def ask(self, letter: str, payload: bytes = b"") -> bytes:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(letter.encode() + struct.pack("<I", len(payload)) + payload)
            self.process.stdin.flush()
            head = self.process.stdout.read(4)
        except BrokenPipeError:
            head = b""
        assert len(head) == 4, f"the board crashed with {self.process.wait()}; its words are above"
        return self.process.stdout.read(struct.unpack("<I", head)[0])

    def reset(self, system: int = 1) -> int:
        """The result of starting again, 0 or negative; what the board sent is gone."""
        answer = self.ask("R", bytes([system]))
        return struct.unpack("<i", answer)[0] if answer else -1  # empty: lost power while starting

    def feed(self, received: bytes) -> bytes:
        return self.ask("F", received)

    def accepted(self) -> list[tuple[int, int, bytes]]:
        """(id, system, payload) of the messages taken since asked last."""
        answer, found = self.ask("A"), []
        while answer:
            number, system, size = struct.unpack_from("<IBB", answer)
            found.append((number, system, answer[6 : 6 + size]))
            answer = answer[6 + size :]
        return found

    def facts(self) -> Facts:
        return Facts(*struct.unpack("<16I3Q", self.ask("Q")))

    def schedule(self) -> bytes:
        return self.ask("S")

    def cut(self, operation: int, part: int, seed: int = 1) -> None:
        self.ask("C", struct.pack("<3I", operation, part, seed))

    def fail(self, operation: int) -> None:
        self.ask("X", struct.pack("<I", operation))

    def deny(self, operation: int) -> None:
        """That operation from now is done, and says that it was not."""
        self.ask("L", struct.pack("<I", operation))

    def weaken(self, ones: int, seed: int = 1) -> None:
        """Cells of an operation that loses power read as 1 so many times out of 256."""
        self.ask("P", struct.pack("<2I", ones, seed))

    def wear(self, region: int, at: int, bits: int) -> None:
        self.ask("Y", struct.pack("<3I", region, at, bits))

    def renew(self, banks: int = BANK, journals: int = JOURNAL) -> None:
        """Memory that was never erased, without worn cells."""
        self.ask("Z", struct.pack("<4I", banks, banks, journals, journals))

    def idle(self, yes: bool) -> None:
        self.ask("I", bytes([yes]))

    def result(self, letter: str, layout: str = "<", *values: int) -> int:
        """What a function of the store returned."""
        return struct.unpack("<i", self.ask(letter, struct.pack(layout, *values)))[0]

    def reserve(self, timestamp: int) -> int:
        return self.result("V", "<Q", timestamp)

    def tend(self) -> int:
        return self.result("T")

    def memory(self) -> bytes:
        return self.ask("G")

    def restore(self, memory: bytes) -> None:
        self.ask("W", memory)

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(timeout=600) == 0


Fault = Callable[[bytes], list[bytes]]
"""What arrives for one frame: none, itself, two of them, ..."""


def faithful(frame: bytes) -> list[bytes]:
    return [frame]


class Line:
    """A serial port to the board; each frame written is answered at once, faults aside."""

    def __init__(
        self, board: Board, *, to: Fault = faithful, back: Fault = faithful, beat: float | None = None
    ) -> None:
        self.board = board
        self.beat = beat  # seconds between heartbeats
        self.beaten = 0.0
        self.timeout: float | None = None
        self.to = to
        self.back = back
        self.said: list[bytes] = []
        self._framer = dialect.Framer()
        self._waiting = bytearray()

    @property
    def in_waiting(self) -> int:
        return len(self._waiting)

    def write(self, data: bytes) -> int:
        self.said.append(data)
        for part in self.to(data):
            self.hear(self.board.feed(part))
        return len(data)

    def hear(self, sent: bytes) -> None:
        for frame in self._framer.feed(sent):
            for part in self.back(frame):
                self._waiting += part

    def heartbeat(self) -> None:
        self.hear(self.board.ask("B"))

    def read(self, size: int = 1) -> bytes:
        if self.beat is not None and time.monotonic() > self.beaten + self.beat:
            self.beaten = time.monotonic()
            self.heartbeat()
        if not self._waiting:
            time.sleep(1e-3)
        taken = bytes(self._waiting[:size])
        del self._waiting[:size]
        return taken

    def close(self) -> None:
        self._waiting.clear()


def linked(board: Board, key: Key | None = KEY, beat: float | None = None, **faults: Fault) -> tuple[Link, Line]:
    line = Line(board, beat=beat, **faults)
    return Link(line, key, board_id=None if key is None else BOARD), line


class Stamps:
    """Timestamps for frames made by hand: from the clock on, or from a start."""

    def __init__(self, start: int | None = None) -> None:
        self.now = clock() if start is None else start

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.now += 1
        return self.now

    def jump(self) -> None:
        """Over what a board keeps ahead of a reset."""
        self.now += 2**27


def frame(name: str, *, key: KeyOfBoard | None = KEY, timestamp: int = 0, sequence: int = 0, **fields: object) -> bytes:
    """A frame as the host sends it, to board 1."""
    if "target_system" in dialect.fields(name):
        fields.setdefault("target_system", 1)
    message = Message(name, fields, system=255, component=1)
    stamp = timestamp or clock()
    return dialect.encode(message, sequence, key=key.link if key else None, timestamp=stamp)


def blob(size: int, seed: int = 0, model: bytes = MODEL) -> bytes:
    """Bytes that begin like a schedule."""
    return b"SMS1\x01\0\x28\0" + model + random.Random(seed).randbytes(size - 17) + b"\x11"
