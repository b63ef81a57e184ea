"""Loops of other robots, bit for bit as their integer models: set-points that stream, steps that land, own encoders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from stepmap.arrays import Array
from stepmap.estimate.measurement import measurement_model
from stepmap_codegen import Role
from stepmap_codegen.reference_loop import CONTACT_BIT, ReferenceLoop
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from tests.firmware.loop_board import VIRTUAL, LoopBoard
from tests.firmware.loop_kinds import controller
from tests.firmware.loop_kit import CALIBRATIONS, arm, said

EVERYTHING = 0xFFFF  # bits of `valid`, as a host may set them that does not know how many channels there are


class Robot:
    """A board in the time of messages, with forces alone: what it sees and says, tick by tick."""

    def __init__(self, name: str) -> None:
        self.made, self.board = controller(name), LoopBoard(name)
        self.channels = len(self.made.program.of(Role.MEASUREMENT))
        self.period_us = round(1e6 * self.made.program.period)
        self.plan: Array = self.made.schedule.values()[:, : self.made.plant.step.nx]
        self.set_points = 0

    def seen(self, x: Array) -> list[int]:
        """What sensors tell of a state, as raw values."""
        return self.board.words.encode("measurement", measurement_model(self.made.plant.step).readings(x))

    def measure(self, raw: Sequence[int], valid: int) -> None:
        board = self.board
        board.sequence += 1
        board.link.send("MEASUREMENT", z=raw, valid=valid, stamp_us=board.stamp_us, sequence=board.sequence, age_us=0)

    def ready(self) -> None:
        """Armed, with motors and time of messages."""
        board = self.board
        assert said(board.command("calibrate", *VIRTUAL))[0] == "ok"
        for _ in range(CALIBRATIONS):
            self.measure(self.seen(self.plan[0]), EVERYTHING & ~(1 << CONTACT_BIT))
            board.stamp_us += self.period_us
        assert board.reason == "calibrated"
        arm(board, *VIRTUAL)

    def send(self, words: Sequence[int]) -> None:
        """A set-point, as raw words."""
        self.set_points += 1
        self.board.link.send("SET_POINT", values=list(words), sequence=self.set_points)

    def tick(self, raw: Sequence[int], valid: int = EVERYTHING & ~(1 << CONTACT_BIT)) -> Message:
        """What the board says of a measurement, a period after the one before; motors answer in between."""
        board = self.board
        board.stamp_us += self.period_us
        board.encoders(*[0] * self.channels)
        self.measure(raw, valid)
        [told] = board.ticks()
        return told


class Twin(Robot):
    """The same, and its integer model, which must say the same."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.model = ReferenceLoop(self.made)

    def both(self, raw: Sequence[int], valid: int | None = None, **modelled: object) -> Message:
        """A tick of both; ``modelled`` are arguments of the model."""
        valid = (1 << self.channels) - 1 if valid is None else valid
        running = self.board.state in ("running", "holding")
        allowed = {"follow": self.board.state == "running", "running": running, "hold": self.board.state == "armed"}
        told = self.tick(raw, valid)
        estimate, command, accepted = self.model.step(valid, raw, **{**allowed, **modelled})  # type: ignore[arg-type]
        assert (list(told.estimate), list(told.command), told.taken) == (estimate, command, accepted)
        return told


def noisy(twin: Robot, k: int, rng: np.random.Generator, spread: float = 1.0) -> list[int]:
    """What sensors tell of the plan at tick k, with their noise."""
    x = twin.plan[min(k, len(twin.plan) - 1)]
    off = spread * np.sqrt(twin.made.plant.noise.measurement) * rng.standard_normal(twin.channels)
    return twin.board.words.encode("measurement", measurement_model(twin.made.plant.step).readings(x) + off)


# Set-points that stream


def streams(name: str) -> Twin:
    twin = Twin(name)
    rng = np.random.default_rng(1)
    twin.ready()
    for _ in range(3):
        twin.both(noisy(twin, 0, rng))
    assert said(twin.board.command("run"))[0] == "ok"
    return twin


@pytest.mark.parametrize("name", ["stream", "stream_late"])
def test_set_points_are_followed_from_the_end_of_the_schedule_as_the_model_does(name: str) -> None:
    """Before it, after it, at limits, and without any for longer than the board waits."""
    twin, rng = streams(name), np.random.default_rng(2)
    hold, bits = 10, twin.made.formats.fields[twin.made.program.of(Role.SCHEDULE)[0]]  # ticks of 0.2 s
    moments = {5: 0.2, 30: -0.9, 58: -0.1, 70: 0.25, 75: 0.9, 80: 0.3, 130: -0.2, 141: 0.0, 150: 0.05}  # m by tick
    silent, states = hold + 1, []
    for k in range(190):
        point = moments.get(k)
        told = None if point is None else [round(point * 2.0**bits)]
        if told is not None:
            twin.send(told)
        silent = 0 if told is not None else silent
        twin.both(noisy(twin, k, rng), set_point=told, lost=silent >= hold)  # it came in the period before
        silent += 1
        [status] = twin.board.heard("SET_POINT_STATUS")
        follower = twin.model.follower
        assert follower is not None
        assert (status.value[0], status.next[0]) == (follower.value[0], follower.next[0])
        assert (status.tick, status.sequence) == (k, sum(at <= k for at in moments))
        states.append(dialect.word("STEPMAP_STREAM", status.state))
    over = len(twin.plan) - 1 - (2 if name == "stream_late" else 0)
    assert states[: over - 1] == ["waiting"] * (over - 1)
    assert set(states[over:69]) == {"following", "holding"}
    assert states[80:90] == ["following"] * 10
    assert states[90:130] == ["holding"] * 40


def test_set_points_mean_nothing_before_a_run_and_none_come_while_motors_stand() -> None:
    twin, rng = streams("stream"), np.random.default_rng(3)
    assert twin.board.heard("SET_POINT_STATUS") == []
    for k in range(70):
        twin.both(noisy(twin, k, rng), lost=True)
    assert said(twin.board.command("stop"))[0] == "ok"
    [last] = twin.board.heard("SET_POINT_STATUS")[-1:]
    twin.send([last.value[0] + 2**20])
    for k in range(3):
        twin.tick(noisy(twin, k, rng))
    for status in twin.board.heard("SET_POINT_STATUS"):
        assert status.value[0] == last.value[0]


# Steps that land


def walks(name: str) -> Robot:
    robot = Twin(name) if controller(name).formats is not None else Robot(name)
    robot.ready()
    for _ in range(3):
        raw = [*noisy(robot, 0, np.random.default_rng(1), 3.0), 0]
        _ = robot.both(raw) if isinstance(robot, Twin) else robot.tick(raw)
    assert said(robot.board.command("run"))[0] == "ok"
    return robot


CONTACT = 1 << CONTACT_BIT
LANDINGS = [40, 79, 121, 126, 139, 161, 163]  # ticks: on time, early, late, and three that are none


def walked(robot: Robot, ticks: int) -> list[tuple[Message, int | None]]:
    """What it says, with its row, along steps that land as LANDINGS says."""
    rng, at, found = np.random.default_rng(4), 0, []
    age_word = robot.board.words.contact_age
    assert age_word is not None
    half = (controller("walk").schedule.gait) // 2
    for k in range(ticks):
        lands = k in LANDINGS
        at = 0 if lands and at >= half else at + (k > 0)
        raw = [*noisy(robot, at, rng), age_word(0.4 * robot.period_us * 1e-6 if lands else 0.0)]
        valid = (1 << robot.channels) - 1 | CONTACT * lands
        told = robot.both(raw, valid) if isinstance(robot, Twin) else robot.tick(raw, valid)
        found.append((told, robot.board.words.row_of(told.modes)))
    return found


def test_steps_land_on_time_early_and_late_as_the_model_s_do() -> None:
    robot = walks("walk")
    rows = [row for _, row in walked(robot, 170)]
    assert isinstance(robot, Twin)
    assert [k for k in range(1, 170) if rows[k] < rows[k - 1] - 10] == [40, 79, 121, 161]
    assert max(rows[:40]) == 39
    assert max(rows[79:121]) > controller("walk").schedule.gait
    assert robot.board.state == "running"


def test_a_robot_that_does_not_land_is_stopped() -> None:
    robot = walks("walk")
    rows = len(robot.plan)
    for k in range(rows + 3):
        assert isinstance(robot, Twin)
        robot.both([*robot.seen(robot.plan[min(k, rows - 1)]), 0])
        if robot.board.state != "running":
            break
    assert (robot.board.state, robot.board.reason) == ("stopped", "no landing")
    assert k == rows - 1


# The same in floating point


def test_steps_in_floating_point_are_those_in_fixed_point() -> None:
    told = {name: walked(walks(name), 130) for name in ("walk", "walk_float32")}
    rows = {name: [row for _, row in found] for name, found in told.items()}
    assert rows["walk"] == rows["walk_float32"]
    words = {name: LoopBoard(name).words for name in told}
    x = {name: [words[name].decode("estimate", said.estimate) for said, _ in found] for name, found in told.items()}
    np.testing.assert_allclose(x["walk"], x["walk_float32"], atol=1e-4)


def test_set_points_in_floating_point_are_followed_as_in_fixed_point() -> None:
    found = {}
    for name in ("stream", "stream_float32"):
        robot, rng, values = Robot(name), np.random.default_rng(5), []
        robot.ready()
        robot.tick(robot.seen(robot.plan[0]))
        assert said(robot.board.command("run"))[0] == "ok"
        words = robot.board.words
        for k in range(120):
            if k % 5 == 0:
                robot.send(words.encode("set_point", [0.2 if k < 90 else -0.3]))
            told = robot.tick(noisy(robot, k, rng, 0.1))
            [status] = robot.board.heard("SET_POINT_STATUS")
            values.append((words.decode("set_point", status.value[:1])[0], words.decode("command", told.command)[0]))
        found[name] = np.array(values).T
    for fixed, floating, rounding in zip(found["stream"], found["stream_float32"], (2e-6, 1e-3), strict=True):
        np.testing.assert_allclose(fixed, floating, atol=rounding)  # m and N
        assert np.ptp(fixed) > 0.05


# Encoders of the board's own


@pytest.mark.parametrize("name", ["encoders", "encoders_float32"])
def test_a_board_measures_with_its_own_encoders(name: str) -> None:
    board, made = LoopBoard(name), controller(name)
    period_us = round(1e6 * made.program.period)
    zero = [1000, -(2**31) + 5]  # counts wrap

    def turn(*moved: int) -> Message | None:
        board.stamp_us += period_us
        return board.encoders(*((z + m + 2**31) % 2**32 - 2**31 for z, m in zip(zero, moved, strict=True)))

    assert said(board.command("calibrate", *VIRTUAL))[0] == "ok"
    for k in range(60):
        turn(k % 3, -(k % 5))
    assert board.reason == "calibrated"
    arm(board, *VIRTUAL)
    turn(0, 0)
    board.heard("MEASUREMENT", "TELEMETRY")
    model = ReferenceLoop(made) if made.formats is not None else None
    for k in range(25):
        turn(7 * k, -11 * k)
        [measured] = board.heard("MEASUREMENT")
        [told] = board.ticks()
        z = board.words.decode("measurement", measured.z[:2])
        np.testing.assert_allclose(z, [7 * k / 20000.0, -11 * k * 2 * np.pi / 16384], atol=1e-6)
        if model is not None:
            raw = [one.raw(m) for one, m in zip(made.encoder_formats(), (7 * k, -11 * k), strict=True)]
            assert list(measured.z[:2]) == raw
        assert told.taken in (0, 1, 2, 3)
    board.heard("MEASUREMENT")
    board.measure([0.0, 0.0])
    assert board.facts.stale == 1  # the board's own are all it takes
    assert board.ticks() == []
