"""What hardware tells by itself, in the loop: faults with reasons of their own, of real and of virtual motors."""

from __future__ import annotations

import pytest

from stepmap_hil.wire import dialect
from tests.firmware.loop_board import VIRTUAL, LoopBoard
from tests.firmware.loop_kit import Rig, arm, beat, calibrate, said, tick, virtually_running

DRIVER, SUPPLY, ENCODER = (dialect.value(f"STEPMAP_ALARM_{name}") for name in ("DRIVER", "SUPPLY", "ENCODER"))
BROWNOUT = 4  # port.h; no bit of the wire
SETTLED = 0.05  # s


@pytest.fixture
def board() -> LoopBoard:
    return LoopBoard()


def flags(board: LoopBoard) -> set[str]:
    told = beat(board).flags
    return {name for name in ("SUPPLY_LOW", "NO_BROWNOUT") if told & dialect.value(f"STEPMAP_FLAG_{name}")}


# Drivers


def test_a_driver_that_pulls_its_line_stops_the_robot_until_a_reset(board: LoopBoard) -> None:
    rig = Rig(board)
    assert said(board.command("run"))[0] == "ok"
    rig.run(0.3)
    board.core.board_alarm(DRIVER)
    rig.run(0.01)
    assert (board.state, board.reason) == ("fault", "motor driver")
    assert board.facts.enabled == 0
    assert board.facts.faults == 1
    board.core.board_alarm(0)
    rig.run(0.5)
    assert (board.state, board.reason) == ("fault", "motor driver")  # it stays although the line is back
    assert said(board.command("reset_fault"))[1] == "idle"
    assert board.facts.calibrated  # the position is as good as before


def test_a_driver_that_still_pulls_its_line_is_a_fault_again_when_power_comes(board: LoopBoard) -> None:
    calibrate(board)
    board.core.board_alarm(DRIVER)
    board.run(1.0)
    assert board.state == "idle"  # without power a driver may well say that it has none
    arm(board)
    board.run(0.01)
    assert (board.state, board.reason) == ("fault", "motor driver")
    assert said(board.command("reset_fault"))[1] == "idle"
    arm(board)
    board.run(0.01)
    assert (board.state, board.reason) == ("fault", "motor driver")


def test_a_driver_that_wakes_up_is_no_fault(board: LoopBoard) -> None:
    """Three steps with its line low, again and again; four are too many."""
    calibrate(board)
    arm(board)
    for _ in range(20):
        board.core.board_alarm(DRIVER)
        board.run(0.0029)
        board.core.board_alarm(0)
        board.run(0.0021)
    assert board.state == "armed"
    board.core.board_alarm(DRIVER)
    board.run(0.0051)
    assert board.state == "fault"


# Encoders


def test_an_encoder_that_loses_counts_is_a_fault_and_needs_another_calibration(board: LoopBoard) -> None:
    rig = Rig(board)
    board.core.board_alarm(ENCODER << 1)
    rig.run(0.007)
    board.core.board_alarm(0)
    rig.run(0.1)
    assert board.state == "armed"  # up to eight steps
    board.core.board_alarm(ENCODER << 1)
    rig.run(0.004)
    assert (board.state, board.reason) == ("fault", "motor encoder")
    assert (board.facts.enabled, board.facts.calibrated) == (0, 0)
    board.core.board_alarm(0)
    assert said(board.command("reset_fault"))[1] == "idle"
    assert said(board.command("arm"))[2] == "not calibrated"


def test_a_calibration_forgets_what_was_lost_before(board: LoopBoard) -> None:
    for _ in range(4):
        calibrate(board)
        board.core.board_alarm(ENCODER)
        board.run(0.006)
        board.core.board_alarm(0)
        board.run(0.1)
    assert board.state == "idle"


def test_an_encoder_that_is_moved_by_hand_or_that_no_motor_has_is_no_fault(board: LoopBoard) -> None:
    board.core.board_alarm(ENCODER * 3)
    board.run(1.0)
    assert board.state == "idle"
    board.core.board_alarm(0)
    calibrate(board)
    board.core.board_alarm(ENCODER * 4)  # a third one
    board.run(1.0)
    assert board.state == "idle"


# Supply


@pytest.mark.parametrize("state", ["idle", "armed", "running"])
def test_a_low_supply_is_a_fault_in_every_state(board: LoopBoard, state: str) -> None:
    rig = None if state == "idle" else Rig(board)
    if state == "running":
        assert said(board.command("run"))[0] == "ok"
    board.core.board_alarm(SUPPLY)
    (rig or board).run(0.002)
    assert (board.state, board.reason) == ("fault", "supply")
    assert board.facts.enabled == 0
    assert flags(board) == {"SUPPLY_LOW"}
    assert said(board.command("reset_fault"))[1] in ("idle", "fault")
    board.run(0.002)
    assert (board.state, board.reason) == ("fault", "supply")  # while it lasts
    board.core.board_alarm(0)
    assert said(board.command("reset_fault"))[1] == "idle"
    board.run(0.5)
    assert board.state == "idle"
    assert flags(board) == set()


def test_nothing_is_erased_while_the_supply_is_low(board: LoopBoard) -> None:
    for _ in range(30):  # a journal that is half full wants to be erased
        board.link.send("PING", sequence=1)
        board.link._timestamp += 2**27
    board.core.board_alarm(SUPPLY)
    board.run(0.002)
    board.core.board_fail_flash(1)  # the next operation fails, and is counted
    before = board.facts.faults
    board.run(3.0)
    assert board.facts.faults == before
    board.core.board_alarm(0)
    board.run(1.0)
    assert board.facts.faults == before + 1


@pytest.mark.parametrize("new", [False, True])
def test_a_board_that_starts_with_a_low_supply_says_so(board: LoopBoard, new: bool) -> None:
    if new:
        board.core.board_init()
    board.core.board_alarm(SUPPLY)
    board.start()
    assert (board.state, board.reason) == ("fault", "supply")
    board.core.board_alarm(0)
    board.run(0.5)  # memory of a new board is made ready with a heartbeat
    assert said(board.command("reset_fault"))[1] == "idle"


def test_a_brown_out_level_that_was_not_set_is_told_and_no_fault(board: LoopBoard) -> None:
    board.core.board_alarm(BROWNOUT)
    board.run(0.1)
    assert flags(board) == {"NO_BROWNOUT"}
    assert board.state == "idle"


# Virtual motors


@pytest.mark.parametrize(
    ("alarm", "reason", "messages"),
    [
        (DRIVER, "motor driver", 4),
        (SUPPLY, "supply", 1),
        (ENCODER, "motor encoder", 9),
        (ENCODER << 1, "motor encoder", 9),
    ],
)
def test_virtual_motors_have_virtual_alarms(board: LoopBoard, alarm: int, reason: str, messages: int) -> None:
    virtually_running(board)
    tick(board)
    for _ in range(messages - 1):
        board.pass_time(0.001)
        board.encoders(*board.counts, alarms=alarm)
        assert board.state == "running"
    board.pass_time(0.001)
    answer = board.encoders(*board.counts, alarms=alarm)
    assert (board.state, board.reason) == ("fault", reason)
    assert answer is not None
    assert not answer.enabled


def test_of_the_board_s_own_alarms_virtual_motors_have_the_supply_alone(board: LoopBoard) -> None:
    virtually_running(board)
    board.core.board_alarm(DRIVER | ENCODER)
    for _ in range(20):
        tick(board)
    assert board.state == "running"
    board.core.board_alarm(SUPPLY)
    board.run(0.002)
    tick(board)
    assert (board.state, board.reason) == ("fault", "supply")


def test_alarms_of_virtual_motors_end_with_them(board: LoopBoard) -> None:
    virtually_running(board)
    board.encoders(*board.counts, alarms=SUPPLY)
    assert board.state == "fault"
    board.command("reset_fault")
    calibrate(board)
    board.run(SETTLED)
    assert flags(board) == set()
    assert VIRTUAL
