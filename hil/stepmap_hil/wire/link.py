"""A link to a board: typed messages over a serial port, signed in both directions.

Nothing runs in the background: bytes are read while `receive` waits, and sent by `send`.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from stepmap.errors import LinkError
from stepmap.text import sentence
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.keyring import PROTOCOL, Keyring
from stepmap_hil.wire.reasons import explanation
from stepmap_hil.wire.statistics import Statistics
from stepmap_hil.wire.wide import Parts, fitting

if TYPE_CHECKING:
    from stepmap_hil.wire.key import Key

HOST, COMPONENT = 255, 1
EPOCH = 1_420_070_400  # 2015-01-01, where MAVLink's timestamps begin
LATEST = 100_000 * (3_786_912_000 - EPOCH)  # of 2090-01-01; 48 bits end in 2104
READ_TIMEOUT_S = 0.01
BACKLOG = 4096
HEARTBEAT_TIMEOUT_S = 2.0  # for the first one; a board sends five per second


class Port(Protocol):
    """What is needed of a serial port; pyserial's Serial has it."""

    timeout: float | None

    @property
    def in_waiting(self) -> int: ...
    def read(self, size: int = 1, /) -> bytes: ...
    def write(self, data: bytes, /) -> int | None: ...
    def close(self) -> None: ...


def clock() -> int:
    """MAVLink's timestamp of now: units of 10 µs since 2015."""
    return int((time.time() - EPOCH) * 1e5)


class Link:
    """Messages to and from one board; those of other boards on the line are only counted.

    Its keys follow from the id in its heartbeats, so one of them is waited for before the first message. What a board
    signed is believed once it has answered a ping: before, it could have been recorded (docs/wire.md). With `board_id`
    no message goes to another board. Without a key frames are neither signed nor checked, and a board accepts none.
    """

    def __init__(
        self,
        port: Port,
        key: Key | None,
        *,
        target: int = 1,
        system: int = HOST,
        board_id: bytes | None = None,
        now: Callable[[], int] = clock,
    ) -> None:
        if not 1 <= target <= 254:
            raise LinkError(f"boards have system ids 1 to 254, not {target}")
        self.port, self.target, self.system = port, target, system
        self._ring = None if key is None else Keyring(key, target=target, host=system, board_id=board_id)
        self._now, self._timestamp = now, 0
        self._opened = self._timestamp = self._clock()
        self._sequence = 0
        self._token = secrets.randbits(32)  # not the clock's: a computer without one would begin with the same again
        self._answers = False  # the board has answered: its messages are not a recording
        self._parts = Parts()
        self._framer = dialect.Framer(None if self._ring is None else self._ring.key_of)
        self._streams: dict[tuple[int, int, int], int] = {}
        self._last: dict[tuple[int, int], int] = {}
        self._heard: set[int] = set()
        self._has_key = False  # by its last heartbeat without a signature
        self._backlog: deque[Message] = deque()
        self._counts = Statistics()
        port.timeout = READ_TIMEOUT_S

    @property
    def signed(self) -> bool:
        """Whether there is a key."""
        return self._ring is not None

    @property
    def board_id(self) -> bytes:
        """Of the board; waits for its heartbeat where none has come yet."""
        if self._ring is None or not self._await_identity(HEARTBEAT_TIMEOUT_S) or self._ring.board_id is None:
            raise self._silent(HEARTBEAT_TIMEOUT_S)
        return self._ring.board_id

    @property
    def statistics(self) -> Statistics:
        counts, framer = self._counts, self._framer
        counts.noise, counts.damaged = framer.noise, framer.damaged
        counts.forged, counts.unknown = framer.forged, framer.unknown
        return counts

    # Sending

    def send(self, name: str, **fields: Any) -> None:
        """One message, or its wide one; `target_system` is this board unless given, and fields left out are 0."""
        name = fitting(name, fields)
        if not self._await_identity(HEARTBEAT_TIMEOUT_S):
            raise self._silent(HEARTBEAT_TIMEOUT_S)
        if "target_system" in dialect.fields(name):
            fields.setdefault("target_system", self.target)
        self._timestamp = max(self._timestamp + 1, self._clock())
        message = Message(name, fields, system=self.system, component=COMPONENT)
        key = None if self._ring is None else self._ring.link
        frame = dialect.encode(message, self._sequence, key=key, timestamp=self._timestamp)
        self._sequence = (self._sequence + 1) % 256
        try:
            taken = self.port.write(frame)
        except OSError as error:
            raise self._gone(error) from error
        if taken is not None and taken != len(frame):
            raise LinkError("the port did not take a whole frame: is the board still connected?")
        self._counts.sent += 1

    def _clock(self) -> int:
        """Now; never one that would make the board deaf, which keeps the highest timestamp for ever."""
        now = max(0, self._now())  # of a computer that does not know the time, and follows the board
        if now > LATEST and self.signed and not self._timestamp:
            raise LinkError(
                "this computer's clock is beyond the year 2090: set it right. A board keeps the highest time it heard "
                "for ever, and near the end of timestamps it would hear nobody any more (docs/upload.md)"
            )
        return now if now <= LATEST else self._timestamp  # it has jumped: what was begun, and a stop, still goes

    # Receiving

    def believes(self, message: Message) -> bool:
        """Whether it is of this link's board, and where there is a key signed, by a board that answers."""
        return message.system == self.target and (not self.signed or (message.trusted and self._answers))

    def poll(self, *names: str) -> Message | None:
        """The next message of these names, or of any, that is there already; the others are kept."""
        self._read(wait=False)
        return self._take(names)

    def receive(self, *names: str, timeout: float) -> Message | None:
        """The next message of these names, or of any; None when none came within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while (found := self._take(names)) is None:
            if time.monotonic() >= deadline:
                return self.poll(*names)
            self._read(wait=True)
        return found

    def _take(self, names: tuple[str, ...]) -> Message | None:
        for i, message in enumerate(self._backlog):
            if not names or message.name in names:
                del self._backlog[i]
                return message
        return None

    def _read(self, *, wait: bool) -> None:
        try:
            received = self.port.read(max(1, self.port.in_waiting)) if wait or self.port.in_waiting else b""
        except OSError as error:
            raise self._gone(error) from error
        for frame in self._framer.feed(received):
            message = self._accept(frame)
            if message is not None and message.system == self.target:
                self._counts.received += 1
                whole = self._parts.whole(message)
                self._backlog.extend([] if whole is None else [whole])
        while len(self._backlog) > BACKLOG:
            self._backlog.popleft()
            self._counts.dropped += 1

    def _accept(self, frame: bytes) -> Message | None:
        """The message of a frame that is for us and can be believed."""
        message = dialect.decode(frame, trusted=self.signed and bool(frame[2] & dialect.SIGNED))
        if self._ring is not None and message.trusted and message.name == "HEARTBEAT":
            self._ring.learn(message)
        if message.system == self.system or message.fields.get("target_system", 0) not in (0, self.system):
            self._counts.elsewhere += 1
            return None
        self._heard.add(message.system)
        if not self._is_new(frame):
            return None
        if self.signed and not message.trusted:
            return message  # a stranger's numbers say nothing about what the board sent
        sender, sequence = (message.system, message.component), frame[4]
        before, self._last[sender] = self._last.get(sender, sequence - 1), sequence
        self._counts.lost += (sequence - before - 1) % 256
        return message

    def _is_new(self, frame: bytes) -> bool:
        """Whether the frame has a timestamp above all before; it is old afterwards."""
        if not self.signed:
            return True
        if not frame[2] & dialect.SIGNED:
            is_heartbeat = dialect.frame_id(frame) == dialect.value("MAVLINK_MSG_ID_HEARTBEAT")
            self._counts.bare += not is_heartbeat
            self._counts.unsigned += is_heartbeat
            if is_heartbeat:
                heartbeat = dialect.decode(frame)
                self._has_key = heartbeat.system == self.target and bool(
                    heartbeat.flags & dialect.value("STEPMAP_FLAG_HAS_KEY")
                )
            return is_heartbeat
        stamp, stream = dialect.timestamp(frame), (frame[5], frame[6], frame[-13])
        # A board that has received nothing yet may be behind: its frames could have been recorded long ago.
        if stamp <= self._streams.get(stream, self._opened):
            self._counts.replayed += stream in self._streams
            self._counts.behind += stream not in self._streams
            return False
        self._streams[stream] = stamp
        self._timestamp = max(self._timestamp, stamp)
        return True

    # Questions

    def _await_identity(self, timeout: float) -> bool:
        """Whether the board's id is known; waits at most so long for its heartbeat."""
        deadline = time.monotonic() + timeout
        while self._ring is not None and self._ring.board_id is None:
            if time.monotonic() >= deadline:
                return False
            self._read(wait=True)
        return True

    def ping(self, timeout: float = 1.0) -> float:
        """Seconds there and back."""
        seconds = self._ping(timeout)
        if seconds is None:
            raise self._silent(timeout)
        return seconds

    def _ping(self, timeout: float) -> float | None:
        if not self._await_identity(timeout):
            return None
        self._token = (self._token + 1) & 0xFFFFFFFF
        self._read(wait=False)  # a heartbeat in the buffer has the timestamp that the board accepts
        begun = time.perf_counter()
        self.send("PING", sequence=self._token, stamp_us=time.monotonic_ns() // 1000)
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            answer = self.receive("PING", timeout=left)
            if answer is not None and answer.reply and answer.sequence == self._token:
                if not self._answers:
                    self._backlog.clear()  # all of it came before
                self._answers = True
                if self._ring is not None:
                    self._ring.hold()
                return time.perf_counter() - begun
        return None

    def connect(self, timeout: float = 5.0) -> Message:
        """A heartbeat of the board that can be believed, once the board believes us too."""
        deadline = time.monotonic() + timeout
        while self._ping(timeout=min(0.25, timeout)) is None:
            if time.monotonic() > deadline:
                raise self._silent(timeout)
        deadline += 2.0  # five come every second
        while (left := deadline - time.monotonic()) > 0:
            heartbeat = self.receive("HEARTBEAT", timeout=left)
            if heartbeat is not None and self.believes(heartbeat):
                return heartbeat
        raise LinkError(f"board {self.target} answers but sends no heartbeat", hint="Is this a stepmap firmware?")

    def _silent(self, timeout: float) -> LinkError:
        cause, hint = self._why()
        return LinkError(f"board {self.target} did not answer within {timeout:g} s", cause=cause, hint=hint)

    def command(self, command: str, *options: str, timeout: float = 2.0) -> Message:
        """Asks for "arm", "run", "stop", "calibrate", "reset_fault" or "restart" and returns the answer.

        The question is repeated with the same token until it is answered; a refusal raises with its reason.
        """
        code = dialect.value(f"STEPMAP_COMMAND_{command.upper()}")
        bits = sum(dialect.value(f"STEPMAP_OPTION_{option.upper()}") for option in options)
        self._token = (self._token + 1) & 0xFFFFFFFF
        deadline = time.monotonic() + timeout
        while self._await_identity(timeout) and time.monotonic() < deadline:
            self.send("COMMAND", token=self._token, options=bits, command=code)
            again = time.monotonic() + 0.2
            while (left := min(again, deadline) - time.monotonic()) > 0:
                answer = self.receive("COMMAND_ACK", timeout=left)
                if answer is not None and answer.token == self._token:
                    return self._accepted(command, answer)
        raise self._silent(timeout)

    def _accepted(self, command: str, answer: Message) -> Message:
        if answer.result == dialect.value("STEPMAP_RESULT_OK"):
            return answer
        state = dialect.word("STEPMAP_STATE", answer.state)
        text = f"board {self.target} refused to {command.replace('_', ' ')} while {state}"
        if answer.result == dialect.value("STEPMAP_RESULT_STATE"):
            meaning, remedy = explanation(answer.reason)
            raise LinkError(text, cause=sentence(meaning.removeprefix("refused: ")), hint=sentence(remedy))
        cause, hint = dialect.cause_and_remedy("STEPMAP_RESULT", answer.result)
        raise LinkError(text, cause=cause, hint=hint)

    def _why(self) -> tuple[str, str]:
        """Cause and hint that the statistics give of a board that does not answer."""
        counts, ring = self.statistics, self._ring
        if ring is not None and ring.protocol not in (None, PROTOCOL):
            cause = f"Its firmware speaks protocol {ring.protocol} and this host {PROTOCOL}."
            return cause, "Build and flash it with this version of stepmap."
        if ring is not None and ring.other_id is not None and ring.board_id is not None:
            return f"There is board {ring.other_id.hex()} now, and {ring.board_id.hex()} was expected.", ""
        if counts.forged:
            return "It signs with another key.", "Use the key its firmware was built with."
        if self._heard and self.target not in self._heard:
            return f"Heard here: {_boards(self._heard)}.", "Name the one you mean: --system."
        if counts.received and not self.signed:
            return "It is heard, but it may want signed messages.", "Use its key."
        if counts.unsigned and self._has_key:
            cause = "It has a key but does not sign: its memory for counters cannot be written any more."
            return cause, "Switch it off and on; if that does not help its flash is worn out."
        if counts.received or counts.replayed or counts.behind:
            return "It is heard but does not take our messages.", "Was it built with another key, or without one?"
        if counts.bare:
            return "It does not sign: its firmware was built without a key.", ""
        if counts.noise:
            return "What arrives are no messages.", "Is the speed of the port right, and is this a stepmap firmware?"
        return "Nothing arrives at all.", "Is the board powered, and is this the right port?"

    def _gone(self, error: OSError) -> LinkError:
        return LinkError("the port failed", cause=str(error), hint="Is the board still connected?")

    def close(self) -> None:
        self.port.close()

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _boards(systems: Iterable[int]) -> str:
    numbers = [str(system) for system in sorted(systems)]
    return f"board{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
