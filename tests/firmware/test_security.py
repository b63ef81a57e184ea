"""What was not made with the key, or was heard before, changes nothing; and nothing makes the board crash."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepmap_hil.wire import dialect, key
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.key import Key
from stepmap_hil.wire.link import LinkError, clock
from stepmap_hil.wire.upload import upload
from tests.firmware.link_board import KEY, OTHER_KEY, Board, KeyOfBoard, Stamps, blob, frame, linked

ARM = {"command": 1}


@pytest.fixture
def board() -> Iterator[Board]:
    with Board() as made:
        yield made


def untouched(board: Board) -> bool:
    """Nothing was taken and nothing was written since the start."""
    facts = board.facts()
    return facts.received == facts.commands == facts.activations == 0 and facts.active == 255 and not board.accepted()


# Keys


def test_only_the_right_key_is_heard(board: Board) -> None:
    board.feed(frame("COMMAND", key=OTHER_KEY, **ARM))
    assert board.facts().forged == 1
    board.feed(frame("COMMAND", key=None, **ARM))
    assert board.facts().bare == 1
    assert untouched(board)
    board.feed(frame("COMMAND", key=KEY, **ARM))
    assert board.facts().commands == 1


def test_the_key_itself_signs_nothing(board: Board) -> None:
    """The link's key is derived; the secret and the upload key are refused in its place."""
    asked = Message("COMMAND", {"target_system": 1, "command": 1}, system=255, component=1)
    for wrong in (KEY.secret, KEY.upload, bytes(32)):
        board.feed(dialect.encode(asked, 0, key=wrong, timestamp=clock()))
    assert board.facts().forged == 3
    assert untouched(board)


def test_a_board_without_a_key_takes_nothing() -> None:
    with Board(None) as bare:
        for used in (None, KEY, KeyOfBoard(bytes(32))):
            bare.feed(frame("COMMAND", key=used, **ARM))
            bare.feed(frame("UPLOAD_CHUNK", key=used))
        bare.feed(frame("HEARTBEAT", key=KEY))  # a signature it cannot check
        assert untouched(bare)


@pytest.mark.parametrize("used", [OTHER_KEY, None])
def test_an_upload_without_the_key_never_begins(board: Board, used: Key | None) -> None:
    link, line = linked(board, used)
    link.send("UPLOAD_BEGIN", size=4096)
    link.send("UPLOAD_COMMIT")
    assert untouched(board)
    assert line.in_waiting == 0


def test_heartbeats_of_others_are_not_for_the_board(board: Board) -> None:
    for used in (None, OTHER_KEY, KEY):
        board.feed(frame("HEARTBEAT", key=used, state=4))
    facts = board.facts()
    assert (facts.received, facts.forged, facts.elsewhere) == (0, 1, 2)


# Replays


def test_what_was_heard_before_does_nothing(board: Board) -> None:
    said = [frame("COMMAND", timestamp=stamp, **ARM) for stamp, _ in zip(Stamps(), range(20), strict=False)]
    board.feed(b"".join(said))
    assert board.facts().commands == 20
    for old in said:
        board.feed(old)
    assert board.facts().commands == 20
    assert board.facts().replayed == 20


def test_what_was_heard_before_a_reset_does_nothing(board: Board) -> None:
    said = b"".join(frame("COMMAND", timestamp=stamp, **ARM) for stamp, _ in zip(Stamps(), range(20), strict=False))
    board.feed(said)
    taken = board.facts().commands
    for _ in range(30):  # over several journals
        assert board.reset() == 0
        board.feed(said)
        assert board.facts().commands == taken
        assert board.facts().replayed == 20


def test_the_last_timestamps_that_were_kept_do_nothing_after_a_reset(board: Board) -> None:
    """Those just below where the board goes on, which are not too late for a new sender."""
    board.feed(frame("PING"))
    said = frame("COMMAND", timestamp=board.facts().floor - 1, **ARM)
    board.feed(said)
    assert board.facts().commands == 1
    board.reset()
    board.feed(said)
    assert (board.facts().commands, board.facts().replayed) == (1, 1)


def test_timestamps_below_those_that_were_kept_do_nothing_after_a_reset(board: Board) -> None:
    """No matter whether they were used: the board cannot know, and they are too young to be late."""
    board.feed(frame("PING"))
    board.reset()
    floor = board.facts().floor
    for late in (1, 2, 1000):
        board.feed(frame("COMMAND", timestamp=floor - late, **ARM))
    assert (board.facts().commands, board.facts().replayed) == (0, 3)
    board.feed(frame("COMMAND", timestamp=floor, **ARM))
    assert board.facts().commands == 1


def test_an_upload_recorded_and_played_back_does_nothing(board: Board) -> None:
    link, line = linked(board)
    upload(link, blob(4096, seed=1), KEY)
    said = b"".join(line.said)
    upload(link, blob(4096, seed=2), KEY)
    for _ in range(2):
        board.feed(said)
        assert board.schedule() == blob(4096, seed=2)
        board.reset()
    assert board.schedule() == blob(4096, seed=2)


def test_a_frame_that_never_arrived_is_too_old_after_a_later_one(board: Board) -> None:
    time = Stamps()
    held_back = frame("COMMAND", timestamp=next(time), **ARM)
    board.feed(frame("PING", timestamp=next(time)))
    board.feed(held_back)
    assert board.facts().commands == 0


def test_a_new_sender_must_not_be_more_than_a_minute_late(board: Board) -> None:
    now = clock()
    board.feed(frame("PING", timestamp=now))
    for component, late in [(2, 61), (3, 59)]:
        asked = Message("COMMAND", {"target_system": 1, "command": 1}, system=255, component=component)
        board.feed(dialect.encode(asked, 0, key=KEY.link, timestamp=now - late * 10**5))
    assert (board.facts().commands, board.facts().replayed) == (1, 1)


def asked_by(component: int, timestamp: int) -> bytes:
    message = Message("COMMAND", {"target_system": 1, "command": 1}, system=255, component=component)
    return dialect.encode(message, 0, key=KEY.link, timestamp=timestamp)


def test_many_senders_are_heard_and_none_of_them_twice(board: Board) -> None:
    now = clock()
    said = [asked_by(component, now + component) for component in range(1, 30)]
    for one in said:
        board.feed(one)
    assert board.facts().commands == len(said)
    for one in said:  # of those that were forgotten, too
        board.feed(one)
    assert (board.facts().commands, board.facts().replayed) == (len(said), len(said))
    board.feed(asked_by(1, now + 15))  # new, but it could have been said by one that is forgotten
    board.feed(asked_by(1, now + 31))
    assert board.facts().commands == len(said) + 1


@settings(max_examples=40)
@given(order=st.lists(st.tuples(st.integers(1, 7), st.integers(0, 40)), max_size=60))
def test_no_frame_is_taken_twice_however_senders_come_and_go(order: list[tuple[int, int]]) -> None:
    now = clock()
    with Board(KEY) as board:
        for component, later in order:
            board.feed(asked_by(component, now + later))
        assert board.facts().commands <= len(set(order))
        before = board.facts().commands
        for component, later in order:
            board.feed(asked_by(component, now + later))
        assert board.facts().commands == before


def test_other_boards_do_not_take_the_place_of_the_host(board: Board) -> None:
    """Where several share a line and a key, each hears the others' heartbeats."""
    time = Stamps()
    for system in (*range(2, 12), 255):
        for name in ("HEARTBEAT", "TELEMETRY", "LOG", "LINK_STATUS", "VIRTUAL_ACTUATOR"):
            told = Message(name, {}, system=system, component=1)
            board.feed(dialect.encode(told, 0, key=KEY.link, timestamp=next(time)))
    facts = board.facts()
    assert (facts.received, facts.elsewhere) == (0, 55)
    board.feed(frame("COMMAND", timestamp=next(time), **ARM))
    assert board.facts().commands == 1


def test_timestamps_at_the_end_of_time_are_refused(board: Board) -> None:
    board.feed(frame("COMMAND", timestamp=2**48 - 1, **ARM))
    assert board.facts().unsaved == 1
    assert board.facts().commands == 0
    board.feed(frame("COMMAND", **ARM))
    assert board.facts().commands == 1


def test_a_timestamp_that_cannot_be_kept_is_refused(board: Board) -> None:
    board.fail(1)
    first = frame("COMMAND", **ARM)
    board.feed(first)
    assert (board.facts().commands, board.facts().unsaved) == (0, 1)
    board.feed(first)  # the next write works
    assert board.facts().commands == 1


def test_what_the_board_signs_is_new_after_a_reset(board: Board) -> None:
    seen: list[int] = []
    framer = dialect.Framer(KEY.link)
    for _ in range(20):
        for _ in range(5):
            seen += [dialect.timestamp(sent) for sent in framer.feed(board.ask("B"))]
        board.reset()
    assert len(seen) == 100
    assert seen == sorted(set(seen))


def test_the_host_refuses_replays_and_forgeries(board: Board) -> None:
    link, line = linked(board)
    link.ping()
    beat = board.ask("B")
    line.hear(beat)
    line.hear(beat)
    line.hear(beat[:-1] + bytes([beat[-1] ^ 1]))
    own = dialect.encode(Message("TELEMETRY", {}, system=1, component=1), 0)
    line.hear(own)
    line.hear(dialect.encode(Message("TELEMETRY", {}, system=1, component=1), 0, key=OTHER_KEY.link, timestamp=2**47))
    assert link.poll().name == "HEARTBEAT"
    assert link.poll() is None
    counts = link.statistics
    assert (counts.replayed, counts.forged, counts.bare) == (1, 2, 1)
    line.heartbeat()  # a forgery far ahead in time did not deafen the host
    assert link.poll().name == "HEARTBEAT"


# Damage


def test_no_flipped_bit_is_taken(board: Board) -> None:
    """Every bit of a command and of a begin; one flip never gives another frame that is right."""
    time = Stamps()
    for good in (frame("COMMAND", timestamp=next(time), **ARM), frame("UPLOAD_BEGIN", timestamp=next(time), size=4096)):
        for bit in range(8 * len(good)):
            wrong = bytearray(good)
            wrong[bit // 8] ^= 1 << bit % 8
            board.feed(bytes(wrong) + bytes(300))
        assert untouched(board)
    board.feed(good)
    assert board.facts().received == 1


def test_no_truncated_frame_is_taken(board: Board) -> None:
    made = (frame("COMMAND", timestamp=timestamp, **ARM) for timestamp in Stamps())
    good = next(one for one in made if one[-1] != 0)  # zeros behind it would make up for a signature that ends with one
    for size in range(len(good)):
        board.feed(good[:size] + bytes(300))
    assert untouched(board)


def test_no_oversized_frame_is_taken(board: Board) -> None:
    """Lengths above those of the message, with a checksum and a signature made for them."""
    crc = dialect.module().x25crc
    for kind in dialect.module().mavlink_map.values():
        for length in range(kind.unpacker.size + 1, 256):
            head = bytes([0xFD, length, 1, 0, 0, 255, 1]) + kind.id.to_bytes(3, "little")
            body = head + b"\1" * length
            body += crc(body[1:] + bytes([kind.crc_extra])).crc.to_bytes(2, "little")
            body += b"\0" + clock().to_bytes(6, "little")
            board.feed(body + dialect.signature(body + bytes(6), KEY.link))
    board.feed(bytes(300))
    assert untouched(board)


def test_unknown_messages_and_flags_are_ignored(board: Board) -> None:
    good = frame("COMMAND", **ARM)
    for at, value in [(2, 3), (2, 0x81), (7, 0x7F), (9, 0)]:
        wrong = bytearray(good)
        wrong[at] = value
        board.feed(bytes(wrong) + bytes(300))
    assert untouched(board)


def test_ten_million_random_bytes_are_nothing(board: Board) -> None:
    made = random.Random(1)
    for _ in range(10):
        board.feed(made.randbytes(1_000_000))
    assert untouched(board)
    assert board.facts().noise > 9_990_000
    board.feed(bytes(300) + frame("COMMAND", **ARM))
    assert board.facts().commands == 1


def test_random_bytes_after_headers_are_nothing(board: Board) -> None:
    """Random bytes that look like frames: the right start, flags and ids."""
    made = random.Random(2)
    ids = sorted(dialect.module().mavlink_map)
    stream = bytearray()
    for _ in range(20_000):
        head = bytes([0xFD, made.randrange(40), made.randrange(2), 0, made.randrange(256), 255, 1])
        stream += head + made.choice(ids).to_bytes(3, "little") + made.randbytes(made.randrange(60))
    board.feed(bytes(stream) + bytes(300))
    facts = board.facts()
    assert facts.damaged > 10_000
    assert facts.commands == facts.activations == 0
    assert facts.active == 255


# Key files


def test_a_key_file_is_private_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "key"
    old = os.umask(0)
    try:
        made = key.create(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key.read(path) == made
    assert made.secret.hex() not in repr(made) + str(made)
    assert repr(made) == f"Key({made.name})"
    with pytest.raises(LinkError, match="already holds a key"):
        key.create(path)
    assert key.read(path) == made


@pytest.mark.skipif(os.name != "posix", reason="permissions of this kind exist on POSIX only")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_key_file_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    key.create(path)
    path.chmod(mode)
    with pytest.raises(LinkError, match="chmod 600"):
        key.read(path)


@pytest.mark.parametrize("text", ["", "00" * 31, "00" * 33, "zz" * 32, "00" * 32 + "\nmore", "é" * 32])
def test_a_file_that_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(LinkError, match="64 hexadecimal digits"):
        key.read(path)


def test_no_key_file_and_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="stepmap key"):
        key.read(tmp_path / "none")
    with pytest.raises(LinkError, match="not a file"):
        key.read(tmp_path)
    with pytest.raises(LinkError, match="cannot write"):
        key.create(Path("/dev/null/key"))
    with pytest.raises(LinkError, match="32 bytes, not 3"):
        Key(b"abc")


def test_the_default_place_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPMAP_KEY", str(tmp_path / "mine"))
    assert key.default_path() == tmp_path / "mine"
    monkeypatch.delenv("STEPMAP_KEY")
    assert key.default_path().name == "key"
