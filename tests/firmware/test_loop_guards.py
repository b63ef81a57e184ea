"""What must not happen: moved by a mistake of hosts, a wrong zero, deaf after days, old news taken for new."""

from __future__ import annotations

import itertools

import pytest

from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link
from tests.firmware.loop_board import BOARD, KEY, VIRTUAL, LoopBoard
from tests.firmware.loop_kit import CALIBRATIONS, COUNTS, PERIOD, START, Rig, arm, calibrate, said, virtually_running

DAY = 24 * 3600 * 10**5  # of timestamps
STOP, ARM, RUN = (dialect.value(f"STEPMAP_COMMAND_{name}") for name in ("STOP", "ARM", "RUN"))


@pytest.fixture
def board() -> LoopBoard:
    return LoopBoard()


# Which motors


@pytest.mark.parametrize("options", [VIRTUAL, ("virtual_io",)])
def test_who_asks_for_the_motors_of_messages_does_not_get_real_ones(board: LoopBoard, options: tuple[str, ...]) -> None:
    calibrate(board)
    arm(board)
    assert said(board.command("arm", *options)) == ("state", "armed", "wrong state")
    assert said(board.command("arm")) == ("ok", "armed", "arm command")  # that is what it is
    board.command("stop")
    assert said(board.command("calibrate"))[:2] == ("ok", "calibrating")
    assert said(board.command("calibrate", *options)) == ("state", "calibrating", "wrong state")


@pytest.mark.parametrize("options", [(), ("virtual_io",)])
def test_who_asks_for_other_motors_or_another_time_while_it_runs_is_refused(
    board: LoopBoard, options: tuple[str, ...]
) -> None:
    virtually_running(board)
    assert said(board.command("arm", *options)) == ("state", "running", "wrong state")
    assert board.facts.enabled == 0


# Stops


def test_a_stop_is_carried_out_however_often_it_was_before(board: LoopBoard) -> None:
    """A host whose clock stands at 0 begins with the same token every time; another one arms in between."""
    calibrate(board)
    board.link.send("COMMAND", token=1, command=STOP)
    other = Link(board, KEY, board_id=BOARD, system=254)
    other.send("COMMAND", token=5, command=ARM)
    assert board.state == "armed"
    board.link.send("COMMAND", token=1, command=STOP)
    assert board.state == "idle"
    assert said(board.heard("COMMAND_ACK")[-1]) == ("ok", "idle", "stop command")


def command_as(board: LoopBoard, component: int, command: int, token: int) -> None:
    """A command of another program of the same host."""
    fields = {"target_system": 1, "token": token, "command": command}
    message = Message("COMMAND", fields, system=255, component=component)
    board.link._timestamp += 1
    board.write(dialect.encode(message, 0, key=KEY.of_board(BOARD).link, timestamp=board.link._timestamp))


def test_the_same_token_of_another_program_is_another_command(board: LoopBoard) -> None:
    """Also where it takes over the place of the program that used it, whose answer is the oldest of four."""
    calibrate(board)
    for component in range(11, 31):
        command_as(board, component, ARM, token=7)
        assert board.state == "armed"
        command_as(board, 1, STOP, token=component)
        assert board.state == "idle"


def test_a_command_that_comes_again_is_not_carried_out_again_because_another_program_spoke(board: LoopBoard) -> None:
    calibrate(board)
    command_as(board, 1, ARM, token=5)
    command_as(board, 2, STOP, token=5)
    assert board.state == "idle"
    command_as(board, 1, ARM, token=5)
    assert board.state == "idle"


def test_an_answer_that_is_given_again_says_how_the_board_is_now(board: LoopBoard) -> None:
    calibrate(board)
    board.link.send("COMMAND", token=9, command=ARM)
    board.measure(START)
    board.link.send("COMMAND", token=10, command=RUN)
    other = Link(board, KEY, board_id=BOARD, system=254)
    other.send("COMMAND", token=1, command=STOP)
    board.heard("COMMAND_ACK")
    board.link.send("COMMAND", token=10, command=RUN)
    assert said(board.heard("COMMAND_ACK")[-1])[:2] == ("ok", "stopped")


def test_a_frame_that_was_begun_does_not_swallow_a_stop(board: LoopBoard) -> None:
    """The head of the longest message, whose rest never comes: a host that was killed, or anybody at the line."""
    calibrate(board)
    arm(board)
    chunk = dialect.value("MAVLINK_MSG_ID_UPLOAD_CHUNK")
    board.write(bytes([0xFD, 199, 1, 0, 0, 255, 1]) + chunk.to_bytes(3, "little"))
    assert said(board.command("stop")) == ("ok", "idle", "stop command")


@pytest.mark.parametrize(("pause", "state"), [(0.002, "idle"), (0.02, "armed")])
def test_a_frame_that_comes_slowly_is_taken_and_one_that_comes_too_slowly_is_given_up(
    board: LoopBoard, pause: float, state: str
) -> None:
    """The line takes 0.7 ms for it; adapters and drivers may take 100 ms more, together."""
    calibrate(board)
    arm(board)
    frames: list[bytes] = []
    slow = Link(_Writer(frames), KEY, board_id=BOARD)
    slow.send("COMMAND", token=3, command=STOP)
    for byte in frames[0]:
        board.write(bytes([byte]))
        board.run(pause)
    assert board.state == state
    assert said(board.command("stop"))[:2] == ("ok", "idle")


def test_in_the_time_of_messages_a_host_may_think_in_the_middle_of_a_frame(board: LoopBoard) -> None:
    virtually_running(board)
    frames: list[bytes] = []
    slow = Link(_Writer(frames), KEY, board_id=BOARD)
    slow.send("COMMAND", token=3, command=STOP)
    board.write(frames[0][:20])
    board.run(2.0)
    board.write(frames[0][20:])
    assert (board.state, board.reason) == ("stopped", "stop command")


class _Writer:
    """A port that keeps what is written."""

    timeout: float | None = None
    in_waiting = 0

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames

    def read(self, size: int = 1, /) -> bytes:
        return b""

    def write(self, data: bytes, /) -> int:
        self.frames.append(data)
        return len(data)

    def close(self) -> None:
        pass


# Faults


@pytest.mark.parametrize("axis", [0, 1])
def test_the_answer_to_encoders_that_jump_says_that_motors_are_off(board: LoopBoard, axis: int) -> None:
    virtually_running(board)
    board.pass_time(0.001)
    jump = list(board.counts)
    jump[axis] += 100_000
    answer = board.encoders(*jump)
    assert (board.state, board.reason) == ("fault", "motor encoder")
    assert (answer.enabled, tuple(answer.effort[:2])) == (0, (0, 0))


@pytest.mark.parametrize("axis", [0, 1])
def test_power_is_off_in_the_turn_that_finds_a_fault(board: LoopBoard, axis: int) -> None:
    rig = Rig(board)
    board.command("run")
    rig.run(0.1)
    board.core.board_encoder(axis, 1_000_000)
    while board.state == "running":
        assert board.facts.enabled == 1
        board.turn()
    assert (board.state, board.reason, board.facts.enabled) == ("fault", "motor encoder", 0)


def test_the_watchdog_is_fed_while_ticks_are_made_up_for(board: LoopBoard) -> None:
    """Twelve ticks at once of a filter that takes 45 ms each: more than the half second that the watchdog waits."""
    virtually_running(board)
    board.core.board_slow_filter(45_000)
    board.pass_time(0.4)
    board.encoders(*board.counts)
    assert len(board.ticks()) >= 12
    assert board.facts.starved == 0


# Calibration


def turned_by_hand(board: LoopBoard, metres: float) -> None:
    """A calibration while somebody pushes the robot; the camera and the encoder both see it."""
    board.command("calibrate")
    for k in range(CALIBRATIONS):
        where = metres * k / (CALIBRATIONS - 1)
        board.core.board_encoder(0, round(where * COUNTS))
        board.measure((0.0, 0.25, where, 0.75))


def test_a_robot_that_is_moved_a_little_while_it_calibrates_has_the_right_zero(board: LoopBoard) -> None:
    turned_by_hand(board, 0.02)
    assert board.reason == "calibrated"
    assert board.facts.positions[0] / 256 == pytest.approx(0.02 * COUNTS, abs=1)  # words of messages round by less


def test_a_robot_that_is_moved_far_while_it_calibrates_is_not_calibrated(board: LoopBoard) -> None:
    """The job lets motors be 25 mm behind their targets."""
    turned_by_hand(board, 0.03)
    assert (board.state, board.reason) == ("idle", "calibration failed")


def test_a_robot_the_camera_sees_move_while_its_encoder_stands_is_not_calibrated(board: LoopBoard) -> None:
    board.command("calibrate")
    for k in range(CALIBRATIONS):
        board.measure((0.0, 0.25, 0.11 * k / CALIBRATIONS, 0.75))
    assert (board.state, board.reason) == ("idle", "calibration failed")


# Days


@pytest.mark.parametrize("state", ["fault", "stopped"])
def test_a_board_hears_its_host_after_a_week_in_any_state(board: LoopBoard, state: str) -> None:
    """Timestamps are kept ten minutes ahead in a journal, which only a board whose motors are off can erase."""
    rig = Rig(board)
    board.command("run")
    rig.run(0.2)
    if state == "fault":
        rig.axes[0].stuck = rig.axes[1].stuck = True
        rig.run(1.5)
    else:
        board.command("stop")
    assert board.state == state
    later = itertools.count(board.link._now(), 6 * 10**7)  # ten minutes between two messages
    link = Link(board, KEY, board_id=BOARD, now=lambda: next(later))
    for _ in range(7 * 144):
        link.send("PING", sequence=1)
        board.run(0.2)
        link.poll()
    answer = link.command("reset_fault")
    assert said(answer)[:2] == ("ok", "idle")


# Old news


def test_what_a_line_held_up_is_older_by_that(board: LoopBoard) -> None:
    """Four measurements that come at once, 150 to 50 ms late: only what is younger than 100 ms says anything."""
    calibrate(board)
    arm(board)
    for _ in range(30):
        board.measure(START)
        board.run(PERIOD * 1e-6)
    board.run(0.15)
    board.ticks()
    stale = board.facts.stale
    for late in (0.15, 0.117, 0.083, 0.05):
        board.measure(START, on_its_way=late)
    assert board.facts.stale == stale + 3  # two are too old, and of the others the first makes the tick
    assert [tick.sequence for tick in board.ticks() if tick.taken] == [board.sequence - 1]


def test_clocks_that_differ_do_not_make_measurements_old(board: LoopBoard) -> None:
    """A host whose clock is slow by 200 ppm, for half an hour: its stamps fall behind by 0.36 s in all."""
    calibrate(board, "virtual_io")  # real motors that are on are not left alone for so long
    arm(board, "virtual_io")
    stale, begun = board.facts.stale, board.core.board_clock()
    for k in range(1, 54_000):
        board.measure(START, on_its_way=200e-6 * k * PERIOD * 1e-6)
        left = (begun + k * PERIOD - board.core.board_clock()) % 2**32
        board.core.board_pass(left - 2000)
        board.run(0.002)
    assert board.state == "armed"
    assert board.facts.stale == stale


# What is told


def test_a_state_that_did_not_last_is_told(board: LoopBoard) -> None:
    """The clock jumps by 260 ms while nobody looks at it: holding and stopped come at once, and both are told."""
    virtually_running(board)
    board.heard("HEARTBEAT")
    board.pass_time(0.26)
    board.encoders(0, 0)
    told = [(m.state, m.reason) for m in board.heard("HEARTBEAT")]
    words = [(dialect.word("STEPMAP_STATE", s), dialect.word("STEPMAP_REASON", r)) for s, r in told]
    assert words == [("holding", "no measurement"), ("stopped", "hold expired")]


def test_how_well_the_board_keeps_time_is_told(board: LoopBoard) -> None:
    rig = Rig(board)
    board.command("run")
    rig.run(2.5)
    timing = board.heard("TIMING")[-1]
    assert 1000 <= timing.motor_us <= 2000  # of time that passes in the test's steps of 1 ms
