"""The loop: what reaches it does what it should and nothing else, in the board's time and in that of messages."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest

from stepmap import jobs
from stepmap.errors import LinkError
from stepmap_codegen.emit.schedule import unpack
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.upload import upload
from tests.firmware.loop_board import BOARD, KEY, OTHER_KEY, ROOT, VIRTUAL, LoopBoard, generated
from tests.firmware.loop_kit import (
    CALIBRATIONS,
    COUNTS,
    PERIOD,
    START,
    Rig,
    arm,
    beat,
    calibrate,
    commanded,
    reference,
    said,
    tick,
    view,
    virtually_running,
)


@pytest.fixture
def board() -> LoopBoard:
    return LoopBoard()


# Start, heartbeats


def test_a_board_says_what_it_is(board: LoopBoard) -> None:
    board.link.connect()
    board.run(0.3)
    beat = board.heard("HEARTBEAT")[-1]
    image = (generated("suspended_mass") / "schedule.bin").read_bytes()
    assert bytes(beat.model) == board.words.model
    assert bytes(beat.schedule) == hashlib.sha256(image).digest()[:8]
    assert (beat.start, beat.protocol, beat.tick) == (1, 3, 0)
    names = ("HAS_KEY", "LASTING", "FIXED_POINT", "TAKES_UPLOADS")
    assert beat.flags == sum(dialect.value(f"STEPMAP_FLAG_{name}") for name in names)


def test_heartbeats_come_five_times_a_second_and_the_link_s_counts_with_every_tenth(board: LoopBoard) -> None:
    board.link.ping()
    board.heard()
    board.run(10.05)
    assert len(board.heard("HEARTBEAT")) == 50
    assert len(board.heard("LINK_STATUS")) == 5


def test_a_line_that_takes_nothing_is_counted(board: LoopBoard) -> None:
    board.link.ping()
    board.core.board_jam(10)
    board.run(1.05)
    board.core.board_jam(65536)
    board.core.board_overrun(7)
    board.run(2.0)
    [status] = board.heard("LINK_STATUS")
    assert status.unsent == 7  # five heartbeats, a LINK_STATUS and a TIMING
    assert status.overruns == 7


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda b: b.core.board_fail_flash(1), "self-test: the memory for counters and schedules cannot be written"),
        (lambda b: None, "self-test: the link could not be started"),
    ],
    ids=["flash", "link"],
)
def test_a_board_that_fails_its_self_test_does_nothing_and_says_why(
    board: LoopBoard, spoil: Callable[[LoopBoard], None], text: str
) -> None:
    board.core.board_init()
    spoil(board)
    board.start(system=0 if "link" in text else 1)
    assert (board.state, board.reason) == ("fault", "self test")
    if "link" not in text:
        board.link = Link(board, None)  # it cannot keep timestamps, so it signs nothing
        board.run(4.0)
        assert {m.text for m in board.heard("LOG")} == {text}
    assert board.facts.enabled == 0


def test_memory_that_cannot_be_written_later_is_a_fault_that_is_counted(board: LoopBoard) -> None:
    for _ in range(30):  # a journal that is half full wants to be erased
        board.link.send("PING", sequence=1)
        board.link._timestamp += 2**27
    board.core.board_fail_flash(1)
    board.run(0.3)
    assert board.facts.faults == 1
    assert board.state == "idle"


def test_memory_that_can_never_be_erased_is_tried_less_and_less_often(board: LoopBoard) -> None:
    """An erase stops some chips for two seconds: with every heartbeat it would leave no time for anything else."""
    for _ in range(30):
        board.link.send("PING", sequence=1)
        board.link._timestamp += 2**27
    board.core.board_wear_logs()
    board.run(63.0)  # tried at once, then after 1, 2, 4, 8, 16 and 31 … 32 s
    assert board.facts.faults == 6
    assert board.state == "idle"
    board.link.send("PING", sequence=1)
    board.run(0.1)
    assert board.heard("PING")


def test_the_time_since_the_start_wraps(board: LoopBoard) -> None:
    board.link.send("PING", sequence=1)
    board.core.board_age(2**32 - 500)
    board.run(1.0)
    told = [beat.uptime_ms for beat in board.heard("HEARTBEAT")][-5:]
    assert told[0] > 2**32 - 500
    assert told[-1] < 1000


def test_the_wear_of_the_journals_is_told(board: LoopBoard) -> None:
    for number in range(100):
        board.link.send("PING", sequence=number)
        board.link._timestamp += 2**27
        board.run(0.1)
    board.run(3.0)  # the last message of that kind is from after the last record
    told = [status.erases for status in board.heard("LINK_STATUS")]
    assert told == sorted(told)
    assert told[-1] == 5  # of 20 records each


# Who may speak


def frames(board: LoopBoard, key: object) -> list[bytes]:
    """Every message of a host, as one that would do something."""
    told: list[bytes] = []

    class Tap:
        timeout = None
        in_waiting = 0

        def write(self, data: bytes) -> int:
            told.append(data)
            return len(data)

        def read(self, size: int = 1) -> bytes:
            return b""

    link = Link(Tap(), key, board_id=BOARD)  # type: ignore[arg-type]
    link.send("PING", sequence=1)
    for command in range(1, 7):
        link.send("COMMAND", token=command, command=command, options=3)
    link.send("MEASUREMENT", stamp_us=1, sequence=1, z=[0] * 8, valid=15)
    link.send("VIRTUAL_ENCODER", stamp_us=1, counts=[1, 2])
    link.send("UPLOAD_CHUNK", offset=0, length=0)
    link.send("UPLOAD_COMMIT", digest=[0] * 8)
    link.send("HEARTBEAT", state=4)
    return told


@pytest.mark.parametrize("key", [None, OTHER_KEY], ids=["unsigned", "another key"])
def test_who_has_no_key_changes_nothing(board: LoopBoard, key: object) -> None:
    before = bytes(board.facts)
    board.heard()
    for frame in frames(board, key):
        board.write(frame)
        board.read(65536)
    after = board.facts
    kept = type(after).from_buffer_copy(before)
    for counter in ("fed", "forged", "motor_longest"):  # what time and strangers count
        setattr(after, counter, getattr(kept, counter))
    assert bytes(after) == before
    assert board.link.statistics.received == 0


def test_a_board_without_a_key_takes_nothing() -> None:
    board = LoopBoard(key=None)
    for frame in frames(board, KEY) + frames(board, None):
        board.write(frame)
    assert board.facts.transitions == 1
    assert (board.state, board.reason) == ("idle", "booted")


def test_what_was_recorded_does_nothing_later(board: LoopBoard) -> None:
    calibrate(board)
    told: list[bytes] = []
    write = board.write
    board.write = lambda data: told.append(data) or write(data)  # type: ignore[method-assign, func-returns-value]
    arm(board)
    board.command("stop")
    transitions = board.facts.transitions
    for frame in told:
        write(frame)
    board.start()
    for frame in told:
        write(frame)
    assert transitions == 5  # booted, calibrating, idle, armed, idle
    assert board.facts.transitions == 1


def test_an_answer_to_a_ping_is_not_answered(board: LoopBoard) -> None:
    board.link.ping()
    board.heard()
    board.link.send("PING", sequence=1, reply=1)
    assert not board.heard("PING")


# Commands


def test_a_command_that_comes_twice_is_carried_out_once_and_answered_twice(board: LoopBoard) -> None:
    calibrate(board)
    arm_code, stop_code = (dialect.value(f"STEPMAP_COMMAND_{name}") for name in ("ARM", "STOP"))
    for code in (arm_code, stop_code, stop_code, stop_code):
        board.link.send("COMMAND", token=7 if code == arm_code else 8, command=code)
    board.link.send("COMMAND", token=7, command=arm_code)  # another command came in between: this is a new one
    assert [said(m) for m in board.heard("COMMAND_ACK")] == [
        ("ok", "armed", "arm command"),
        *[("ok", "idle", "stop command")] * 3,
        ("ok", "armed", "arm command"),
    ]
    refused = board.facts.refused
    for _ in range(2):  # a refusal is not counted twice either
        board.link.send("COMMAND", token=9, command=dialect.value("STEPMAP_COMMAND_CALIBRATE"))
    assert [said(m)[0] for m in board.heard("COMMAND_ACK")] == ["state", "state"]
    assert board.facts.refused == refused + 1


@pytest.mark.parametrize(("command", "options"), [(0, 0), (7, 0), (255, 0), (1, 2), (4, 2), (1, 4), (4, 0x8000)])
def test_commands_and_options_it_does_not_know_are_refused(board: LoopBoard, command: int, options: int) -> None:
    """Virtual time with real motors (option 2 alone) is one of them: it would stand still with the host."""
    for _ in range(2):
        board.link.send("COMMAND", token=0, command=command, options=options)
    answers = board.heard("COMMAND_ACK")
    assert [said(answer)[0] for answer in answers] == ["argument", "argument"]
    assert board.facts.transitions == 1


def test_a_stop_is_taken_whatever_its_options(board: LoopBoard) -> None:
    calibrate(board)
    arm(board)
    board.link.send("COMMAND", token=1, command=dialect.value("STEPMAP_COMMAND_STOP"), options=0xFFFF)
    assert board.state == "idle"


def test_a_restart_answers_first_and_hears_nothing_more(board: LoopBoard) -> None:
    assert said(board.command("restart"))[0] == "ok"
    board.link.send("PING", sequence=5)
    assert not board.heard("PING")
    board.run(0.015)
    assert board.facts.restarts == 0
    board.run(0.02)
    assert board.facts.restarts == 1
    assert board.state == "idle"


def test_a_restart_is_refused_while_motors_are_on(board: LoopBoard) -> None:
    calibrate(board)
    arm(board)
    assert said(board.command("restart")) == ("busy", "armed", "wrong state")
    board.run(0.1)
    assert board.facts.restarts == 0


# Calibration


def test_calibration_takes_the_mean_of_measurements_for_the_position(board: LoopBoard) -> None:
    board.core.board_encoder(0, -123456)
    board.command("calibrate")
    rng = np.random.default_rng(1)
    noise = 0.005 * rng.standard_normal((CALIBRATIONS, 4))
    for k in range(CALIBRATIONS):
        board.measure(START, 3)  # without the robot: does not count
        board.measure(tuple(START + noise[k]))
        board.run(0.03)
    assert board.reason == "calibrated"
    mean = (np.array(START) + noise.mean(axis=0))[2:]
    # Each sample is rounded to a 256th of a count, their mean is cut off.
    np.testing.assert_allclose(np.array(board.facts.positions) / 256 / COUNTS, mean, atol=1.5 / 256 / COUNTS)
    board.core.board_encoder(0, -123456 + 300)
    board.run(0.1)
    assert board.facts.positions[0] / 256 == pytest.approx(mean[0] * COUNTS + 300, abs=0.01)


def test_calibration_fails_when_the_robot_moves(board: LoopBoard) -> None:
    board.command("calibrate")
    for k in range(CALIBRATIONS):
        board.measure((0.0, 0.25, 0.01 * k, 0.75))
    assert (board.state, board.reason) == ("idle", "calibration failed")
    assert said(board.command("arm")) == ("state", "idle", "not calibrated")


def test_calibration_ends_when_measurements_do_not_come(board: LoopBoard) -> None:
    board.command("calibrate")
    for _ in range(11):
        board.link.send("PING", sequence=1)  # else the link counts as lost
        board.run(0.95)
    assert (board.state, board.reason) == ("idle", "calibration timeout")


@pytest.mark.parametrize("first", [(), VIRTUAL])
def test_the_zero_of_virtual_encoders_is_not_that_of_real_ones(board: LoopBoard, first: tuple[str, ...]) -> None:
    calibrate(board, *first)
    other = () if first else VIRTUAL
    before = beat(board)
    assert said(board.command("arm", *other)) == ("state", "idle", "not calibrated")
    assert (beat(board).flags, beat(board).reason) == (before.flags, before.reason)  # what is refused changes nothing
    arm(board, *first)
    assert said(board.command("stop"))[:2] == ("ok", "idle")
    calibrate(board, *other)
    arm(board, *other)


def test_measurements_mean_nothing_while_idle(board: LoopBoard) -> None:
    board.measure(START)
    assert not board.ticks()
    assert board.facts.accepted == 1
    board.measure(START, sequence=board.sequence)
    assert board.facts.stale == 1


# Real time, real motors


@pytest.fixture
def rig(board: LoopBoard) -> Rig:
    return Rig(board)


def test_it_runs_stands_when_nobody_sees_it_and_goes_on(rig: Rig) -> None:
    board = rig.board
    assert board.facts.enabled == 1
    assert not any(board.facts.drives)
    assert said(board.command("run"))[0] == "ok"
    rig.run(1.5)
    assert board.state == "running"
    assert board.facts.tick in (45, 46)
    assert max(abs(axis.position) for axis in rig.axes) > 500
    error = max(abs(t - p) for t, p in zip(board.facts.targets, board.facts.positions, strict=True)) / 256
    assert error < 100  # counts, of a motor the gains were not made for
    rig.seen = False
    rig.run(0.19)
    assert board.state == "running"
    rig.run(0.045)
    assert (board.state, board.reason) == ("holding", "no measurement")
    targets = list(board.facts.targets)
    rig.seen = True
    rig.board.measure(rig.view())
    assert (board.state, board.reason) == ("running", "measurement back")
    assert targets == list(board.facts.targets)  # no jump
    rig.run(0.3)
    rig.seen = False
    rig.run(0.29)
    assert (board.state, board.reason) == ("stopped", "hold expired")
    targets = list(board.facts.targets)
    rig.run(0.5)
    assert targets == list(board.facts.targets)
    assert board.facts.enabled == 1  # a stop keeps its place
    assert all(t.taken == 0 for t in rig.told[-10:])  # ticks go on without measurements
    assert said(board.command("reset_fault")) == ("ok", "idle", "reset command")
    assert board.facts.enabled == 0


def test_a_stop_ramps_within_30_ms(rig: Rig) -> None:
    board = rig.board
    board.command("run")
    rig.run(1.0)
    assert said(board.command("stop")) == ("ok", "stopped", "stop command")
    rig.run(0.032)
    targets = list(board.facts.targets)
    rig.run(0.2)
    assert targets == list(board.facts.targets)


def test_a_host_that_is_gone_disarms_the_robot(board: LoopBoard) -> None:
    calibrate(board)
    arm(board)
    board.run(0.9)
    assert board.state == "armed"
    board.run(0.2)
    assert (board.state, board.reason) == ("idle", "link lost")
    assert board.facts.enabled == 0


def test_a_motor_that_is_stuck_is_a_fault(rig: Rig) -> None:
    board = rig.board
    board.command("run")
    rig.axes[0].stuck = rig.axes[1].stuck = True
    rig.run(1.5)
    assert (board.state, board.reason) == ("fault", "motor following")
    assert board.facts.enabled == 0
    assert board.facts.ticking == 0
    assert board.facts.faults == 1
    assert said(board.command("reset_fault")) == ("ok", "idle", "reset command")
    arm(board)


def test_an_encoder_that_jumps_is_a_fault_and_needs_calibration(rig: Rig) -> None:
    board = rig.board
    rig.axes[1].position += 5000
    rig.run(0.01)
    assert (board.state, board.reason) == ("fault", "motor encoder")
    board.command("reset_fault")
    assert said(board.command("arm")) == ("state", "idle", "not calibrated")


def test_ticks_that_take_too_long_stop_the_run(board: LoopBoard) -> None:
    """With the motors of messages: real ones would be late before that."""
    calibrate(board, "virtual_io")
    arm(board, "virtual_io")
    board.measure(view(board))
    board.command("run")
    board.run(PERIOD * 1e-6)
    board.core.board_slow_filter(34_000)
    for _ in range(12):
        if board.state == "running":
            board.measure(view(board))
    board.core.board_slow_filter(0)
    assert board.facts.overruns > 0
    assert (board.state, board.reason) == ("stopped", "overrun")
    assert max(t.tick_us for t in board.ticks()) > PERIOD


@pytest.mark.parametrize(("name", "seconds"), [("suspended_mass", PERIOD * 1e-6), ("late", PERIOD * 1e-6 - 0.01)])
def test_late_commands_are_made_up_for(name: str, seconds: float) -> None:
    """The target gets there a period after the measurement was made, which is 10 ms before it arrives at one."""
    board = LoopBoard(name)
    virtually_running(board)
    for _ in range(20):
        tick(board)
    board.measure(view(board))
    goal = 256 * COUNTS * board.words.decode("command", list(board.facts.applied))
    away = []
    for part in (seconds - 0.002, 0.002):
        board.pass_time(part)
        board.encoders(*board.counts)
        away.append(max(abs(np.array(board.facts.targets) - goal)))
    assert away[0] > 256  # counts, of 256 parts
    assert away[1] <= 1


def test_no_virtual_motor_gets_an_effort_when_power_goes_off(board: LoopBoard) -> None:
    """The fault of the second motor is found after the first one's effort."""
    virtually_running(board)
    for _ in range(20):
        tick(board)
    board.pass_time(0.001)
    answer = board.encoders(board.counts[0] + 50, board.counts[1])
    assert answer is not None
    assert answer.enabled == 1
    assert answer.effort[0] != 0
    board.pass_time(0.001)
    answer = board.encoders(board.counts[0] + 50, board.counts[1] + 5000)
    assert (board.state, board.reason) == ("fault", "motor encoder")
    assert answer is not None
    assert (answer.enabled, set(answer.effort)) == (0, {0})


def test_the_clock_may_wrap_in_a_run(board: LoopBoard) -> None:
    board.core.board_pass(2**32 - 3_000_000)
    board.run(0.001)
    rig = Rig(board)
    board.command("run")
    rig.run(4.0)
    assert board.core.board_clock() < 2_000_000
    assert board.state == "running"
    assert rig.told[-1].tick > 100


# Ticks and measurements


def settled(board: LoopBoard, ticks: int = 30) -> None:
    """Running for a second: the board knows when measurements come."""
    virtually_running(board)
    for _ in range(ticks):
        tick(board)
    board.ticks()


def see(board: LoopBoard, times: Iterable[float]) -> list[int]:
    """Measurements at these times, in periods from now; which of them is in use at each tick meanwhile, from 1.

    The board hears of the time and of its motors every tenth of a period.
    """
    begin, first, done = board.stamp_us, board.sequence, 0
    used: list[int] = []
    for time in times:
        for tenths in (*range(done, math.ceil(10 * time)), 10 * time):
            before, board.stamp_us = board.stamp_us, begin + round(tenths * PERIOD / 10)
            most = (board.stamp_us - before) // 12  # counts: 4 m/s
            goals = zip(commanded(board), board.counts, strict=True)
            board.counts = [count + max(-most, min(most, goal - count)) for goal, count in goals]
            board.encoders(*board.counts)
        board.measure(view(board))
        done = math.ceil(10 * time)
        used += [told.sequence - first for told in board.ticks()]
    return used


def test_a_measurement_after_its_tick_does_not_make_another(board: LoopBoard) -> None:
    """One that is 0.6 periods late comes after the tick was done without it; the next, on time, is taken. Ticks count
    periods all the same."""
    settled(board)
    ticks, stale = board.facts.tick, board.facts.stale
    assert see(board, [0.6, 1.0, 2.0, 3.0]) == [0, 2, 3, 4]
    assert board.facts.stale == stale + 1
    assert board.facts.tick == ticks + 4


@pytest.mark.parametrize("off", [-0.45, -0.2, 0.2, 0.45])
def test_one_measurement_at_another_time_does_not_move_the_others(board: LoopBoard, off: float) -> None:
    """The next may be as far off to the other side."""
    settled(board)
    stale = board.facts.stale
    assert see(board, [0.0, 1.0 + off, 2.0 - off, 3.0, 4.0]) == [1, 2, 3, 4, 5]
    assert board.facts.stale == stale


def test_a_sender_that_does_not_count_what_it_leaves_out_is_heard_when_it_is_on_time(board: LoopBoard) -> None:
    settled(board)
    assert see(board, [0.0, 3.1, 4.1, 4.9]) == [1, 1, 1, 2, 3, 4]


@pytest.mark.parametrize("pace", [0.99, 1.01])
def test_a_camera_whose_clock_differs_by_1_percent_is_followed(board: LoopBoard, pace: float) -> None:
    settled(board)
    stale = board.facts.stale
    assert see(board, [pace * k for k in range(1000)]) == list(range(1, 1001))
    assert board.facts.stale == stale
    assert board.state == "running"


@pytest.mark.parametrize("seed", range(3))
def test_measurements_that_come_two_fifths_of_a_period_off_are_all_taken(board: LoopBoard, seed: int) -> None:
    """Of 1000 with evenly spread times 0.04 would find the board's mean (0.034 periods, 1 σ) too far off."""
    settled(board)
    stale = board.facts.stale
    jitter = np.random.default_rng(seed).uniform(-0.4, 0.4, 1000)
    assert see(board, 1 + np.arange(1000) + jitter)[1:] == list(range(1, 1001))
    assert board.facts.stale == stale


@pytest.mark.parametrize("shift", [0.3, 0.5, 0.7])
def test_after_a_silence_the_first_measurement_says_when_the_next_are_due(board: LoopBoard, shift: float) -> None:
    """A camera that was started again has no reason to come when it came before."""
    settled(board)
    see(board, [0.0])
    stale = board.facts.stale
    used = see(board, [6 + shift + k for k in range(20)])
    assert used[-20:] == list(range(1, 21))
    assert board.facts.stale == stale


def test_old_and_repeated_measurements_are_ignored(board: LoopBoard) -> None:
    virtually_running(board)
    board.ticks()
    for sequence in (board.sequence, board.sequence - 1, 1):
        board.measure(START, sequence=sequence)
    assert not board.ticks()
    assert board.facts.stale == 3


def test_after_a_long_silence_only_the_last_ticks_are_made_up_for(board: LoopBoard) -> None:
    virtually_running(board)
    board.ticks()
    board.pass_time(20.0)
    board.encoders(*board.counts)
    told = board.ticks()
    assert len(told) == 30
    assert (board.state, board.reason) == ("stopped", "hold expired")
    board.pass_time(0.02)
    board.encoders(*board.counts)
    assert len(board.ticks()) <= 1


def test_channels_that_are_not_there_are_not_taken(board: LoopBoard) -> None:
    virtually_running(board)
    [told] = tick(board, valid=0b0101)
    assert told.taken == 0b0101
    assert told.innovation[1] == told.innovation[3] == 0
    [told] = tick(board, valid=0xFFF0)  # channels nobody has
    assert told.taken == 0


def test_a_start_far_from_the_schedule_s_is_refused(board: LoopBoard) -> None:
    away = (0.0, 0.25, 0.0, 0.80)
    calibrate(board, *VIRTUAL, z=away)
    arm(board, *VIRTUAL)
    board.measure(START)
    assert said(board.command("run")) == ("state", "armed", "far from start")
    board.command("stop")
    for k in range(11):  # by hand, to where the schedule begins: 5 cm of string
        board.pass_time(0.01)
        board.encoders(0, -100 * k)
    arm(board, *VIRTUAL)
    board.measure(START)
    assert said(board.command("run")) == ("ok", "running", "run command")


def test_saturations_and_gated_channels_are_counted_from_the_start_of_a_run(board: LoopBoard) -> None:
    virtually_running(board)
    [told] = tick(board, view(board, x=0.5))
    assert told.gated == 1
    assert told.saturations == 0
    board.command("stop")
    board.command("reset_fault")
    arm(board, *VIRTUAL)
    [told] = tick(board)
    assert (told.gated, told.saturations) == (0, 0)


# Statistics


def test_measurements_that_stay_implausible_stop_the_run(board: LoopBoard) -> None:
    virtually_running(board)
    for _ in range(9):
        tick(board, view(board, x=0.9))
    assert board.state == "running"
    tick(board, view(board, x=0.9))
    assert (board.state, board.reason) == ("stopped", "gated")


def test_innovations_larger_than_the_noise_stop_the_run(board: LoopBoard) -> None:
    """Three standard deviations of noise, all the time."""
    noise = jobs.load(ROOT / "examples" / "suspended_mass.toml").noise
    assert noise is not None
    rng = np.random.default_rng(0)
    virtually_running(board)
    for _ in range(40):
        if board.state == "running":
            tick(board, tuple(view(board) + 3 * noise.measurement * rng.choice([-1, 1], 4)))
    assert (board.state, board.reason) == ("stopped", "innovation")


@pytest.mark.parametrize("variance", [2**31 - 1, 0, -5])
def test_an_estimate_that_is_too_uncertain_stops_the_run(board: LoopBoard, variance: int) -> None:
    virtually_running(board)
    board.core.board_set(16, variance)  # of v_xr; a variance that is not positive is no variance
    tick(board)
    assert (board.state, board.reason) == ("stopped", "covariance")


# Virtual motors and time


def test_real_motors_stay_off_while_virtual_ones_run(board: LoopBoard) -> None:
    virtually_running(board)
    for _ in range(10):
        tick(board)
        board.run(0.01)
        assert board.facts.enabled == 0
        assert not any(board.facts.drives)
    answer = board.encoders(*board.counts)
    assert answer is not None
    assert answer.enabled == 1


def test_virtual_encoders_are_ignored_while_motors_are_real(board: LoopBoard) -> None:
    calibrate(board)
    arm(board)
    positions = list(board.facts.positions)
    assert board.encoders(9999, 9999) is None
    assert positions == list(board.facts.positions)


def test_virtual_motors_in_real_time_are_stopped_by_the_clock(board: LoopBoard) -> None:
    calibrate(board, "virtual_io")
    arm(board, "virtual_io")
    board.measure(START)
    board.command("run")
    board.run(0.21)
    assert board.state == "holding"
    board.run(0.05)
    assert board.state == "stopped"


@pytest.mark.parametrize("uptime", [0, 700, 3000])  # s: before, and after half a turn of the clock
def test_virtual_time_begins_with_the_first_stamp_whatever_the_clock_says(board: LoopBoard, uptime: int) -> None:
    board.core.board_pass(uptime * 1_000_000 % 2**32)
    board.stamp_us = 5
    virtually_running(board)
    for _ in range(2):
        tick(board)
    begin = board.stamp_us - PERIOD  # of the last measurement
    states: list[tuple[int, str]] = []
    while board.state != "stopped":
        board.pass_time(0.002)
        board.encoders(*board.counts)
        if not states or states[-1][1] != board.state:
            states.append((board.stamp_us - begin, board.state))
    assert [state for _, state in states] == ["running", "holding", "stopped"]
    assert states[1][0] == pytest.approx(200_000, abs=2001)
    assert states[2][0] == pytest.approx(250_000, abs=2001)


def test_a_second_session_may_begin_with_smaller_stamps(board: LoopBoard) -> None:
    virtually_running(board)
    for _ in range(10):
        tick(board)
    board.command("stop")
    board.command("reset_fault")
    board.stamp_us, board.counts = 77, [0, 0]
    virtually_running(board)
    told = tick(board)
    assert told[-1].stamp_us < 2_000_000
    board.pass_time(0.5)
    board.encoders(*board.counts)
    assert board.state == "stopped"
    before = board.facts.tick
    board.stamp_us -= 100_000  # never back
    board.encoders(*board.counts)
    assert board.facts.tick == before


def test_the_same_messages_give_the_same_bits_however_long_they_take() -> None:
    told = []
    for pause in (0, 0.4, 3.7):
        board = LoopBoard()
        if pause:
            board.core.board_slow(137, 0)
        virtually_running(board)
        heard = []
        for k in range(25):
            board.run(pause * (k % 3 == 0))
            heard += [*tick(board), board.encoders(*board.counts)]
        told.append([str(_without_times(m)) for m in heard if m is not None])
    assert len(told[0]) == 50
    assert told[0] == told[1] == told[2]


def _without_times(message: Message) -> dict[str, object]:
    return {name: value for name, value in message.fields.items() if name not in ("tick_us", "wait_us")}


def test_the_end_of_the_schedule_is_held(board: LoopBoard) -> None:
    virtually_running(board)
    values = reference("suspended_mass")
    for _ in range(len(values) + 40):
        tick(board)
    assert (board.state, board.facts.at_end) == ("running", 1)
    assert board.facts.tick == len(values) + 40
    held = board.words.decode("command", list(board.facts.applied))
    np.testing.assert_allclose(held, values[-1, 8:10], atol=1e-3)  # the last set-point


# Uploads


def blob(**changes: float) -> bytes:
    """The schedule of the image with other numbers: `jump` adds to the reference of the robot from row 10 on."""
    schedule = unpack((generated("suspended_mass") / "schedule.bin").read_bytes())
    rows = schedule.rows.copy()
    rows[10:, 8] += round(changes.get("jump", 0.0) * 2**30)
    rows[0, 12] += 1
    return type(schedule)(**{**vars(schedule), "rows": rows}).pack()


def test_an_uploaded_schedule_is_used_and_outlives_a_reset(board: LoopBoard) -> None:
    new = blob()
    upload(board.link, new, KEY)
    board.run(0.3)
    name = hashlib.sha256(new).digest()[:8]
    assert bytes(board.heard("HEARTBEAT")[-1].schedule) == name
    assert "another schedule is in use" in {m.text for m in board.heard("LOG")}
    board.start()
    assert board.facts.uploaded == 1
    board.link.ping()
    board.run(0.3)
    beat = board.heard("HEARTBEAT")[-1]
    assert bytes(beat.schedule) == name
    assert beat.flags & dialect.value("STEPMAP_FLAG_UPLOADED")


def test_an_upload_waits_until_the_board_is_idle(board: LoopBoard) -> None:
    calibrate(board)
    arm(board)
    with pytest.raises(LinkError, match=r"while the board is idle\.\nhint: Stop it first"):
        upload(board.link, blob(), KEY)
    assert board.facts.uploaded == 0
    board.command("stop")
    upload(board.link, blob(), KEY)
    assert board.facts.uploaded == 1


def test_a_schedule_of_another_model_is_refused(board: LoopBoard) -> None:
    other = (generated("cart_pendulum") / "schedule.bin").read_bytes()
    with pytest.raises(LinkError, match="made for another model"):
        upload(board.link, other, KEY)
    assert (board.facts.uploaded, board.facts.has_schedule) == (0, 1)


def test_commands_are_limited_in_their_rate(board: LoopBoard) -> None:
    upload(board.link, blob(jump=0.5), KEY)
    virtually_running(board)
    before = np.array(board.facts.applied)
    moved = []
    for _ in range(14):
        tick(board)
        now = np.array(board.facts.applied)
        moved.append(now - before)
        before = now
    step = round(2.0 / 30 * 2**30)  # 2 m/s
    assert max(abs(m[0]) for m in moved) == pytest.approx(step, abs=1)
    assert board.facts.saturated > 0


# Other controllers


def calibrated_cart() -> LoopBoard:
    board = LoopBoard("cart_pendulum")
    assert said(board.command("calibrate", *VIRTUAL))[0] == "ok"
    for _ in range(CALIBRATIONS):
        board.measure((0.0, 0.0))
        board.pass_time(0.02)
    return board


def test_forces_hold_the_start_from_arming_on() -> None:
    """A cart that is pushed aside is pushed back; nothing holds one that is not seen."""
    board = calibrated_cart()
    assert unpack((generated("cart_pendulum") / "schedule.bin").read_bytes()).hold is not None
    arm(board, *VIRTUAL)
    for k in range(60):
        board.measure((min(0.001 * k, 0.03), 0.0))
        answer = board.encoders(0)
        board.pass_time(0.02)
    assert answer is not None
    assert answer.enabled
    [told] = board.ticks()[-1:]
    force = board.words.decode("command", told.command)[0]
    assert force < -0.25  # N
    assert answer.effort[0] == round(5.0 * force)
    assert (told.tick, board.state) == (0, "armed")
    for _ in range(12):
        board.pass_time(0.02)
        answer = board.encoders(0)
    assert answer is not None
    assert (answer.effort[0], answer.enabled) == (0, 0)
    assert (board.state, board.reason) == ("idle", "no measurement")


def test_forces_drive_from_arming_to_the_stop_alone() -> None:
    board, z = calibrated_cart(), (0.0, 0.0)
    arm(board, *VIRTUAL)
    board.measure(z)
    answer = board.encoders(0)
    assert answer is not None
    assert (answer.effort[0], answer.enabled) == (0, 1)
    board.command("run")
    board.pass_time(0.02)
    for k in range(60):
        board.measure(tuple(reference("cart_pendulum")[k, :2]))
        answer = board.encoders(0)
        board.pass_time(0.02)
    assert board.state == "running"
    [told] = board.ticks()[-1:]
    force = board.words.decode("command", told.command)[0]
    assert answer is not None
    assert answer.effort[0] == round(np.clip(5.0 * force, -1000, 1000))
    assert answer.effort[0] != 0
    board.command("stop")
    answer = board.encoders(0)
    assert answer is not None
    assert answer.effort[0] == 0
    board.pass_time(0.02)
    board.measure(z)
    assert board.ticks()[-1].command[0] == 0  # the filter knows that nothing pushes


@pytest.mark.parametrize("name", ["rows", "float32"])
def test_other_forms_of_the_controller_say_the_same(name: str) -> None:
    heard = {}
    for kind in ("suspended_mass", name):
        board = LoopBoard(kind)
        virtually_running(board)
        told = []
        for k in range(30):
            told += tick(board, view(board, all=0.004 * math.sin(1.7 * k)))
        heard[kind] = np.array([board.words.decode("estimate", t.estimate) for t in told])
        assert board.state == "running"
    # float32 has 24 bits of numbers up to 1, in a filter whose sums have some ten terms a tick
    tolerance = 2e-5 if name == "float32" else 1e-12
    np.testing.assert_allclose(heard[name], heard["suspended_mass"], atol=tolerance)


def test_numbers_that_are_none_do_no_harm_in_floating_point() -> None:
    board = LoopBoard("float32")
    board.command("calibrate", *VIRTUAL)
    board.measure((math.nan, math.inf, math.nan, -math.inf))
    assert (board.state, board.reason) == ("idle", "calibration failed")
    virtually_running(board)
    for z in ((math.nan,) * 4, (1e38,) * 4, (-math.inf,) * 4):
        board.measure(z)
        [told] = board.ticks()
        assert told.taken == 0
        assert all(np.isfinite(board.words.decode("estimate", told.estimate)))
        board.pass_time(PERIOD * 1e-6)
    board.core.board_set(7, -1)
    board.measure(START)
    assert board.reason == "covariance"


# Several boards on one line


def test_a_board_hears_what_is_for_it_alone(board: LoopBoard) -> None:
    board.start(system=7)
    for target, answers in ((1, 0), (7, 1)):
        link = Link(board, KEY, board_id=BOARD, target=target)
        link.send("PING", sequence=1)
        found = link.poll("PING")
        assert (found is not None) == bool(answers)
    board.run(2.1)
    link.poll()
    status = link.receive("LINK_STATUS", timeout=1.0)
    assert status is not None
    assert (status.system, status.elsewhere) == (7, 1)


# What a measurement is old by


def test_an_old_measurement_is_stale(board: LoopBoard) -> None:
    calibrate(board)
    arm(board)
    for age, taken in ((0.0, True), (0.09, True), (0.11, False), (5.0, False), (4000.0, False)):
        board.run(PERIOD / 1e6)
        board.ticks()
        before = board.facts.stale
        board.measure(START, age=age)
        assert [m.taken for m in board.ticks() if m.sequence == board.sequence] == ([15] if taken else [])
        assert board.facts.stale == before + (not taken)


@pytest.mark.parametrize("age", [0.0, 0.08])
def test_the_robot_stops_so_long_after_it_was_last_seen(board: LoopBoard, age: float) -> None:
    """Not after the last message: what was seen 80 ms before that says nothing about the time since."""
    calibrate(board)
    arm(board)
    board.measure(START, age=age)
    board.run(PERIOD / 1e6)
    assert said(board.command("run"))[0] == "ok"
    for _ in range(2):
        board.measure(START, age=age)
        board.run(PERIOD / 1e6)
    seen = board.core.board_clock() - PERIOD - round(1e6 * age)
    while board.state in ("running", "holding"):
        board.turn()
    assert (board.core.board_clock() - seen) / 1e6 == pytest.approx(0.25, abs=0.005)
    assert board.reason == "hold expired"


# Hosts that come and go


@pytest.mark.parametrize("calibrated", [False, True])
def test_a_board_left_in_the_time_of_messages_comes_back(board: LoopBoard, calibrated: bool) -> None:
    if calibrated:
        virtually_running(board)
    else:
        board.command("calibrate", *VIRTUAL)
    state = board.state
    board.run(29.0)
    assert board.state == state  # a host may think
    board.run(3.0)
    assert (board.state, board.reason) == ("stopped" if calibrated else "idle", "link lost")


def test_uptime_goes_on_when_the_clock_begins_again(board: LoopBoard) -> None:
    told = []
    for _ in range(6):
        board.core.board_pass(1_000_000_000)  # a quarter of a turn
        told.append(beat(board).uptime_ms)
    assert all(later - earlier == pytest.approx(1_000_000, abs=500) for earlier, later in itertools.pairwise(told))


def test_a_command_that_is_repeated_after_another_host_s_stop_is_not_carried_out(board: LoopBoard) -> None:
    calibrate(board)
    other = Link(board, KEY, board_id=BOARD, system=254)
    arm_code, stop_code = (dialect.value(f"STEPMAP_COMMAND_{name}") for name in ("ARM", "STOP"))
    board.link.send("COMMAND", token=77, command=arm_code)
    assert board.state == "armed"
    other.send("COMMAND", token=5, command=stop_code)
    assert board.state == "idle"
    board.link.send("COMMAND", token=77, command=arm_code)
    assert board.state == "idle"


def test_hosts_that_announce_an_upload_and_end_do_not_fill_the_journal(board: LoopBoard) -> None:
    """Each keeps a record: a journal has room for 21, and time to erase it comes five times a second."""
    blob = (generated("suspended_mass") / "schedule.bin").read_bytes()
    made = unpack(blob)
    other = replace(made, rows=made.rows[:10]).pack()
    board.link.connect()
    begin = board.core.board_clock()

    def end(done: int, total: int) -> None:
        raise KeyboardInterrupt

    for _ in range(50):
        with pytest.raises(KeyboardInterrupt):
            upload(Link(board, KEY, board_id=BOARD), other, KEY, progress=end)
    assert board.core.board_clock() - begin < 1_000_000
    upload(Link(board, KEY, board_id=BOARD), other, KEY)
    assert board.facts.uploaded == 1
