"""Bytes of strangers cost little and hold up nothing: neither a stop, nor a measurement, nor the motors."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator

import pytest

from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from tests.firmware.attacks import ATTACKS, BEGUN, forged
from tests.firmware.link_board import KEY, Board, Stamps, frame
from tests.firmware.loop_board import LoopBoard
from tests.firmware.loop_kit import PERIOD, START, Rig, arm, calibrate, said, virtually_running

STOP = dialect.value("STEPMAP_COMMAND_STOP")


@pytest.fixture
def board() -> Iterator[Board]:
    with Board() as made:
        yield made


def stop(time: Stamps) -> bytes:
    return frame("COMMAND", timestamp=next(time), command=STOP, token=next(time) % 2**32)


def taken(board: Board, *parts: bytes) -> int:
    """Commands that the board takes of these bytes."""
    before = board.facts().commands
    for part in parts:
        board.feed(part)
    return board.facts().commands - before


# Frames that are begun


def test_a_frame_cut_off_anywhere_holds_up_nothing(board: Board) -> None:
    """Signed with the key or without it: the frame behind it is taken with its last byte."""
    time = Stamps()
    made = (frame("UPLOAD_CHUNK", timestamp=stamp, length=192, data=bytes(range(1, 193))) for stamp in time)
    # A signature that ends like the next frame begins, one of 256, would be whole with that byte.
    other = next(whole for whole in made if whole[-1] != 0xFD)
    assert len(other) == 224
    for whole, size in itertools.product((other, forged(bytes(range(1, 200)), block=bytes(13))), range(1, 224)):
        assert taken(board, whole[:size] + stop(time)) == 1


def test_a_frame_without_signature_does_not_take_the_first_bytes_of_the_next_along(board: Board) -> None:
    """Its checksum is chosen to be what the next frame begins with."""
    time = Stamps()
    wanted = stop(time)
    entry = dialect.module().mavlink_map[dialect.value("MAVLINK_MSG_ID_PING")]
    head = bytes([0xFD, 4, 0, 0, 0, 255, 1]) + entry.id.to_bytes(3, "little")
    x25 = dialect.module().x25crc
    for last in range(2**16):
        payload = b"\1" + struct.pack("<H", last) + b"\1"
        crc = x25(head[1:] + payload + bytes([entry.crc_extra])).crc
        if struct.pack("<H", crc) == wanted[:2]:
            break
    else:
        pytest.fail("there is no such frame")
    assert taken(board, head + payload + wanted) == 1
    assert board.facts().bare == 1


def test_a_signature_that_looks_like_a_header_so_far_is_one_all_the_same(board: Board) -> None:
    """Four bytes of a header in its end: chance makes such a frame once in a million, and it must not get lost."""
    asked = Message("COMMAND", {"target_system": 1, "command": STOP}, system=255, component=1)
    found = []
    for count in itertools.count(1):
        stamp = int.from_bytes(bytes([count & 255, count >> 8, 0, 0xFD, 9, 1]), "little")
        made = dialect.encode(asked, 0, key=KEY.link, timestamp=stamp)
        if made[-6] == 0:
            found.append(made)
        if len(found) == 3:
            break
    assert taken(board, found[0]) == 1
    assert taken(board, found[1] + b"\xfd") == 1
    assert taken(board, found[2][:-4], found[2][-4:], bytes(20)) == 1


@pytest.mark.parametrize("every", [0.02, 0.05, 0.1])
def test_begun_frames_make_no_measurement_old(every: float) -> None:
    """Ten bytes without a key, again and again: each measurement makes its tick with its last byte."""
    board = LoopBoard()
    calibrate(board)
    arm(board)
    begun = board.core.board_clock()
    attacks = 0
    for k in range(1, 60):
        if board.core.board_clock() - begun >= attacks * every * 1e6:
            board.write(BEGUN)
            attacks += 1
        board.ticks()
        board.measure(START)
        assert [tick.sequence for tick in board.ticks() if tick.taken] == [board.sequence]
        while board.core.board_clock() - begun < k * PERIOD:
            board.turn()


def test_begun_frames_hold_up_nothing_in_the_time_of_messages_either() -> None:
    board = LoopBoard()
    virtually_running(board)
    board.write(BEGUN)
    assert said(board.command("stop")) == ("ok", "stopped", "stop command")


# Work


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_turn_checks_one_signature(attack: str) -> None:
    board = LoopBoard()
    board.core.board_feed(ATTACKS[attack] * 20, 20 * len(ATTACKS[attack]))
    before = board.facts.forged
    for _ in range(1000):
        board.turn()
        now = board.facts.forged
        assert now - before <= 1
        before = now
    assert said(board.command("stop"))[0] == "ok"
    if "signature" in attack:
        assert now >= 19  # the test tries what it says


def test_motors_that_are_served_every_10_ms_stop_the_robot_and_then_are_switched_off() -> None:
    rig = Rig(LoopBoard())
    board = rig.board
    board.command("run")
    rig.run(0.1)
    assert board.state == "running"
    for reason, state, enabled in (("run command", "running", 1), ("motor late", "stopped", 1)):
        assert (board.reason, board.state, board.facts.enabled) == (reason, state, enabled)
        for _ in range(5):
            board.core.board_pass(10_000)
            board.turn()
    assert (board.state, board.reason, board.facts.enabled) == ("fault", "motor late", 0)
    assert said(board.command("reset_fault"))[:2] == ("ok", "idle")


def test_motors_that_are_late_now_and_then_go_on() -> None:
    """4 ms are not late, and 10 ms a few times a second are borne."""
    rig = Rig(LoopBoard())
    board = rig.board
    board.command("run")
    for k in range(40):
        board.core.board_pass(10_000 if k % 10 == 9 else 3_000)
        rig.run(0.011)
    assert (board.state, board.facts.motors_late) == ("running", 4)


def test_while_motors_are_on_nothing_waits_for_the_line() -> None:
    """A line that has room for half a frame: nothing of it is sent, and the motors are served on time."""
    rig = Rig(LoopBoard())
    board = rig.board
    board.command("run")
    board.core.board_jam(50)
    rig.run(0.3)
    assert board.in_waiting == 0
    assert board.facts.motor_longest <= 2000
    board.core.board_jam(65536)
    assert board.state == "running"
    rig.run(0.1)
    assert rig.told


def test_with_motors_off_the_line_is_waited_for() -> None:
    board = LoopBoard()
    board.link.ping()
    board.heard()
    board.core.board_jam(50)
    board.run(0.25)
    assert board.in_waiting > 0  # of a heartbeat, what there was room for
