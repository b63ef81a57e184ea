"""The motor loop against a DC motor with an encoder: tracking, latency, limits, faults, and rest within 250 ms."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.firmware import native_core
from tests.firmware.test_supervisor import MOTIONS, MS, reach

M = native_core.types("sm_motor.h")
PERIOD = 33_333  # µs between commands
TRAVEL = 1 << 29
GAIN = 0.06  # speed of the motor [counts/ms] per per mille of effort: 60 000 counts/s at full effort
LAG = 30.0  # ms, its mechanical time constant


def core() -> ctypes.CDLL:
    loaded = native_core.library("sm_motor.c", "sm_supervisor.c")
    motor, config = ctypes.POINTER(M.sm_motor), ctypes.POINTER(M.sm_motor_config)
    loaded.sm_motor_start.argtypes = [motor, ctypes.c_int32, ctypes.c_int32]
    for name in ("off", "reset", "hold"):
        getattr(loaded, f"sm_motor_{name}").argtypes = [motor]
    loaded.sm_motor_command.argtypes = [motor, config, ctypes.c_int32, ctypes.c_int32]
    loaded.sm_motor_brake.argtypes = [motor, config, ctypes.c_uint32]
    loaded.sm_motor_step.argtypes = [motor, config, ctypes.c_int32, ctypes.c_uint32]
    return loaded


# Both poles of the position loop at 0.08 rad/ms, integral over 80 ms; per mille, counts and ms.
KP = 0.08**2 * LAG / GAIN
KD = (2 * 0.08 * LAG - 1) / GAIN
KV = KD + 1 / GAIN
KI = KP / 80
KA = LAG / GAIN - 4 * KD  # the mean speed is 3 ms late, its difference half a ms, the effort half a ms


def config(**changes: int) -> Any:
    """The gains above in the units of the C: Q8 counts, 1024 µs, 2^-17."""
    unit = 2**17 / 256
    values = {
        "period_us": PERIOD,
        "extrapolate_us": 20 * MS,
        "low": -TRAVEL,
        "high": TRAVEL,
        "kp": round(KP * unit),
        "ki": round(KI * unit * 1.024),
        "kd": round(KD * unit / 1.024),
        "kv": round(KV * unit / 1.024),
        "ka": round(KA * unit / 16 / 1.024**2),
        "shift": 17,
        "speed_filter": 2,
        "anti_windup": 16,
        "integral_limit": 1000,
        "effort_limit": 1000,
        "slew_limit": 200,
        "following_limit": 500 * 256,
        "following_time_us": 50 * MS,
        "speed_limit": 200,
    }
    return M.sm_motor_config(**(values | changes))


def wrapped(counts: int) -> int:
    return (counts + 2**31) % 2**32 - 2**31


@dataclass
class Axis:
    """The C loop around lag dv/dt = gain · effort + load − v − friction · sign v, with an encoder of whole counts."""

    c: Any = field(default_factory=config)
    origin: int = 0  # what the encoder shows at 0
    load: float = 0.0  # counts/ms
    friction: float = 0.0  # counts/ms
    stuck: bool = False
    position: float = 0.0
    speed: float = 0.0
    m: Any = field(default_factory=M.sm_motor)

    def __post_init__(self) -> None:
        self.core = core()
        self.core.sm_motor_start(self.m, self.encoder(), math.floor(self.position) * 256)

    def encoder(self) -> int:
        return wrapped(math.floor(self.position) + self.origin)

    def hold(self) -> None:
        self.core.sm_motor_hold(self.m)

    def command(self, counts: float, late_us: int = 0) -> None:
        self.core.sm_motor_command(self.m, self.c, round(counts * 256), late_us)

    def brake(self, time_us: int) -> None:
        self.core.sm_motor_brake(self.m, self.c, time_us)

    def step(self, ms: int = 1) -> int:
        """The motor turns for that long, then the loop acts; its effort."""
        for _ in range(10):
            before, force = self.speed, GAIN * self.m.effort + self.load - self.speed
            force -= math.copysign(self.friction if before else min(abs(force), self.friction), before or force)
            after = before + ms / 10 * force / LAG
            self.speed = 0.0 if self.stuck or before * after < 0 else after
            self.position += ms / 10 * self.speed
        effort: int = self.core.sm_motor_step(self.m, self.c, self.encoder(), 1000 * ms)
        return effort

    @property
    def target(self) -> float:
        return float(self.m.target) / 256


def follow(axis: Axis, path: Callable[[float], float], ms: int, late: int = 0, tell: bool = True) -> np.ndarray:
    """Rows of (wanted, target, position, effort), one a ms. The command for the end of a period comes `late` ms after
    its begin, rounded up to whole ms; the loop is told how late unless it is not to know."""
    axis.hold()
    rows, due = [], 0.0
    for t in range(ms):
        rows.append((path(t), axis.target, axis.position, axis.m.effort))
        if t >= due + late:
            axis.command(path(due + PERIOD / 1000), round(1000 * (t - due)) if tell else 0)
            due += PERIOD / 1000
        axis.step()
    return np.array(rows)


def ramp(t: float) -> float:
    return 20.0 * t


def swing(t: float) -> float:
    """±4000 counts at 0.5 Hz, up to 12.6 counts/ms."""
    return 4000 * math.sin(2 * math.pi * t / 2000)


def test_a_step_settles_on_the_count() -> None:
    axis = Axis(load=-5.0)
    rows = follow(axis, lambda t: 200.0, 1500)
    assert rows[:, 2].max() < 200 * 1.15  # an integral must overshoot a step
    assert np.abs(rows[600:, 2] - 200.5).max() < 1.0  # the count 200 is anywhere in [200, 201)
    assert axis.m.integral / 2**17 == pytest.approx(5.0 / GAIN, abs=10)  # what holds the load


def test_ramps_are_followed_without_lag() -> None:
    """20 counts/ms: in the steady state the mean error is the half count of the encoder, single ones stay small."""
    rows = follow(Axis(load=3.0, friction=2.0), ramp, 1500)
    error = rows[700:, 1] - rows[700:, 2]
    assert abs(error.mean() + 0.5) < 0.2
    assert np.abs(error).max() < 1.1


def test_feed_forward_is_what_removes_the_lag() -> None:
    with_it = follow(Axis(), swing, 4000)[500:]
    without = follow(Axis(config(kv=0)), swing, 4000)[500:]
    errors = [np.abs(rows[:, 1] - rows[:, 2]).max() for rows in (with_it, without)]
    assert errors[0] < 5.0
    assert errors[1] > 15 * errors[0]


def test_integers_follow_the_law_in_floating_point() -> None:
    """The same PI-D in float64 with the same encoder: both see whole counts, so they differ by less than one."""
    axis = Axis(load=2.0)
    rows = follow(axis, lambda t: 4000 - 4000 * math.cos(2 * math.pi * t / 2000), 2000)
    assert axis.m.limited_steps == 0
    position = speed = mean = integral = effort = last = before = 0.0
    for _, target, other, _ in rows:
        assert abs(position - other) < 1.0
        count = math.floor(position)
        mean += (count - last - mean) / 4
        effort = KP * (target - count) + KV * (target - before) - KD * mean + integral
        integral += KI * (target - count)
        last, before = count, target
        for _ in range(10):
            speed += 0.1 * (GAIN * effort - speed + 2.0) / LAG
            position += 0.1 * speed


def overshoot(anti_windup: int) -> float:
    """Of a step that keeps a weak motor at its limit for 300 ms."""
    axis = Axis(
        config(anti_windup=anti_windup, effort_limit=300, following_limit=TRAVEL, integral_limit=30_000), load=-3.0
    )
    rows = follow(axis, lambda t: 4000.0, 4000)
    assert (np.abs(rows[:, 3]) <= 300).all()
    assert abs(rows[-1, 2] - 4000.5) < 2.0
    return float(rows[:, 2].max() - 4000.0)


def test_anti_windup() -> None:
    assert overshoot(anti_windup=16) < 0.001 * 4000
    assert overshoot(anti_windup=0) > 100 * overshoot(anti_windup=16)


@pytest.mark.parametrize("origin", [2**31 - 100, -(2**31), 2**31 - 8000, 12345])
def test_the_encoder_may_wrap(origin: int) -> None:
    np.testing.assert_array_equal(follow(Axis(origin=origin), swing, 1000), follow(Axis(), swing, 1000))


def test_latency_is_made_up_for() -> None:
    """Commands that come 12 ms into their period: where the loop knows, the target is on the path all the same."""
    known, unknown = (follow(Axis(), ramp, 1500, late=12, tell=tell)[500:] for tell in (True, False))
    assert np.abs(known[:, 0] - known[:, 1]).max() < 0.1
    assert (unknown[:, 0] - unknown[:, 1]).min() > 10 * 20  # counts/ms
    known, unknown = (follow(Axis(), swing, 3000, late=12, tell=tell)[500:] for tell in (True, False))
    rms = [np.sqrt(np.mean((rows[:, 0] - rows[:, 2]) ** 2)) for rows in (known, unknown)]
    assert rms[0] < 0.05 * rms[1]


def test_at_most_half_a_period_is_made_up_for() -> None:
    axis = Axis()
    axis.hold()
    axis.command(1000, late_us=10**9)
    assert axis.m.length_us == PERIOD - PERIOD // 2
    axis.command(1000, late_us=-(10**9))
    assert axis.m.length_us == PERIOD + PERIOD // 2


def test_a_command_that_comes_early_has_more_time() -> None:
    """10 ms before its period begins: the target is there when that ends, and as straight."""
    axis = Axis()
    axis.hold()
    axis.command(1000, late_us=-10000)
    assert axis.m.length_us == PERIOD + 10000


def test_a_missing_command_is_bridged_for_a_while() -> None:
    """The target goes on at 20 counts/ms for 20 ms, then stands: 400 counts beyond the last command."""
    axis = Axis()
    follow(axis, ramp, 1000 // 3 + 1)
    last = axis.m.command / 256
    for _ in range(100):
        axis.step()
    assert axis.target == pytest.approx(last + 400, abs=0.2)
    assert axis.m.target_slope == 0
    assert Axis(config(extrapolate_us=0)).m.target == 0


def test_braking_takes_half_the_way_of_the_speed() -> None:
    axis = Axis()
    follow(axis, ramp, 1000)
    start, v = axis.target, axis.m.target_slope / 2**28 * 1000
    assert v == pytest.approx(20, abs=0.1)
    path = [start]
    for _ in range(60):
        axis.brake(40 * MS)  # again and again: the first one counts
        axis.step()
        path.append(axis.target)
    speeds = np.diff(path)
    assert path[40] == pytest.approx(start + v * 40 / 2, abs=0.1)
    assert (np.diff(speeds) < 0.01).all()  # slows down evenly
    np.testing.assert_allclose(-np.diff(speeds[:40]), v / 40, atol=0.02)
    assert path[41:] == path[40:-1]
    axis.command(path[-1] + 333.33)  # goes on from there without a jump
    axis.step()
    assert axis.target == pytest.approx(path[-1] + 10, abs=0.1)


def test_braking_at_once_and_without_motion() -> None:
    axis = Axis()
    axis.hold()
    axis.brake(40 * MS)
    assert axis.m.mode == M.sm_motor_mode.SM_MOTOR_HOLD
    axis.command(1000)
    axis.step()
    before = axis.target
    axis.brake(0)
    axis.step()
    assert (axis.target, axis.m.target_slope) == (before, 0)


@pytest.mark.parametrize("resistance", [{}, {"load": 3.0, "friction": 2.0}], ids=["free", "loaded"])
def test_motion_ends_within_250_ms_of_the_last_measurement(resistance: dict[str, float]) -> None:
    """Supervisor and motor together: measurements end while the axis runs at 20 counts/ms; the filter goes on."""
    s, axis = reach("running"), Axis(**resistance)
    axis.hold()
    last, rows = 28 * 33, []
    for t in range(last + 400):
        s.send("poll", MS)
        rows.append((axis.speed, axis.position))
        if t % 33 == 0:
            if t <= last:
                s.measure()
            if MOTIONS[s.output.motion] == "follow":
                axis.command(ramp(t + 33))
        if MOTIONS[s.output.motion] == "ramp":
            axis.brake(s.output.ramp_left_us)
        axis.step()
    speed, position = np.array(rows).T
    assert speed[last : last + 200] == pytest.approx(20, rel=0.05)
    assert np.abs(speed[last + 250 :]).max() < 0.01 * 20
    assert np.ptp(position[last + 250 :]) < 4.0  # the integral finds its count
    assert s.state == "stopped"


def test_a_stuck_motor_is_a_fault() -> None:
    """The target leaves at 20 counts/ms: 500 counts after 25 ms, for 50 ms more until it is a fault."""
    axis = Axis(stuck=True)
    rows = follow(axis, ramp, 200)
    assert axis.m.fault == M.sm_motor_fault.SM_MOTOR_FOLLOWING
    assert (rows[1:76, 3] > 0).all()
    assert (rows[77:, 3] == 0).all()
    axis.core.sm_motor_reset(axis.m)
    assert (axis.m.fault, axis.m.mode) == (0, 0)
    axis.stuck = False
    axis.hold()
    assert axis.step() == 0  # holds where it is


def test_a_short_excess_is_no_fault() -> None:
    axis = Axis(config(following_limit=20 * 256))
    axis.hold()
    for k in range(20):
        axis.command(60 * (k % 2))
        for _ in range(33):
            axis.step()
    assert axis.m.fault == 0
    assert axis.m.limited_steps > 0


@pytest.mark.parametrize("jump", [300, -300, 2**31 - 1])
def test_an_impossible_count_is_a_fault(jump: int) -> None:
    axis = Axis()
    follow(axis, swing, 100)
    axis.origin = wrapped(axis.origin + jump)
    assert axis.step() == 0
    assert axis.m.fault == M.sm_motor_fault.SM_MOTOR_ENCODER
    for _ in range(100):
        assert axis.step() == 0
    axis.core.sm_motor_start(axis.m, axis.encoder(), 256)
    assert (axis.m.fault, axis.m.position) == (0, 256)


def test_off_follows_by_hand_and_holding_starts_there() -> None:
    axis = Axis()
    for _ in range(50):
        axis.position += 3.0
        axis.command(1e5)  # ignored
        assert axis.step() == 0
    assert axis.m.position == axis.m.target == 150 * 256
    axis.hold()
    axis.hold()
    axis.step()
    assert axis.m.target == 150 * 256
    axis.core.sm_motor_off(axis.m)
    assert axis.step() == 0


def test_a_long_pause_while_off_is_no_fault() -> None:
    """Flash being erased: 800 ms in which somebody moves the axis at 100 counts/ms."""
    axis = Axis()
    axis.position += 80_000
    axis.core.sm_motor_step(axis.m, axis.c, axis.encoder(), 800 * MS)
    assert (axis.m.fault, axis.m.position) == (0, 80_000 * 256)


def test_targets_stay_within_the_travel() -> None:
    axis = Axis(config(low=-1000 * 256, high=1500 * 256))
    rows = follow(axis, lambda t: 20 * t if t < 500 else 10000 - 20 * t, 1000)
    assert (rows[:, 1].max(), rows[:, 1].min()) == (1500, -1000)
    assert rows[:, 2].max() < 1550
    axis = Axis(config(low=-1000 * 256, high=1500 * 256))
    follow(axis, ramp, 60)
    axis.brake(40 * MS)  # would end beyond
    for _ in range(50):
        axis.step()
    assert (axis.target, axis.m.target_slope) == (1500, 0)


@pytest.mark.parametrize("outside", [1700.0, -1300.0])
def test_from_outside_the_travel_there_is_no_jump(outside: float) -> None:
    axis = Axis(config(low=-1000 * 256, high=1500 * 256), position=outside)
    rows = follow(axis, lambda t: 0.0, 200)
    assert np.abs(np.diff([outside, *rows[:, 1]])).max() < abs(outside) / 30
    assert rows[-1, 1] == 0


def test_effort_and_its_change_are_limited() -> None:
    rows = follow(
        Axis(config(effort_limit=400, slew_limit=20, following_limit=TRAVEL)), lambda t: 3000.0 * (t // 400 % 2), 3000
    )
    assert np.abs(rows[:, 3]).max() == 400
    assert np.abs(np.diff([0, *rows[:, 3]])).max() <= 20


def test_the_least_slew_still_moves() -> None:
    axis = Axis(config(slew_limit=1, following_limit=TRAVEL), stuck=True)
    axis.hold()
    axis.command(10_000)
    assert [axis.step() for _ in range(5)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("sign", [1, -1])
def test_limits_themselves_are_allowed(sign: int) -> None:
    """200 counts per 1024 µs; an error of 500 counts for 50 ms."""
    for counts, fault in ((200, 0), (201, M.sm_motor_fault.SM_MOTOR_ENCODER)):
        axis = Axis()
        axis.core.sm_motor_step(axis.m, axis.c, sign * counts, 1024)
        assert axis.m.fault == fault
    for counts, fault in ((500, 0), (501, M.sm_motor_fault.SM_MOTOR_FOLLOWING)):
        axis = Axis(config(extrapolate_us=0), stuck=True)
        axis.hold()
        axis.command(sign * counts)
        for _ in range(200):
            axis.step()
        assert axis.m.fault == fault


COUNTS = st.integers(-(2**31), 2**31 - 1)
TIMES = st.integers(0, 2**32 - 1) | st.integers(0, 10_000)
GAINS = st.sampled_from([0, 1, 1000, 2**16 - 1])
CALLS = st.one_of(
    st.tuples(st.just("step"), COUNTS | st.integers(-50, 50), TIMES),
    st.tuples(st.just("command"), COUNTS, TIMES),
    st.tuples(st.just("brake"), st.just(0), TIMES),
    st.tuples(st.sampled_from(["hold", "off", "reset"]), st.just(0), st.just(0)),
)


@settings(max_examples=300)
@given(
    gains=st.tuples(*[GAINS] * 4),
    shift=st.integers(1, 24),
    speed_filter=st.integers(0, 8),
    travel=st.sampled_from([0, 1000, TRAVEL]),
    start=st.tuples(COUNTS, COUNTS),
    calls=st.lists(CALLS, max_size=60),
)
def test_nothing_overflows(
    gains: tuple[int, ...],
    shift: int,
    speed_filter: int,
    travel: int,
    start: tuple[int, int],
    calls: list[tuple[Any, ...]],
) -> None:
    """Any calls with any numbers: undefined behaviour traps, efforts stay in their limits, targets in the travel."""
    names = dict(zip(("kp", "ki", "kd", "kv"), gains, strict=True))
    large = {
        "anti_windup": 2**16 - 1,
        "integral_limit": 2**31 - 1,
        "slew_limit": 2**31 - 1,
        "speed_limit": 2**31 - 1,
        "following_limit": 2**31 - 1,
    }
    c = config(**names, shift=shift, speed_filter=speed_filter, low=-travel, high=travel, **large)
    loaded, m, encoder = core(), M.sm_motor(), start[0]
    loaded.sm_motor_start(m, encoder, start[1])
    loaded.sm_motor_hold(m)
    for name, counts, time in calls:
        if name == "step":
            encoder = wrapped(encoder + counts)
            assert abs(loaded.sm_motor_step(m, c, encoder, time)) <= 1000
            assert m.mode == 0 or abs(m.target) <= TRAVEL
        elif name == "command":
            loaded.sm_motor_command(m, c, counts, time)
        elif name == "brake":
            loaded.sm_motor_brake(m, c, time)
        else:
            getattr(loaded, f"sm_motor_{name}")(m)


@settings(max_examples=300)
@given(wanted=COUNTS, last=COUNTS, step=st.integers(0, 2**31 - 1), ends=st.tuples(COUNTS, COUNTS))
def test_commands_are_limited(wanted: int, last: int, step: int, ends: tuple[int, int]) -> None:
    """To the range, then to the rate, against numpy's clip; each command that changed is counted."""
    low, high = sorted(ends)
    loaded, limited = core(), ctypes.c_uint32(7)
    limits = M.sm_motor_limits(low=low, high=high, step=step)
    inside = int(np.clip(wanted, low, high))
    expected = int(np.clip(inside, last - step, last + step))
    assert loaded.sm_motor_clamp(wanted, low, high) == inside
    assert loaded.sm_motor_rate_limit(inside, last, step) == expected
    assert loaded.sm_motor_limit_command(ctypes.byref(limits), wanted, last, ctypes.byref(limited)) == expected
    assert limited.value == 7 + (expected != wanted)
