"""Uploads a schedule to a board: announced, in chunks, verified there, and only then in use (docs/upload.md)."""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from stepmap.errors import LinkError
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.key import BoardKey, Key
from stepmap_hil.wire.link import Link

CHUNK = 192
UNIT = 8  # bytes in which a board writes
HEADER = re.compile(rb"\xfd.[\x00\x01]\x00....MS", re.DOTALL)  # of a frame
MAGIC = b"SMS1"
HEAD = 16
NAME = 8
RESETS = 10  # of the board during an upload, before it is given up

Progress = Callable[[int, int], None]
"""Called with the bytes that are there and those there will be."""


@dataclass(frozen=True)
class Report:
    """How an upload went."""

    size: int
    digest: bytes
    resumed_at: int
    """Bytes that were there from an upload before."""
    chunks: int
    """Chunks sent, repeated ones too."""
    repeated: int
    seconds: float
    in_use: bool = False
    """The board used it already: nothing was sent."""


@dataclass(frozen=True)
class Settings:
    """How patient an upload is."""

    window: int = 1
    """Chunks sent before an answer; more than 1 only for boards that receive while they write their memory."""
    retry: float = 0.3
    """Seconds without an answer after which a message is sent again."""
    patience: float = 10.0
    """Seconds without any progress after which it gives up; erasing takes seconds on some boards."""


def authentication(key: BoardKey, *, counter: int, size: int, digest: bytes, model: bytes, target: int) -> bytes:
    """The code that only a holder of the key can make, for one board, over UPLOAD_BEGIN's payload before it."""
    covered = struct.pack("<QI32s8sBB", counter, size, digest, model, target, 0)
    return hmac.digest(key.upload, covered, "sha256")


def upload(
    link: Link, blob: bytes, key: Key, *, progress: Progress | None = None, settings: Settings | None = None
) -> Report:
    """Brings a schedule to the board and puts it into use there; goes on where one before was cut off.

    Raises LinkError where the board refuses, with its reason, or does not answer.
    """
    if len(blob) < HEAD or not blob.startswith(MAGIC):
        raise LinkError(
            "this is not a schedule", cause="It does not begin with SMS1.", hint="Generate it with `stepmap generate`."
        )
    return _Upload(link, bytes(blob), key, progress or (lambda done, total: None), settings or Settings()).run()


class _Upload:
    def __init__(self, link: Link, blob: bytes, key: Key, progress: Progress, settings: Settings) -> None:
        self.link = link
        self.blob = blob
        self.key = key
        self.progress = progress
        self.settings = settings
        self.digest = hashlib.sha256(blob).digest()
        self.chunks = 0
        self.furthest = 0

    def run(self) -> Report:
        begun = time.monotonic()
        first = self.ask("UPLOAD_CHUNK")  # of length 0: only asks
        status = self.begin(first)
        resumed_at = status.next
        self.progress(status.next, len(self.blob))
        sent_before = self.chunks
        in_use = status.state == _state("ACTIVE")
        if not in_use:
            self.send_chunks(status)
            self.commit()
        needed = -(-(len(self.blob) - resumed_at) // CHUNK)
        chunks = self.chunks - sent_before
        return Report(
            len(self.blob), self.digest, resumed_at, chunks, max(0, chunks - needed), time.monotonic() - begun, in_use
        )

    def begin(self, status: Message) -> Message:
        """Announces the schedule with a counter above all before: the clock, or more where the board knows better."""
        for _ in range(3):
            counter = max(time.time_ns() // 1000, status.counter + 1)
            model = self.blob[8:16]
            mac = authentication(
                self.key.of_board(self.link.board_id),
                counter=counter,
                size=len(self.blob),
                digest=self.digest,
                model=model,
                target=self.link.target,
            )
            status = self.ask(
                "UPLOAD_BEGIN",
                lambda answer: answer.digest == self.digest[:NAME],
                counter=counter,
                size=len(self.blob),
                digest=self.digest,
                model=model,
                mac=mac,
            )
            if status.result != dialect.value("STEPMAP_RESULT_REPLAY"):
                break
        self.require(status)
        return status

    def send_chunks(self, status: Message) -> None:
        """Go-back-N: the board takes chunks in order only, and says in each answer which one comes next."""
        base = following = status.next
        went_back, resets = -1, 0
        last_progress = time.monotonic()
        while base < len(self.blob):
            while following < len(self.blob) and following - base < self.settings.window * CHUNK:
                following += self.send_chunk(following)
            answer = self.hear()
            if answer is None:
                self.check_patience(last_progress, base)
                following = base
                continue
            if answer.digest != self.digest[:NAME]:
                resets += 1
                if resets > RESETS:
                    raise LinkError(
                        f"board {self.link.target} was reset {resets} times during one upload",
                        hint="Look at its power supply.",
                    )
                answer = self.begin(answer)  # the board was reset
                base = following = answer.next
                continue
            self.require(answer)
            if answer.state == _state("FAILED"):  # and the answer that said so got lost
                cause, hint = dialect.cause_and_remedy("STEPMAP_RESULT", dialect.value("STEPMAP_RESULT_IO"))
                text = f"board {self.link.target} gave up the upload after {base} of {len(self.blob)} bytes"
                raise LinkError(text, cause=cause, hint=hint)
            if answer.next > base:
                base = answer.next
                following = max(following, base)
                last_progress = time.monotonic()
                self.progress(base, len(self.blob))
            elif went_back != base:
                went_back = following = base  # once: each chunk behind a gap is answered in the same way
                self.check_patience(last_progress, base)

    def send_chunk(self, offset: int) -> int:
        part = without_header(self.blob[offset : offset + CHUNK])
        self.link.send("UPLOAD_CHUNK", offset=offset, length=len(part), data=part)
        self.chunks += 1
        return len(part)

    def commit(self) -> None:
        status = self.ask("UPLOAD_COMMIT", lambda answer: answer.state == _state("ACTIVE"), digest=self.digest[:NAME])
        self.require(status)

    def ask(self, name: str, done: Callable[[Message], bool] | None = None, **fields: object) -> Message:
        """The answer to a message that is repeated until it comes: one that refuses, or one that says it is ``done``.

        Others answer what was sent before, and sent twice because the board was slow.
        """
        while self.link.poll("UPLOAD_STATUS") is not None:
            pass
        begun = time.monotonic()
        while True:
            self.link.send(name, **fields)
            while (answer := self.hear()) is not None:
                if done is None or done(answer) or answer.result != dialect.value("STEPMAP_RESULT_OK"):
                    return answer
            self.check_patience(begun, None)

    def hear(self) -> Message | None:
        deadline = time.monotonic() + self.settings.retry
        while (left := deadline - time.monotonic()) > 0:
            answer = self.link.receive("UPLOAD_STATUS", timeout=left)
            if answer is not None and answer.system == self.link.target:
                return answer
        return None

    def check_patience(self, since: float, reached: int | None) -> None:
        if time.monotonic() - since > self.settings.patience:
            where = "" if reached is None else f" after {reached} of {len(self.blob)} bytes"
            again = "" if reached is None else " Upload again to go on there."
            raise LinkError(
                f"board {self.link.target} made no progress for {self.settings.patience:g} s{where}",
                hint=f"See that the key is the board's, and that nothing else uses the port.{again}",
            )

    def require(self, status: Message) -> None:
        """Raises where the board refused, with what it said."""
        if status.result == dialect.value("STEPMAP_RESULT_OK"):
            return
        details = {
            dialect.value("STEPMAP_RESULT_SIZE"): f" (it has {len(self.blob)} bytes, there is room for {status.room})",
            dialect.value("STEPMAP_RESULT_MODEL"): f" (made for model {self.blob[8:16].hex()})",
        }
        cause, hint = dialect.cause_and_remedy("STEPMAP_RESULT", status.result)
        how = " `stepmap stop` does that." if status.result == dialect.value("STEPMAP_RESULT_BUSY") else ""
        text = f"board {self.link.target} refused the schedule{details.get(status.result, '')}"
        raise LinkError(text, cause=cause, hint=f"{hint}{how}")


def without_header(part: bytes) -> bytes:
    """As much of a chunk as holds no header of a frame, which would end the chunk's own (docs/wire.md)."""
    found = HEADER.search(part)
    return part if found is None else part[: (found.end() - 1) // UNIT * UNIT]


def _state(name: str) -> int:
    return dialect.value(f"STEPMAP_UPLOAD_{name}")
