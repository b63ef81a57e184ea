"""A model too large for the usual messages on the firmware's loop: each tick has a whole measurement, or none."""

from __future__ import annotations

import random

import pytest

from stepmap_codegen.emit.schedule import unpack
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.upload import upload
from tests.firmware.loop_board import BOARD, KEY, OTHER_KEY, VIRTUAL, LoopBoard, generated
from tests.firmware.loop_kit import CALIBRATIONS, said

PAIRS = 9
START = (0.0,) * 2 * PAIRS
WIDE = ("WIDE_MEASUREMENT", "WIDE_VIRTUAL_ENCODER")


@pytest.fixture
def board() -> LoopBoard:
    return LoopBoard("many")


def running(board: LoopBoard) -> None:
    assert said(board.command("calibrate", *VIRTUAL))[0] == "ok"
    for _ in range(CALIBRATIONS):
        board.encoders(*board.counts)
        board.measure(START)
        board.pass_time(0.02)
    assert board.reason == "calibrated"
    assert said(board.command("arm", *VIRTUAL))[0] == "ok"
    tick(board)
    assert said(board.command("run"))[0] == "ok"


def tick(board: LoopBoard, valid: int | None = None, z: tuple[float, ...] = START) -> list[Message]:
    """A measurement, and a period in which nothing moves."""
    board.measure(z, valid)
    told = board.ticks()
    for _ in range(4):
        board.pass_time(1 / 120)
        answer = board.encoders(*board.counts)
        assert answer is not None
        assert len(answer.effort) >= PAIRS
    return told


def frame(name: str, board: LoopBoard, **fields: object) -> bytes:
    """One with the key and a timestamp above all before."""
    board.link._timestamp += 1
    message = Message(name, {"target_system": 1, **fields}, system=255, component=1)
    return dialect.encode(message, 0, key=KEY.of_board(BOARD).link, timestamp=board.link._timestamp)


def test_all_of_it_goes_there_and_back(board: LoopBoard) -> None:
    board.link.connect()
    running(board)
    [told] = tick(board, valid=1 << 17)
    assert told.taken == 1 << 17
    gated = 1 << 16
    z = list(unpack((generated("many") / "schedule.bin").read_bytes()).values()[1, : 2 * PAIRS])
    z[15] += 0.0015
    z[16] = 0.9  # out of the question
    [told] = tick(board, z=tuple(z))
    assert told.name == "TELEMETRY"
    assert told.taken == (1 << 18) - 1 - gated
    assert (len(told.estimate), len(told.innovation), len(told.command)) == (36, 18, 9)
    innovation = board.words.decode("innovation", told.innovation)
    assert innovation[16] == 0.0
    assert innovation[15] == pytest.approx(0.0015, abs=0.0002)


def test_alarms_of_every_encoder_have_a_bit(board: LoopBoard) -> None:
    """Lost edges of the ninth, which the usual message has no room for."""
    board.link.connect()
    running(board)
    bit = dialect.value("STEPMAP_ALARM_ENCODER") << (PAIRS - 1)
    for _ in range(12):
        board.pass_time(1 / 120)
        board.link.send("VIRTUAL_ENCODER", stamp_us=board.stamp_us, counts=board.counts, alarms=bit)
    assert (board.state, board.reason) == ("fault", "motor encoder")


def test_the_usual_measurement_is_no_part_of_one(board: LoopBoard) -> None:
    """Twelve values of eighteen: neither a tick, nor a thing that a later message could complete."""
    board.link.connect()
    running(board)
    before = board.facts
    for name, array, length in (("MEASUREMENT", "z", 12), ("VIRTUAL_ENCODER", "counts", 8)):
        stamp = {"stamp_us": board.stamp_us + 40_000}
        more = {"sequence": board.sequence + 1, "valid": 4095} if name == "MEASUREMENT" else {}
        board.write(frame(name, board, **stamp, **more, **{array: [2**20] * length}))
    after = board.facts
    assert (after.tick, after.accepted, list(after.positions)) == (before.tick, before.accepted, list(before.positions))
    assert board.ticks() == []
    assert len(tick(board)) == 1


@pytest.mark.parametrize("name", WIDE)
def test_wide_messages_are_refused_like_all_others(board: LoopBoard, name: str) -> None:
    board.link.connect()
    running(board)
    fields = {"stamp_us": board.stamp_us, "target_system": 1}
    fields |= {"sequence": board.sequence + 1, "valid": 4095} if name == "WIDE_MEASUREMENT" else {}
    heard = Message(name, fields, system=255, component=1)
    before = (board.facts.tick, board.facts.forged)
    forged = dialect.encode(heard, 0, key=OTHER_KEY.of_board(BOARD).link, timestamp=board.link._timestamp + 10)
    board.write(dialect.encode(heard, 0))
    board.write(forged)
    assert (board.facts.tick, board.facts.forged) == (before[0], before[1] + 1)
    whole = frame(name, board, **fields)
    for cut in range(1, len(whole), 7):
        board.write(whole[:cut])  # the rest never comes, and nothing waits for it
    assert board.facts.tick == before[0]
    assert board.ticks() == []
    if name == "WIDE_MEASUREMENT":
        for _ in range(2):  # the second is a recording
            board.write(whole)
        assert len(board.ticks()) == 1
        board.sequence += 1
        board.pass_time(1 / 30)
    assert len(tick(board)) == 1


def test_whatever_they_say_the_board_goes_on(board: LoopBoard) -> None:
    """Three hundred signed frames of chance; the library stops at any undefined behaviour."""
    board.link.connect()
    running(board)
    chance = random.Random(1)
    for _ in range(300):
        name = chance.choice(WIDE)
        room = dialect.lengths(name)
        arrays = {array: [chance.randint(-(2**31), 2**31 - 1) for _ in range(most)] for array, most in room.items()}
        numbers = {"stamp_us": chance.getrandbits(32)}
        if name == "WIDE_MEASUREMENT":
            numbers |= {one: chance.getrandbits(32) for one in ("sequence", "age_us", "valid")}
        board.write(frame(name, board, **numbers, **{k: v[: chance.randint(0, len(v))] for k, v in arrays.items()}))
    assert board.facts.starved == 0
    board.command("stop")
    assert board.state in ("stopped", "fault")


@pytest.mark.parametrize("jump", [2**31 - 1, 2**31, 2**32 - 1_000_000])
def test_time_that_jumps_moves_nothing(board: LoopBoard, jump: int) -> None:
    """By 36 minutes ahead or back, or a second back: the robot stands, or goes on."""
    board.link.connect()
    running(board)
    board.stamp_us = (board.stamp_us + jump) % 2**32
    answer = board.encoders(*board.counts)
    assert answer is not None
    assert set(answer.effort) == {0}
    assert board.state in ("running", "holding", "stopped")
    assert said(board.command("stop"))[0] == "ok"


def test_every_encoder_at_its_end_and_every_alarm_at_once(board: LoopBoard) -> None:
    board.link.connect()
    running(board)
    answer = board.encoders(*[2**31 - 1] * PAIRS)
    assert answer is not None
    assert (answer.enabled, set(answer.effort), board.reason) == (0, {0}, "motor encoder")
    assert said(board.command("reset_fault"))[0] == "ok"
    board.encoders(*board.counts, alarms=2**32 - 1)
    assert (board.state, board.reason) == ("fault", "supply")
    board.encoders(*board.counts)
    assert board.state == "fault"  # until it is reset, however short it was
    assert said(board.command("run"))[0] == "state"


def test_a_part_that_the_line_does_not_take_costs_its_tick(board: LoopBoard) -> None:
    board.link.connect()
    running(board)
    waiting = bytes(board._out)
    board.measure(START)
    sent = bytes(board._out)[len(waiting) :]
    parts = list(dialect.Framer().feed(sent))
    wide = [one for one in parts if dialect.decode(one).name == "WIDE_TELEMETRY"]
    assert [dialect.decode(one).part for one in wide] == [0, 1]
    board._out = bytearray(b"".join(one for one in parts if one is not wide[1]))
    assert board.ticks() == []
    for _ in range(4):
        board.pass_time(1 / 120)
        board.encoders(*board.counts)
    assert len(tick(board)) == 1


def test_a_schedule_as_large_as_the_model_goes_up(board: LoopBoard) -> None:
    board.link.connect()
    image = (generated("many") / "schedule.bin").read_bytes()
    assert upload(board.link, image, KEY).size == len(image)
    assert board.facts.uploaded == 1
    running(board)
