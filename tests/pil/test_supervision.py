"""The supervisor at work in the running firmware: silence, stops, ends and resets, in the time of messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stepmap.errors import LinkError
from stepmap_hil.boards import NativeBoard, QemuBoard
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link
from tests.pil.built import KEY, board, solution
from tests.pil.robot import Robot, recorded, words
from tests.processes import PATIENCE


@pytest.fixture(params=["native", "stm32f100"])
def running(request: pytest.FixtureRequest) -> Iterator[tuple[NativeBoard | QemuBoard, Robot]]:
    """A run of ten ticks so far."""
    with board(request.param) as it:
        robot = Robot(it)
        robot.prepare()
        robot.session.run()
        for measured in recorded(10):
            robot.tick(measured)
        yield it, robot


def states(told: list[Message]) -> list[str]:
    """States in their order, each once."""
    names = [dialect.word("STEPMAP_STATE", t.state) for t in told]
    return [name for k, name in enumerate(names) if k == 0 or names[k - 1] != name]


def test_silence_holds_then_stops_and_a_stop_keeps_its_place(running: tuple[NativeBoard, Robot]) -> None:
    _, robot = running
    begin = robot.session.stamp_us  # a period after the last measurement
    told: list[Message] = []
    for _ in range(9):
        robot.move(robot.counts)
        told += robot.session.ticks()
    assert states(told) == ["running", "holding", "stopped"]
    period = words().period * 1e6
    for t in told:  # each tick is due a period after the last, and done half a period later at the latest
        age = t.stamp_us - begin + period
        expected = "running" if age < 200_000 else "holding" if age < 250_000 else "stopped"
        assert dialect.word("STEPMAP_STATE", t.state) == expected
    assert robot.enabled  # motors that are off do not hold a load
    assert len({t.command for t in told if t.state != dialect.value("STEPMAP_STATE_RUNNING")}) == 1
    with pytest.raises(LinkError, match=r"(?s)refused to run while stopped.*reset, calibrate, arm, run"):
        robot.session.run()


def test_a_measurement_in_time_goes_on(running: tuple[NativeBoard, Robot]) -> None:
    _, robot = running
    for _ in range(5):
        robot.move(robot.counts)
    robot.session.pass_time(0.01)
    robot.session.encoders(robot.counts)
    assert robot.state() == "holding"
    *_, back = robot.session.tick(*recorded(20)[17])
    assert dialect.word("STEPMAP_STATE", back.state) == "running"
    assert dialect.word("STEPMAP_REASON", back.reason) == "measurement back"


def test_a_stop_stops(running: tuple[NativeBoard, Robot]) -> None:
    _, robot = running
    robot.session.stop()
    assert robot.state() == "stopped"
    frozen = robot.tick(recorded(20)[10], follow=False)
    later = robot.tick(recorded(20)[11], follow=False)
    assert frozen.command == later.command
    robot.link.command("reset_fault")
    assert robot.state() == "idle"
    robot.move(robot.counts)
    assert not robot.enabled


def test_after_a_reset_nothing_moves_before_calibration_and_arming(
    running: tuple[NativeBoard | QemuBoard, Robot],
) -> None:
    it, _ = running
    it.reset()
    link = Link(it.open(), KEY)
    beat = link.connect(timeout=20.0)
    assert dialect.word("STEPMAP_STATE", beat.state) == "idle"
    assert not beat.flags & dialect.value("STEPMAP_FLAG_CALIBRATED")
    for command, why in (("run", "not possible in this state"), ("arm", "the encoders have no zero.*calibrate first")):
        with pytest.raises(LinkError, match=f"(?is)refused to {command} while idle.*{why}"):
            link.command(command, timeout=5.0)
    again = Robot(it)
    again.prepare()
    again.session.run()
    assert again.state() == "running"


def test_who_does_not_sign_moves_nothing(running: tuple[NativeBoard, Robot]) -> None:
    _, robot = running
    stranger = Link(robot.board.open(), None)
    assert stranger.receive("HEARTBEAT", timeout=PATIENCE) is not None  # it hears the board, whatever comes
    before = robot.session.state()
    for command in ("stop", "reset_fault", "restart"):
        with pytest.raises(LinkError, match="may want signed messages"):
            stranger.command(command, timeout=0.3)
    after = robot.session.state()
    assert (after.state, after.reason) == (before.state, before.reason)
    assert after.uptime_ms > before.uptime_ms


def test_the_end_of_the_schedule_is_held() -> None:
    rows = len(solution()[1].schedule.rows)
    with board("native") as it:
        robot = Robot(it)
        robot.prepare()
        robot.session.run()
        told = [robot.tick(measured) for measured in recorded(rows + 30)]
        assert states(told) == ["running"]
        assert robot.session.state().tick == rows + 30
    last = words().decode("command", told[-1].command)
    reference = solution()[1].schedule.values()[-1, 8:10]
    assert abs(last - reference).max() < 0.02  # measurements are noisy, the set-point is the last one's
