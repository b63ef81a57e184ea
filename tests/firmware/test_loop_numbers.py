"""Flags, single ticks and times that the loop tells: each exactly, where other tests ask for one of many."""

from __future__ import annotations

import pytest

from stepmap_hil.wire import dialect
from stepmap_hil.wire.upload import upload
from tests.firmware.loop_board import KEY, VIRTUAL, LoopBoard
from tests.firmware.loop_kit import arm, beat, calibrate, reference, said, tick, virtually_running
from tests.firmware.test_loop import blob
from tests.firmware.test_select import changed

STEP = 71582788  # SM_U_STEP of the robot: 2 m/s
ALWAYS = ("HAS_KEY", "LASTING", "FIXED_POINT", "TAKES_UPLOADS")


@pytest.fixture
def board() -> LoopBoard:
    return LoopBoard()


def flags(board: LoopBoard) -> set[str]:
    """Of a heartbeat of now, every bit by its name."""
    told = beat(board).flags
    names = {
        name: dialect.value(f"STEPMAP_FLAG_{name}") for name in (*ALWAYS, "UPLOADED", "VIRTUAL_IO", "VIRTUAL_TIME")
    }
    names |= {name: dialect.value(f"STEPMAP_FLAG_{name}") for name in ("CALIBRATED", "SUPPLY_LOW", "NO_BROWNOUT")}
    found = {name for name, bit in names.items() if told & bit}
    assert told == sum(names[name] for name in found)
    return found


def test_flags_of_heartbeats_are_these_and_no_others(board: LoopBoard) -> None:
    assert flags(board) == set(ALWAYS)
    upload(board.link, changed("suspended_mass"), KEY)
    assert flags(board) == {*ALWAYS, "UPLOADED"}
    calibrate(board)
    assert flags(board) == {*ALWAYS, "UPLOADED", "CALIBRATED"}
    calibrate(board, *VIRTUAL)
    assert flags(board) == {*ALWAYS, "UPLOADED", "CALIBRATED", "VIRTUAL_IO", "VIRTUAL_TIME"}
    assert flags(LoopBoard("float32")) == set(ALWAYS) - {"FIXED_POINT"}


def test_the_schedule_is_over_with_its_last_row(board: LoopBoard) -> None:
    rows = len(reference("suspended_mass"))
    virtually_running(board)
    for k in range(rows):
        assert (board.facts.tick, board.facts.at_end) == (k, 0)
        tick(board)
    assert (board.facts.tick, board.facts.at_end) == (rows, 1)


def test_ticks_with_limited_commands_are_counted_and_no_others(board: LoopBoard) -> None:
    virtually_running(board)
    for _ in range(20):
        tick(board)
    assert board.facts.saturated == 0
    board = LoopBoard()
    upload(board.link, blob(jump=0.5), KEY)
    virtually_running(board)
    limited = 0
    for _ in range(20):
        before = board.facts.applied[0]
        tick(board)
        limited += board.facts.applied[0] - before == STEP
        assert board.facts.saturated == limited
    assert 3 < limited < 20


def timing(board: LoopBoard) -> int:
    """The longest tick since motors were switched on, µs."""
    board.heard("TIMING")
    board.run(2.2)
    return int(board.heard("TIMING")[-1].tick_us)


def test_the_longest_tick_is_that_since_motors_were_switched_on(board: LoopBoard) -> None:
    board.core.board_slow_filter(7000)
    virtually_running(board)
    tick(board)
    board.core.board_slow_filter(1000)
    tick(board)
    assert timing(board) == 7000
    board.command("stop")
    board.pass_time(0.5)
    board.encoders(*board.counts)
    board.command("reset_fault")
    assert board.state == "idle"
    assert timing(board) == 7000
    arm(board, *VIRTUAL)
    tick(board)
    assert said(board.command("run"))[0] == "ok"
    tick(board)
    assert timing(board) == 1000


def test_a_board_without_a_key_says_so_and_counts_what_it_sends() -> None:
    board = LoopBoard(key=None)
    board.run(2.2)
    told = board.heard("HEARTBEAT")[-1].flags  # the bit of the key is clear, and so are all others that do not hold
    assert told == sum(dialect.value(f"STEPMAP_FLAG_{name}") for name in ALWAYS if name != "HAS_KEY")
    [told] = board.heard("LINK_STATUS")[-1:]
    assert told.sent >= 3
    assert told.unsent == 0
