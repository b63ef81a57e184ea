"""Decisions of link, store and upload that other tests take one way only: each condition of them, both ways.

`make coverage` counts them (decisions.py).
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import clock
from tests.firmware.attacks import BEGUN, forged
from tests.firmware.link_board import BANK, JOURNAL, KEY, Board, blob, frame, linked
from tests.firmware.test_upload import TIME, begin, by_hand, put, refused

HEADER, LONGEST = 10, 224  # bytes
RECORD = 48
NONE = 255  # slot
MINUTE = 6 * 10**6  # 10 µs
FAILED = 4  # state of an upload
BROADCAST = Message("PING", {"target_system": 0}, system=255, component=1)


@pytest.fixture
def board() -> Iterator[Board]:
    with Board() as made:
        yield made


# Link: senders


def said(timestamp: int, system: int = 255, component: int = 1, link: int = 0) -> bytes:
    asked = Message("COMMAND", {"target_system": 1, "command": 1}, system=system, component=component)
    return dialect.encode(asked, 0, key=KEY.link, timestamp=timestamp, link_id=link)


def test_a_sender_is_known_by_system_component_and_link_together(board: Board) -> None:
    """The same timestamp again is a repetition from the same sender alone; 0, 0, 0 is no sender before it spoke."""
    now = clock()
    for sender in ((0, 0, 0), (255, 1, 0), (254, 1, 0), (254, 2, 0)):
        before = board.facts()
        board.feed(said(now, *sender))
        board.feed(said(now, *sender))
        facts = board.facts()
        assert (facts.commands, facts.replayed) == (before.commands + 1, before.replayed + 1)


def test_who_was_evicted_is_not_heard_again_with_the_same_frame(board: Board) -> None:
    now = clock()
    for component in range(1, 6):  # the fifth takes the place of the first
        board.feed(said(now + component, component=component))
    board.feed(said(now + 1, component=1))
    assert (board.facts().commands, board.facts().replayed) == (5, 1)
    board.feed(said(now + 2, component=9))  # nor anybody new who is no later than the one whose place is to be taken
    assert (board.facts().commands, board.facts().replayed) == (5, 2)
    board.feed(said(now + 3, component=9))
    assert (board.facts().commands, board.facts().replayed) == (6, 2)


def test_a_known_sender_may_be_late_and_a_new_one_a_minute(board: Board) -> None:
    now = clock() + 10 * MINUTE
    board.feed(said(now - 2 * MINUTE, component=1))
    board.feed(said(now, component=2))
    board.feed(said(now - 2 * MINUTE + 1, component=1))
    board.feed(said(board.facts().timestamp - MINUTE, component=3))
    assert (board.facts().commands, board.facts().replayed) == (4, 0)
    board.feed(said(board.facts().timestamp - MINUTE - 1, component=4))
    assert (board.facts().commands, board.facts().replayed) == (4, 1)


# Link: addresses and headers


def test_what_has_no_address_is_for_nobody_signed_or_not(board: Board) -> None:
    beat = Message("HEARTBEAT", {}, system=2, component=1)
    board.feed(dialect.encode(beat, 0, key=KEY.link, timestamp=clock()))
    board.feed(dialect.encode(beat, 1))
    facts = board.facts()
    assert (facts.elsewhere, facts.bare, facts.received) == (2, 0, 0)


def test_an_address_of_zero_that_was_left_out_with_the_zeros_is_for_all(board: Board) -> None:
    sent = dialect.encode(BROADCAST, 0, key=KEY.link, timestamp=clock())
    assert sent[1] == 1  # bytes: all of it is zeros
    board.feed(sent)
    assert [payload for _, _, payload in board.accepted()] == [b"\0"]


def test_a_header_that_says_more_than_its_message_has_is_noise(board: Board) -> None:
    longest = forged(bytes(200), "PING")[:HEADER]
    for head, noise in ((forged(bytes(9), "PING")[:HEADER], 0), (longest, HEADER)):
        assert board.reset() == 0
        board.feed(head)
        assert board.facts().noise == noise


# Link: the frame that was begun


class Taken(NamedTuple):
    taken: int
    message: int
    pending: int
    partial: int


def take(board: Board, received: bytes = b"") -> Taken:
    return Taken(*struct.unpack("<4I", board.ask("t", received)))


def drop(board: Board) -> tuple[int, int]:
    """Whether there is more to parse, and the bytes of the frame that was begun."""
    pending, partial = struct.unpack("<2I", board.ask("d"))
    return pending, partial


def test_a_frame_that_was_begun_has_the_bytes_that_its_header_says(board: Board) -> None:
    assert take(board) == (0, 0, 0, 0)
    assert take(board, BEGUN[:5]) == (5, 0, 0, HEADER)
    assert take(board, BEGUN[5:]) == (5, 0, 0, LONGEST)
    assert drop(board) == (0, 0)
    assert board.facts().damaged == 1
    assert drop(board) == (0, 0)  # nothing was begun
    assert board.facts().damaged == 1


def test_bytes_behind_a_message_are_not_a_frame_before_they_were_looked_at(board: Board) -> None:
    """A frame in another one that was cut off, and noise where the rest of that would be."""
    ping = frame("PING", sequence=1)
    noise = bytes(3 * HEADER)
    number = dialect.value("MAVLINK_MSG_ID_PING")
    assert take(board, BEGUN + ping + noise) == (len(BEGUN + ping + noise), number, 1, HEADER)
    assert take(board) == (0, 0, 0, 0)
    assert take(board, BEGUN + frame("PING", sequence=2) + BEGUN[:3])[1:] == (number, 1, HEADER)
    assert drop(board) == (0, 0)
    assert board.facts().damaged == 3


# Store


def record(sequence: int, active: int = NONE, *slots: tuple[int, bytes]) -> bytes:
    """A record as sm_store.h has it; of a slot its size and the name of what it holds."""
    sizes = [*slots, *[(0, b"")] * (2 - len(slots))]
    rest = struct.pack("<IQIB3x", sequence, 7, 0, active) + b"".join(struct.pack("<I8s", *slot) for slot in sizes)
    return struct.pack("<I", zlib.crc32(rest)) + rest


def named(schedule: bytes, size: int | None = None) -> tuple[int, bytes]:
    return len(schedule) if size is None else size, hashlib.sha256(schedule).digest()[:8]


def memory(log_a: bytes, log_b: bytes, slot_a: bytes = b"", slot_b: bytes = b"") -> bytes:
    parts = ((slot_a, BANK), (slot_b, BANK), (log_a, JOURNAL), (log_b, JOURNAL))
    return b"".join(content.ljust(size, b"\xff") for content, size in parts)


MARK = record(0)


def test_a_log_counts_as_erased_only_with_its_mark_alone(board: Board) -> None:
    """The log in use is full; where the other is not erased it has to be before the next record."""
    full = MARK + b"".join(record(30 + at) for at in range(1, JOURNAL // RECORD))
    for other, operations in ((MARK, 0), (record(5), 2), (MARK + record(5), 2), (b"", 2), (MARK[:-8], 2)):
        board.restore(memory(full, other))
        before = board.facts().operations
        assert board.reset() == 0
        assert board.facts().operations == before + operations, other
        assert board.reserve(2**45) == 0
        assert board.reset() == 0
        assert board.facts().floor > 2**45
        assert board.facts().counter == 7


@pytest.mark.parametrize(
    ("sizes", "used"),
    [((600, 800), 0), ((0, 800), 1), ((BANK + 8, 800), 1), ((BANK + 8, BANK + 8), None), ((0, 0), None)],
)
def test_a_slot_without_a_size_that_can_be_is_not_used(board: Board, sizes: tuple[int, int], used: int | None) -> None:
    schedules = blob(600, seed=1), blob(800, seed=2)
    slots = [named(schedule, size) for schedule, size in zip(schedules, sizes, strict=True)]
    board.restore(memory(MARK + record(30, 0, *slots), MARK, *schedules))
    assert board.reset() == 0
    assert board.facts().active == (NONE if used is None else used)
    assert board.schedule() == (b"" if used is None else schedules[used])


def test_a_mark_that_is_read_once_and_not_again_costs_no_record(board: Board) -> None:
    """Power went while it was written: it reads as it was meant, or as if nobody had written, by chance."""
    for seed in range(1, 17):
        board.renew()
        board.weaken(128, seed)
        board.ask("p", b"\1")
        board.cut(2, RECORD)  # the first operation erases
        assert board.reset() != 0
        assert board.reset() == 0
        for now in (2**45, 2**46):
            assert board.reserve(now) == 0
            for _ in range(3):
                assert board.reset() == 0
                assert board.facts().floor > now


@pytest.mark.parametrize("sizes", [(4096, 8192, 240, 1024), (8192, 4096, 1024, 240)])
def test_the_smaller_of_two_regions_counts(board: Board, sizes: tuple[int, ...]) -> None:
    board.ask("Z", struct.pack("<4I", *sizes))
    assert board.reset() == 0
    put(board, blob(4096))
    assert "does not fit" in refused(board, blob(4104))
    for later in range(20):
        assert board.reset() == 0
        assert board.schedule() == blob(4096)
        assert board.reserve(2**46 + later * 2**27) == 0


# Upload


def answer(sent: bytes) -> Message:
    [whole] = dialect.Framer().feed(sent)
    return dialect.decode(whole)


def test_a_board_without_a_key_begins_no_upload_whoever_hands_it_over() -> None:
    """Its link takes nothing either. The code would be right for a board whose key is all zeros, as its own then is."""
    wanted = begin(7, blob(384))
    number = struct.pack("<I", dialect.frame_id(wanted))
    payload = wanted[HEADER : HEADER + wanted[1]]
    with Board() as board:
        assert answer(board.ask("u", number + payload)).result == 0
        board.ask("K")
        assert board.reset() == 0
        assert answer(board.ask("u", number + payload)).result == 8


def test_begin_sent_again_after_a_failure_is_a_repetition(board: Board) -> None:
    wrong = b"RIFF" + blob(384)[4:]
    assert by_hand(board, wrong)[-1] == (12, FAILED)
    link, line = linked(board)
    line.write(begin(2**60, wrong))
    status = link.receive("UPLOAD_STATUS", timeout=1)
    assert (status.result, status.state) == (9, FAILED)


def test_a_chunk_longer_than_what_is_left_is_not_written(board: Board) -> None:
    link, line = linked(board)
    schedule = blob(200)
    line.write(begin(7, schedule))
    found = []
    for offset, length in ((0, 192), (192, 16), (192, 8)):
        part = schedule[offset : offset + length].ljust(length, b"\0")
        line.write(frame("UPLOAD_CHUNK", timestamp=next(TIME), offset=offset, length=length, data=part))
    for _ in range(4):
        status = link.poll("UPLOAD_STATUS")
        found.append((status.result, status.next))
    assert found == [(0, 0), (0, 192), (5, 192), (0, 200)]


def test_firmware_that_looks_into_no_schedule_takes_any_of_its_model(board: Board) -> None:
    bad = blob(384)[:-1] + b"\xee"
    assert by_hand(board, bad)[-1] == (12, FAILED)
    board.ask("c", b"\0")
    board.renew()
    assert board.reset() == 0
    TIME.jump()
    assert by_hand(board, bad)[-1] == (0, 3)
    assert board.schedule() == bad


def test_an_upload_goes_on_only_where_its_new_counter_was_kept(board: Board) -> None:
    link, line = linked(board)
    schedule = blob(384)
    line.write(begin(7, schedule))
    board.fail(1)
    line.write(begin(8, schedule))
    line.write(begin(8, schedule))
    answers = [link.poll("UPLOAD_STATUS") for _ in range(3)]
    assert [(status.result, status.state, status.counter) for status in answers] == [(0, 1, 7), (3, 1, 7), (0, 1, 8)]
