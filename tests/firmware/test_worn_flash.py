"""Flash as it is: cells that read differently each time, writes that fail and yet persist, worn cells, bit rot.

Whatever memory does, the schedule in use is the old one or the new one, and what was heard once is not heard again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from stepmap_hil.wire.link import LinkError
from tests.firmware.link_board import BANK, JOURNAL, Board, blob, frame
from tests.firmware.test_upload import count_operations, put, record, refused

OLD, NEW = blob(600, seed=4), blob(800, seed=5)
SLOT_A, SLOT_B, LOG_A, LOG_B = range(4)


@pytest.fixture
def board() -> Iterator[Board]:
    with Board() as made:
        put(made, OLD)
        made.reset()
        yield made


def said_by(board: Board) -> tuple[bytes, bytes]:
    """Memory with the old schedule, and the frames of an upload of the new one."""
    start = board.memory()
    said = b"".join(record(board, NEW))
    board.accepted()
    return start, said


@pytest.mark.parametrize("cuts", [1, 2, 3])
@pytest.mark.parametrize("later", [128, 1])
def test_cells_that_read_differently_each_time(board: Board, cuts: int, later: int) -> None:
    """Power is lost in the middle of every operation, again in the next starts, and the cells look erased at first.

    A record that was written over such cells would be lost as soon as they read as something else, and with it the
    knowledge of what was heard.
    """
    start, said = said_by(board)
    operations = count_operations(board, start, said)
    for operation in range(1, operations + 1):
        for part in (0, 5, 47):
            board.renew()
            board.restore(start)
            board.accepted()
            board.weaken(256)
            board.cut(operation, part, seed=operation)
            if board.reset() == 0:
                board.feed(said)
            heard = Counter(board.accepted())
            pings = []
            for nth in range(cuts):  # all but the last lose power, too
                board.cut(0 if nth == cuts - 1 else 1 + nth % 2, part, seed=operation)
                assert board.reset() == 0
                pings.append(frame("PING", timestamp=board.facts().floor + 1, stamp_us=nth))
                board.feed(pings[-1])
                heard.update(board.accepted())
            board.cut(0, 0)
            board.weaken(later, seed=operation + part)
            for _ in range(2):
                assert board.reset() == 0
                assert board.schedule() in (OLD, NEW)
                board.feed(said + b"".join(pings))
                assert board.schedule() in (OLD, NEW)
                heard.update(board.accepted())
            assert max(heard.values()) == 1, f"heard twice after {part} bytes of operation {operation}"


def test_a_board_lives_on_with_uncertain_cells(board: Board) -> None:
    start, said = said_by(board)
    for seed in range(30):
        board.renew()
        board.restore(start)
        board.weaken(200, seed)
        board.cut(1 + seed % 8, seed % 48, seed)
        if board.reset() == 0:
            board.feed(said)
        assert board.reset() == 0
        put(board, NEW)
        for _ in range(5):
            assert board.reset() == 0
            assert board.schedule() == NEW


def test_writes_that_fail_and_yet_persist(board: Board) -> None:
    start, said = said_by(board)
    for operation in range(1, count_operations(board, start, said) + 1):
        board.restore(start)
        board.deny(operation)
        if board.reset() == 0:
            board.feed(said)
        found = board.schedule()
        assert found in (OLD, NEW)
        assert board.reset() == 0
        assert board.schedule() in (OLD, NEW)
        assert found == OLD or board.schedule() == NEW
        put(board, NEW)
        assert board.schedule() == NEW


@pytest.mark.parametrize("region", [SLOT_A, SLOT_B, LOG_A, LOG_B])
def test_worn_cells_are_told_and_do_no_harm(board: Board, region: int) -> None:
    """An erase that leaves a bit is a failure: the slot or the journal is not used, and the old schedule stays."""
    start, _ = said_by(board)
    places = range(0, JOURNAL, 100) if region >= LOG_A else (0, 500, 799, 30000)
    for at in places:
        board.renew()
        board.restore(start)
        board.reset()
        kept = board.schedule()
        board.wear(region, at, 0x10)
        for attempt in range(3):
            refusal = refused(board, NEW)
            assert refusal == "" or "memory could not be written" in refusal
            started = board.reset()
            assert started in (0, -3)
            if started == 0 or region >= LOG_A:
                assert board.schedule() in (kept, OLD, NEW, b"")
            if region >= LOG_A:
                assert board.schedule() in (OLD, NEW), (at, attempt)


def test_a_journal_that_cannot_be_erased_is_still_read(board: Board) -> None:
    put(board, NEW)
    for region in (LOG_A, LOG_B):
        board.wear(region, JOURNAL - 1, 0x01)
    for _ in range(60):
        board.reset()
        assert board.schedule() == NEW
        board.tend()
        board.ask("B")


def test_a_bit_that_changes_by_itself(board: Board) -> None:
    """With two schedules in memory, wherever one bit is: one of them is used."""
    put(board, NEW)
    whole = board.memory()
    assert OLD in whole
    assert NEW in whole
    for place in [*range(0, 800, 37), *range(BANK, BANK + 800, 37), *range(2 * BANK, len(whole), 3)]:
        spoilt = bytearray(whole)
        spoilt[place] ^= 1 << place % 8
        board.restore(bytes(spoilt))
        assert board.reset() == 0
        assert board.schedule() in (OLD, NEW)


def test_rot_in_use_is_found_at_the_next_start(board: Board) -> None:
    put(board, NEW)
    spoilt = bytearray(board.memory())
    for place in range(0, 2 * BANK, 64):
        spoilt[place] ^= 1
    board.restore(bytes(spoilt))
    assert board.reset() == 0
    assert board.schedule() == b""
    put(board, NEW)
    assert board.schedule() == NEW


def test_worn_journals_are_told_to_the_host() -> None:
    """Both journals worn: nothing is heard from then on, as counters could not be kept, and nothing moves."""
    with Board() as board:
        for region in (LOG_A, LOG_B):
            board.wear(region, 0, 0xFF)
        assert board.reset() == -3
        with pytest.raises(LinkError):
            put(board, NEW)
        assert board.schedule() == b""
