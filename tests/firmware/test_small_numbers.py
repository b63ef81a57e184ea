"""Counters, ends of ranges and single microseconds of the supervisor and of the motor loop."""

from __future__ import annotations

import pytest

from tests.firmware.test_motor import TRAVEL, Axis, M, config, core
from tests.firmware.test_supervisor import STATES, Supervisor, defaults

POSITION_MAX = 1 << 30  # Q8 counts
SPEED_MAX = 1 << 22


# Supervisor


def test_the_state_before_keeps_its_reason() -> None:
    board = Supervisor()
    board.send("booted")
    board.send("calibrate")
    assert (STATES[board.s.previous], board.s.previous_reason) == ("idle", 1)
    board.send("stop")
    assert (STATES[board.s.previous], board.s.previous_reason) == ("calibrating", 3)


@pytest.mark.parametrize("window", [0, 3, 8])
def test_the_filter_counts_as_consistent_before_it_said_anything(window: int) -> None:
    board = Supervisor(config=defaults(nis_window=window))
    assert board.s.nis_sum == 256 << window


def test_late_motor_steps_are_counted() -> None:
    board = Supervisor()
    board.send("booted")
    for number in range(1, 4):
        board.send("motor_late", after=1000)
        assert board.s.motors_late == number


@pytest.mark.parametrize("age", [0, 1, 2, 1000])
def test_a_measurement_is_as_old_as_its_stamp_says(age: int) -> None:
    board = Supervisor()
    board.send("booted")
    board.measure(after=5000, age=age)
    assert board.s.valid_us == 5000 - age


def test_one_from_the_future_counts_as_of_now() -> None:
    board = Supervisor()
    board.send("booted")
    board.measure(after=5000, age=-700)
    assert board.s.valid_us == 5000


def test_a_microsecond_later_is_later_and_earlier_is_not() -> None:
    board = Supervisor()
    board.send("booted")
    for after, age, valid in ((5000, 0, 5000), (10, 9, 5001), (10, 30, 5001)):
        board.measure(after=after, age=age)
        assert board.s.valid_us == valid


# Motor loop


@pytest.mark.parametrize("position", [-(2**31), -POSITION_MAX - 1, -5, 0, 7, POSITION_MAX + 1, 2**31 - 1])
def test_a_start_outside_of_the_range_is_its_end(position: int) -> None:
    motor = M.sm_motor()
    core().sm_motor_start(motor, 0, position)
    inside = max(-POSITION_MAX, min(POSITION_MAX, position))
    assert (motor.position, motor.target, motor.command) == (inside, inside, inside)


def test_whoever_holds_holds_where_it_is() -> None:
    motor = M.sm_motor()
    core().sm_motor_start(motor, 0, 1000)
    motor.position = 7000
    core().sm_motor_hold(motor)
    assert (motor.target, motor.command) == (7000, 7000)
    motor.mode, motor.position = M.sm_motor_mode.SM_MOTOR_OFF, POSITION_MAX
    core().sm_motor_hold(motor)
    assert (motor.target, motor.command) == (TRAVEL, TRAVEL)


def test_off_and_new_motions_begin_without_acceleration() -> None:
    axis = Axis()
    axis.hold()
    axis.command(10)
    axis.step()
    axis.brake(20_000)
    assert axis.m.acceleration != 0
    axis.command(20)
    assert axis.m.acceleration == 0
    axis.brake(20_000)
    core().sm_motor_off(axis.m)
    assert (axis.m.acceleration, axis.m.target_slope, axis.m.effort) == (0, 0, 0)


def test_braking_at_once_divides_by_nothing_else() -> None:
    axis = Axis()
    axis.hold()
    axis.command(100)
    axis.brake(0)
    assert axis.m.inverse_length == 2**31 - 1


def test_a_brake_that_is_over_stands_without_acceleration() -> None:
    axis = Axis()
    axis.hold()
    axis.command(100)
    axis.step()
    axis.brake(3000)
    axis.step()
    assert axis.m.acceleration != 0
    for _ in range(5):
        axis.step()
    assert (axis.m.target, axis.m.target_slope, axis.m.acceleration) == (axis.m.command, 0, 0)


def test_a_target_at_the_end_of_its_range_stands() -> None:
    axis = Axis(config(high=256))
    axis.hold()
    axis.m.mode, axis.m.slope, axis.m.length_us = M.sm_motor_mode.SM_MOTOR_LINE, 1 << 20, 10_000
    for _ in range(5):
        axis.step()
    assert (axis.m.target, axis.m.target_slope, axis.m.acceleration) == (256, 0, 0)


@pytest.mark.parametrize("way", [-1, 1])
def test_an_encoder_that_jumps_means_a_bounded_speed(way: int) -> None:
    motor = M.sm_motor()
    core().sm_motor_start(motor, 0, 0)
    made = config(speed_filter=0)
    core().sm_motor_step(motor, made, way * (2**31 - 1), 1)
    assert abs(motor.speed_sum) <= SPEED_MAX
    assert (motor.speed_sum > 0) == (way > 0)


def test_limited_steps_are_counted_one_by_one() -> None:
    axis = Axis(config(effort_limit=1), stuck=True)
    axis.hold()
    axis.command(400)
    before = axis.m.limited_steps
    for number in range(1, 6):
        axis.step()
        assert axis.m.limited_steps == before + number
