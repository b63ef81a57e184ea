"""Frames between host and board: the same bytes on both sides, found again in any noise, for the right one only."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link, LinkError, clock
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.session import Session
from tests.firmware.link_board import BOARD, CORE, KEY, OTHER_KEY, ROOT, Board, Line, Stamps, frame, linked

UNSIGNED = {"uint8_t": 8, "uint16_t": 16, "uint32_t": 32, "uint64_t": 64}
SIGNED = {"int16_t": 16, "int32_t": 32}


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    with Board() as made:
        yield made


@pytest.fixture
def fresh() -> Iterator[Board]:
    with Board() as made:
        yield made


# The dialect


def test_outputs_are_up_to_date_and_repeatable(tmp_path) -> None:
    tool = [sys.executable, str(ROOT / "tools" / "mavgen.py")]
    for name in ("one", "two"):
        subprocess.run([*tool, "--out", tmp_path / name, "--docs", tmp_path / "wire.md"], check=True)
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert len(files) > 20
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert (tmp_path / "wire.md").read_text() == (ROOT / "docs" / "wire.md").read_text(), "run tools/mavgen.py --docs"


def test_everything_is_described() -> None:
    text = (ROOT / "firmware" / "dialect" / "stepmap.xml").read_text()
    assert not re.search(r"<field [^>]*/>|<field [^>]*></field>|<entry [^>]*/>|<description></description>", text)
    assert len(re.findall(r"<entry ", text)) == len(re.findall(r"<entry [^>]*><description>\w", text))


def test_ids_lie_in_a_range_of_their_own() -> None:
    assert all(0x534D00 <= number < 0x534E00 for number in dialect.module().mavlink_map)


def test_the_example_of_the_wire_document_is_taken(fresh: Board) -> None:
    page = (ROOT / "docs" / "wire.md").read_text()
    whole = bytes.fromhex(re.search(r"In one piece: `(\w+)`", page)[1])
    parts = re.search(r"```text\n(.*?)```", page, re.DOTALL)[1]
    assert bytes.fromhex("".join(line[:17] for line in parts.splitlines())) == whole
    fresh.feed(whole)
    [(number, system, payload)] = fresh.accepted()
    assert (dialect.module().mavlink_map[number].msgname, system) == ("COMMAND", 255)
    assert payload == bytes([1, 0, 0, 0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize(("wire", "core"), [("STATE", "SM_STATE"), ("REASON", "SM_REASON")])
def test_states_and_reasons_are_the_supervisor_s(wire: str, core: str) -> None:
    header = (CORE / "sm_supervisor.h").read_text()
    numbers = {name: int(number) for name, number in re.findall(rf"{core}_(\w+) = (\d+)", header)}
    entries = dialect.module().enums[f"STEPMAP_{wire}"]
    named = {entry.name.removeprefix(f"STEPMAP_{wire}_"): number for number, entry in entries.items()}
    named.pop("ENUM_END")
    assert named == numbers


# The same messages on both sides


@st.composite
def messages(draw: st.DrawFn) -> Message:
    kind = dialect.module().mavlink_map[draw(st.sampled_from(sorted(dialect.module().mavlink_map)))]
    fields: dict[str, object] = {}
    for name, type_ in zip(kind.fieldnames, kind.fieldtypes, strict=True):
        length = kind.array_lengths[kind.ordered_fieldnames.index(name)]
        if type_ == "char":
            fields[name] = draw(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=length))
            continue
        bits = UNSIGNED.get(type_) or SIGNED[type_]
        low = 0 if type_ in UNSIGNED else -(2 ** (bits - 1))
        numbers = st.integers(low, low + 2**bits - 1) | st.just(0)
        drawn = draw(st.lists(numbers, min_size=length, max_size=length)) if length else draw(numbers)
        fields[name] = bytes(drawn) if length and type_ == "uint8_t" else tuple(drawn) if length else drawn
    if "target_system" in fields:
        fields["target_system"] = draw(st.sampled_from([0, 1]))
    return Message(kind.msgname, fields, system=255, component=1)


TIME = Stamps()


@settings(max_examples=100)
@given(message=messages().filter(lambda message: "target_system" in message.fields))
def test_what_the_host_sends_the_board_reads(board: Board, message: Message) -> None:
    sent = dialect.encode(message, 3, key=KEY.link, timestamp=next(TIME))
    board.accepted()
    board.feed(sent)
    [(number, system, payload)] = board.accepted()
    assert (number, system) == (dialect.frame_id(sent), 255)
    assert payload == sent[10 : 10 + sent[1]]
    assert dialect.decode(sent).fields == message.fields


@settings(max_examples=100)
@given(message=messages())
def test_what_the_board_sends_the_host_reads(board: Board, message: Message) -> None:
    """Also pymavlink's own decoder, with its own signature check, takes the board's frames."""
    plain = dialect.encode(message, 0)
    payload = plain[10 : 10 + plain[1]]
    sent = board.ask("U", plain[7:10] + b"\0" + payload)
    [whole] = dialect.Framer().feed(sent)
    assert whole == sent
    assert dialect.decode(whole).fields == message.fields
    assert dialect.signature(whole, KEY.link) == whole[-6:]
    judge = dialect.module().MAVLink(None)
    judge.signing.secret_key = KEY.link
    decoded = judge.decode(bytearray(whole))
    assert decoded.get_type() == message.name
    assert decoded.get_signed()


def test_raw_words_come_from_arrays() -> None:
    z = np.array([1, -2, 3], dtype=np.int32)
    sent = dialect.decode(frame("MEASUREMENT", z=z, valid=7))
    assert sent.z == (1, -2, 3, *[0] * 9)
    assert sent.valid == 7
    with pytest.raises(AttributeError, match="MEASUREMENT has no field x"):
        _ = sent.x


def test_bad_messages_are_refused_before_they_are_sent() -> None:
    with pytest.raises(ValueError, match="no message NOTHING"):
        frame("NOTHING")
    with pytest.raises(ValueError, match="PING has no field pong"):
        frame("PING", pong=1)
    with pytest.raises(ValueError, match="13 entries for a field of 12"):
        frame("MEASUREMENT", z=range(13))


# Noise


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """Frames with anything in between: random bytes, starts of frames, frames cut off or with a wrong byte."""
    stream, whole = b"", []
    for i in range(draw(st.integers(1, 6))):
        good = frame("PING", timestamp=next(TIME), sequence=i, stamp_us=draw(st.integers(0, 2**64 - 1)))
        other = bytearray(frame("UPLOAD_CHUNK", timestamp=next(TIME), length=192, data=draw(st.binary(max_size=192))))
        noise = draw(
            st.one_of(
                st.binary(max_size=40),
                st.lists(st.sampled_from([0xFD, 0, 1, 9]), max_size=30).map(bytes),
                # Cut off before the signature: a byte of it could be made up for by the start of the next frame.
                st.integers(1, len(other) - 6).map(lambda size, other=other: bytes(other[:size])),
            )
        )
        at, bit = draw(st.integers(0, len(other) - 14)), draw(st.integers(0, 7))
        other[at] ^= 1 << bit  # not in the signature: that is for test_security
        stream += noise + good + bytes(other)
        whole.append(good)
    return stream + bytes(300), whole  # zeros: what looks like the start of a frame gets its end


@settings(max_examples=300)
@given(made=streams(), cuts=st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_noise_never_costs_a_frame(board: Board, made: tuple[bytes, list[bytes]], cuts: list[int]) -> None:
    """Both sides take exactly the whole frames, in order, however the stream is cut into pieces."""
    stream, whole = made
    pieces, at = [], 0
    for size in itertools.cycle(cuts):
        pieces.append(stream[at : at + size])
        at += size
        if at >= len(stream):
            break
    framer = dialect.Framer(KEY.link)
    assert [found for piece in pieces for found in framer.feed(piece)] == whole
    board.accepted()
    for piece in pieces:
        board.feed(piece)
    assert [payload for _, _, payload in board.accepted()] == [good[10 : 10 + good[1]] for good in whole]


# Addresses


def test_a_board_takes_what_is_for_it_or_for_all(fresh: Board) -> None:
    time = Stamps()
    for target in (1, 0, 2, 254):
        fresh.feed(frame("COMMAND", timestamp=next(time), target_system=target, command=1))
    assert fresh.facts().commands == 2
    assert fresh.facts().elsewhere == 2


def test_nobody_takes_its_own_frames(fresh: Board) -> None:
    own = Message("COMMAND", {"target_system": 1, "command": 1}, system=1, component=1)
    fresh.feed(dialect.encode(own, 0, key=KEY.link, timestamp=clock()))
    assert fresh.facts().commands == 0
    link, line = linked(fresh)
    line.hear(frame("HEARTBEAT"))
    assert link.poll() is None
    assert link.statistics.elsewhere == 1


def test_senders_are_told_apart_by_link_id_too(fresh: Board) -> None:
    now = clock()
    asked = Message("COMMAND", {"target_system": 1, "command": 1}, system=255, component=1)
    for link_id in (0, 1, 0):
        fresh.feed(dialect.encode(asked, 0, key=KEY.link, timestamp=now, link_id=link_id))
    assert (fresh.facts().commands, fresh.facts().replayed) == (2, 1)


# The board's link


def test_a_board_has_a_system_id_that_is_neither_all_nor_the_host_s(fresh: Board) -> None:
    assert fresh.reset(0) == fresh.reset(255) == -1
    assert fresh.reset(254) == 0


def test_what_cannot_be_sent_is_counted(fresh: Board) -> None:
    beat = dialect.value("MAVLINK_MSG_ID_HEARTBEAT").to_bytes(4, "little")
    assert fresh.ask("U", bytes(4)) == (-1).to_bytes(4, "little", signed=True)  # no such message
    fresh.ask("O", b"\1")
    assert fresh.ask("U", beat) == (-3).to_bytes(4, "little", signed=True)  # the line did not take all of it
    fresh.ask("O", b"\0")
    assert len(fresh.ask("U", beat)) > 4
    assert (fresh.facts().sent, fresh.facts().unsent) == (1, 1)


def test_a_frame_the_line_did_not_take_has_a_number_too(fresh: Board) -> None:
    """So that whoever listens knows that one is missing."""
    beat = dialect.value("MAVLINK_MSG_ID_HEARTBEAT").to_bytes(4, "little")
    first = fresh.ask("U", beat)
    fresh.ask("O", b"\1")
    fresh.ask("U", beat)
    fresh.ask("O", b"\0")
    assert (fresh.ask("U", beat)[4] - first[4]) % 256 == 2


def test_nothing_is_signed_with_a_timestamp_that_was_not_kept(fresh: Board) -> None:
    """The board's own timestamps follow the host's: the answer to the last one that was kept needs another."""
    fresh.feed(frame("PING"))
    kept = fresh.facts().floor
    fresh.fail(1)
    [answer] = dialect.Framer().feed(fresh.feed(frame("PING", timestamp=kept - 1)))
    assert answer[2] == 0
    assert fresh.facts().unsent == 1
    [beat] = dialect.Framer().feed(fresh.ask("B"))
    assert dialect.timestamp(beat) == kept
    assert fresh.facts().floor > kept


def test_a_board_that_cannot_write_is_still_heard(fresh: Board) -> None:
    """Its heartbeats, without a signature; and it takes nothing."""
    fresh.reset()
    link, line = linked(fresh)
    fresh.fail(2)  # the first fills the place behind the last record
    line.heartbeat()
    assert not link.poll("HEARTBEAT").trusted
    fresh.fail(1)
    link.send("COMMAND", command=1)
    assert fresh.facts().commands == 0


# The host's link


def test_connect_ping_and_command(fresh: Board) -> None:
    link, line = linked(fresh, beat=0.01)
    beat = link.connect()
    assert beat.trusted
    assert beat.model == b"model001"
    assert 0 < link.ping() < 1
    assert link.command("arm", "virtual_io", "virtual_time").result == 0
    assert dialect.decode(line.said[-1]).options == 3
    assert link.statistics.sent == 3
    assert link.statistics.lost == link.statistics.forged == link.statistics.replayed == 0


def test_a_refusal_says_why_and_what_to_do(fresh: Board) -> None:
    link, _ = linked(fresh)
    with pytest.raises(LinkError, match=r"refused to run while armed\ncause: .*\nhint: Calibrate first"):
        link.command("run")


def test_messages_nobody_asked_for_are_kept(fresh: Board) -> None:
    link, line = linked(fresh)
    link.ping()
    line.heartbeat()
    link.ping()
    assert link.receive("TELEMETRY", timeout=0) is None
    assert link.receive(timeout=0).name == "HEARTBEAT"
    assert link.poll() is None


def test_lost_frames_are_counted(fresh: Board) -> None:
    link, _ = linked(fresh)
    link.ping()
    fresh.ask("B")
    fresh.ask("B")
    link.ping()
    assert link.statistics.lost == 2


def test_a_message_lost_on_either_way_is_asked_for_again(fresh: Board) -> None:
    for way in ("to", "back"):
        left = iter([[], []])
        link, _ = linked(fresh, **{way: lambda part, left=left: next(left, [part])})
        assert link.command("arm").result == 0


@pytest.mark.parametrize("ahead", [-86400 * 10**5, 86400 * 10**5])
def test_clocks_that_differ_come_together(fresh: Board, ahead: int) -> None:
    """A host whose clock is a day late, or early, after one whose clock was right."""
    linked(fresh)[0].ping()
    now = clock() + ahead
    link = Link(Line(fresh, beat=0.01), KEY, board_id=BOARD, now=lambda: now)
    assert link.connect(timeout=1).trusted


def test_a_board_that_was_off_for_long_is_believed_only_after_it_heard_us(fresh: Board) -> None:
    link, line = linked(fresh)
    line.heartbeat()
    assert link.receive(timeout=0.01) is None  # may have been recorded long ago
    assert (link.statistics.behind, link.statistics.replayed) == (1, 0)
    link.ping()
    line.heartbeat()
    assert link.receive(timeout=0.01).trusted


def test_a_clock_that_would_make_the_board_deaf_sends_nothing(fresh: Board) -> None:
    """The board keeps the highest timestamp for ever, and 48 bits of them end in 2104."""
    line = Line(fresh)
    with pytest.raises(LinkError, match="clock is beyond the year 2090"):
        Link(line, KEY, board_id=BOARD, now=lambda: 2**48 - 1)
    assert line.said == []


def test_a_clock_that_jumps_while_the_robot_runs_keeps_nobody_from_stopping_it(fresh: Board) -> None:
    """To 1970, a day back, a day ahead, and beyond 2090: commands are heard, and others afterwards."""
    now = [clock()]
    line = Line(fresh, beat=0.01)
    link = Link(line, KEY, board_id=BOARD, now=lambda: now[0])
    link.connect(timeout=1)
    for jump in (0, clock() - 86400 * 10**5, clock() + 86400 * 10**5, 2**48 - 1):
        now[0] = jump
        assert link.command("arm").result == 0  # the harness takes this one alone
    assert Link(Line(fresh, beat=0.01), KEY, board_id=BOARD).connect(timeout=1).trusted


def test_a_host_that_does_not_know_the_time_follows_the_board(fresh: Board) -> None:
    linked(fresh)[0].ping()
    link = Link(Line(fresh, beat=0.01), KEY, board_id=BOARD, now=lambda: -1)  # 1970
    assert link.connect(timeout=1).trusted


def test_only_signed_heartbeats_of_the_board_are_believed(fresh: Board) -> None:
    link, line = linked(fresh)
    link.ping()
    line.heartbeat()
    line.hear(dialect.encode(Message("HEARTBEAT", {"state": 4}, system=1, component=1), 77))
    other = Message("HEARTBEAT", {"state": 4}, system=2, component=1)
    line.hear(dialect.encode(other, 0, key=KEY.link, timestamp=clock() + 10**6))
    assert [link.believes(link.poll("HEARTBEAT")) for _ in range(2)] == [True, False]
    assert link.poll("HEARTBEAT") is None  # what another board says is not handed out at all
    assert (link.statistics.unsigned, link.statistics.lost) == (1, 0)


def test_a_session_believes_nobody_else_s_heartbeats(fresh: Board) -> None:
    link, line = linked(fresh)
    session = Session(link, SignalCodec("none", b"", "fixed32", 0.1, {}, ()))
    link.ping()
    line.heartbeat()
    state = dialect.value("STEPMAP_STATE_RUNNING")
    line.hear(dialect.encode(Message("HEARTBEAT", {"state": state}, system=1, component=1), 0))
    told = session.last_heartbeat()
    assert told.trusted
    assert told.state != state
    line.hear(dialect.encode(Message("HEARTBEAT", {"state": state}, system=1, component=1), 0))
    assert session.last_heartbeat() is None


def test_what_was_recorded_is_not_believed_by_a_host_that_has_just_begun(fresh: Board) -> None:
    """A board is ten minutes ahead of the clock after a reset, so a recording of it is too."""
    link, line = linked(fresh)
    link.ping()
    assert fresh.reset() == 0
    line.heartbeat()
    recorded = bytes(line._waiting)
    later, line = linked(fresh)
    line._waiting += recorded
    heard = later.receive("HEARTBEAT", timeout=0.1)
    assert heard is not None
    assert not later.believes(heard)
    line._waiting += recorded
    later.ping()
    line._waiting += recorded
    assert later.poll() is None
    line.heartbeat()
    assert later.believes(later.receive("HEARTBEAT", timeout=0.1))


def test_a_session_hears_its_own_board_alone(fresh: Board) -> None:
    """Two boards share a line; efforts and telemetry have no address."""
    link, line = linked(fresh)
    link.ping()
    names = ("VIRTUAL_ACTUATOR", "TELEMETRY", "PING", "COMMAND_ACK", "UPLOAD_STATUS")
    beat = Message("HEARTBEAT", {"board_id": BOARD}, system=2, component=1)
    line.hear(dialect.encode(beat, 0, key=KEY.link, timestamp=clock() + 10**6))  # its key is known
    for name in names:
        fields = {"target_system": 255} if "target_system" in dialect.fields(name) else {}
        message = Message(name, fields, system=2, component=1)
        line.hear(dialect.encode(message, 0, key=KEY.link, timestamp=clock() + 10**6))
    assert link.poll(*names) is None


def test_a_board_whose_memory_is_worn_is_explained(fresh: Board) -> None:
    link, line = linked(fresh, to=lambda part: [])
    flags = dialect.value("STEPMAP_FLAG_HAS_KEY")
    line.hear(dialect.encode(Message("HEARTBEAT", {"flags": flags}, system=1, component=1), 0))
    with pytest.raises(LinkError, match="has a key but does not sign: its memory"):
        link.connect(timeout=0.02)


def test_another_board_that_is_heard_is_named(fresh: Board) -> None:
    link, line = linked(fresh, to=lambda part: [])
    for system in (7, 3):
        message = Message("HEARTBEAT", {"board_id": BOARD}, system=system, component=1)
        line.hear(dialect.encode(message, 0, key=KEY.link, timestamp=clock() + 10**6))
    with pytest.raises(LinkError, match=r"Heard here: boards 3, 7\.\nhint: Name the one you mean: --system"):
        link.connect(timeout=0.02)


def test_a_board_of_another_protocol_is_named(fresh: Board) -> None:
    """Its keys followed from the key alone."""
    line = Line(fresh)
    link = Link(line, KEY)
    message = Message("HEARTBEAT", {"protocol": 1}, system=1, component=1)
    line.hear(dialect.encode(message, 0, key=KEY.derive("stepmap link"), timestamp=clock() + 10**6))
    with pytest.raises(LinkError, match=r"speaks protocol 1 and this host 3\.\nhint: Build and flash it"):
        link.connect(timeout=0.05)


def test_nobody_is_spoken_to_before_a_heartbeat(fresh: Board) -> None:
    line = Line(fresh)
    link = Link(line, KEY)
    with pytest.raises(LinkError, match="Nothing arrives at all"):
        link.command("stop", timeout=0.05)
    assert line.said == []
    line.hear(dialect.encode(Message("TELEMETRY", {}, system=1, component=1), 0, key=KEY.link, timestamp=2**46))
    assert link.poll() is None
    assert (link.statistics.unknown, link.statistics.forged) == (1, 0)
    line.heartbeat()
    assert link.ping() > 0
    assert link.board_id == BOARD


def test_a_reset_in_between_costs_nothing_but_a_heartbeat(fresh: Board) -> None:
    link, line = linked(fresh)
    link.ping()
    for _ in range(50):
        assert fresh.reset() == 0
        line.heartbeat()
        link.ping()
    assert link.statistics.received == 101


WORDS = {
    "another key": (OTHER_KEY, "signs with another key"),
    "no key": (None, "may want signed messages"),
    "same key": (KEY, "Nothing arrives at all"),
}


@pytest.mark.parametrize("case", WORDS)
def test_a_silent_board_is_explained(fresh: Board, case: str) -> None:
    key, words = WORDS[case]
    link, line = linked(fresh, key, to=lambda part: [] if key is KEY else [part])
    if key is not KEY:
        line.heartbeat()
    with pytest.raises(LinkError, match=words):
        link.connect(timeout=0.02)
    assert fresh.facts().received == 0


def test_noise_instead_of_a_board_is_explained(fresh: Board) -> None:
    link, line = linked(fresh, to=lambda part: [])
    line._waiting += random.Random(1).randbytes(500)
    with pytest.raises(LinkError, match=r"are no messages\.\nhint: Is the speed"):
        link.ping(timeout=0.02)


def test_a_board_without_a_key_is_explained() -> None:
    with Board(None) as bare:
        link, line = linked(bare)
        line.heartbeat()
        assert not link.receive("HEARTBEAT", timeout=0.01).trusted
        with pytest.raises(LinkError, match="does not take our messages"):
            link.ping(timeout=0.02)
        assert bare.facts().commands == 0


def test_a_port_that_fails_ends_the_link() -> None:
    class Broken:
        timeout: float | None = None
        in_waiting = 0

        def read(self, size: int = 1) -> bytes:
            raise OSError("device reports readiness to read but returned no data")

        def write(self, data: bytes) -> int:
            return len(data) - 1

        def close(self) -> None: ...

    with Link(Broken(), KEY, board_id=BOARD) as link:
        with pytest.raises(LinkError, match="still connected"):
            link.receive(timeout=1)
        with pytest.raises(LinkError, match="whole frame"):
            link.send("PING")
    with pytest.raises(LinkError, match="1 to 254"):
        Link(Broken(), KEY, board_id=BOARD, target=255)
