"""The supervisor: every (state, event) pair from a table, random events against a twin, and what must always hold."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from stepmap_hil.wire.reasons import EXPLANATIONS, Reason, explain
from tests.firmware import native_core

ROOT = Path(__file__).parents[2]
C = native_core.types("sm_supervisor.h")
MS = 1000
WORD = 1 << 32
COUNTERS = ["transitions", "refused", "accepted", "invalid", "gated", "stale", "saturated", "overruns", "motors_late"]


def words(members: type[IntEnum], prefix: str) -> dict[int, str]:
    """{number: short lower-case name}"""
    return {member.value: member.name.removeprefix(prefix).lower() for member in members}


STATES = words(C.sm_state, "SM_STATE_")
REASONS = words(C.sm_reason, "SM_REASON_")
MOTIONS = words(C.sm_motion, "SM_MOTION_")
EVENTS = {name: number for number, name in words(C.sm_event_kind, "SM_EVENT_").items()}
CODES = {name: number for number, name in REASONS.items()}


def core() -> ctypes.CDLL:
    loaded = native_core.library("sm_supervisor.c", "sm_supervisor_defaults.c")
    pointer = ctypes.POINTER(C.sm_supervisor)
    loaded.sm_supervisor_start.argtypes = [pointer, ctypes.POINTER(C.sm_supervisor_config), ctypes.c_uint32]
    loaded.sm_supervisor_handle.argtypes = [pointer, ctypes.c_uint32, C.sm_event]
    loaded.sm_supervisor_allowed.argtypes, loaded.sm_supervisor_allowed.restype = [pointer], C.sm_supervisor_output
    loaded.sm_supervisor_is_new.argtypes = [pointer, *[ctypes.c_uint32] * 3]
    loaded.sm_supervisor_is_new.restype = ctypes.c_bool
    return loaded


def defaults(**changes: int) -> Any:
    config = C.sm_supervisor_config.from_buffer_copy(
        C.sm_supervisor_config.in_dll(
            native_core.library("sm_supervisor.c", "sm_supervisor_defaults.c"), "sm_supervisor_defaults"
        )
    )
    for name, value in changes.items():
        setattr(config, name, value)
    return config


class Supervisor:
    """The C supervisor with a clock of its own [µs] that never wraps; `offset` is what the board's clock shows at 0."""

    def __init__(self, offset: int = 0, config: Any = None) -> None:
        self.core, self.offset, self.t, self.sequence = core(), offset, 0, 0
        self.config = config or defaults()
        self.s = C.sm_supervisor()
        self.core.sm_supervisor_start(self.s, self.config, offset % WORD)

    def send(self, event: str, after: int = 0, **payload: Any) -> str:
        """The state after an event that comes `after` µs after the one before; a stamp is in the time of self.t."""
        self.t += after
        if "stamp_us" in payload:
            payload["stamp_us"] = (payload["stamp_us"] + self.offset) % WORD
        if "reason" in payload:
            payload["reason"] = CODES[payload["reason"]]
        now = (self.t + self.offset) % WORD
        return STATES[self.core.sm_supervisor_handle(self.s, now, C.sm_event(kind=EVENTS[event], **payload))]

    def measure(self, after: int = 0, accepted: int = 15, gated: int = 0, age: int = 0, repeat: bool = False) -> str:
        self.sequence += not repeat
        stamp = self.t + after - age
        return self.send("measurement", after, sequence=self.sequence, stamp_us=stamp, accepted=accepted, gated=gated)

    def tick(self, after: int = 0, nis: float = 1.0, variance_ratio: float = 0.5, accepted: int = 15) -> str:
        return self.send(
            "statistics", after, nis=round(256 * nis), variance_ratio=round(256 * variance_ratio), accepted=accepted
        )

    @property
    def state(self) -> str:
        return STATES[self.s.state]

    @property
    def reason(self) -> str:
        return REASONS[self.s.reason]

    @property
    def refusal(self) -> str:
        return REASONS[self.s.refusal]

    @property
    def output(self) -> Any:
        return self.core.sm_supervisor_allowed(self.s)

    @property
    def motion(self) -> str:
        return MOTIONS[self.output.motion]

    def counters(self) -> dict[str, int]:
        return {name: getattr(self.s, name) for name in COUNTERS}

    def seen(self) -> tuple[Any, ...]:
        """All that does not name a time on the board's clock."""
        output = self.output
        flags = [getattr(output, name) for name, _ in output._fields_]
        row = [
            self.s.gated_consecutive,
            self.s.overrun_consecutive,
            self.s.late_consecutive,
            self.s.nis_sum,
            self.s.fresh,
            self.s.at_end,
            self.s.ramping,
        ]
        return (self.state, STATES[self.s.previous], self.reason, self.refusal, *self.counters().values(), *flags, *row)


READY = ["booted", "calibrate", "calibrated"]
RUNNING = [*READY, "arm", "measure", "run"]
WAYS = {
    "boot": [],
    "idle": READY,
    "calibrating": ["booted", "calibrate"],
    "armed": [*READY, "arm"],
    "running": RUNNING,
    "holding": [*RUNNING, "poll"],
    "stopped": [*RUNNING, "stop"],
    "fault": [*RUNNING, "motor_fault"],
}
PAYLOADS: dict[str, Any] = {
    "arm": {"ready": True},
    "poll": {"after": 210 * MS},
    "motor_fault": {"reason": "motor_following"},
}


def reach(state: str, **config: int) -> Supervisor:
    """A supervisor in that state, by the way it is meant to be reached."""
    s = Supervisor(config=defaults(**config))
    for event in WAYS[state]:
        if event == "measure":
            s.measure()
        else:
            s.send(event, **PAYLOADS.get(event, {}))
    assert s.state == state
    return s


def ten_gated(s: Supervisor) -> None:
    for _ in range(10):
        s.measure(MS, accepted=3, gated=12)


def five_overruns(s: Supervisor) -> None:
    for _ in range(5):
        s.send("overrun", MS)


def five_late_steps(s: Supervisor) -> None:
    for _ in range(5):
        s.send("motor_late", MS)


HAPPENINGS: dict[str, Callable[[Supervisor], object]] = {
    "1 ms passes": lambda s: s.send("poll", MS),
    "200 ms pass": lambda s: s.send("poll", 200 * MS),
    "10 s pass": lambda s: s.send("poll", 10_000 * MS),
    "self-test passed": lambda s: s.send("booted", MS),
    "self-test failed": lambda s: s.send("self_test_failed", MS),
    "command calibrate": lambda s: s.send("calibrate", MS),
    "command arm": lambda s: s.send("arm", MS, ready=True),
    "command arm, no schedule": lambda s: s.send("arm", MS, ready=False),
    "command run": lambda s: s.send("run", MS),
    "measurement, then command run": lambda s: (s.measure(MS), s.send("run")),
    "command stop": lambda s: s.send("stop", MS),
    "command reset": lambda s: s.send("reset", MS),
    "calibration done": lambda s: s.send("calibrated", MS),
    "calibration failed": lambda s: s.send("calibration_failed", MS),
    "measurement": lambda s: s.measure(MS),
    "measurement, some channels gated": lambda s: s.measure(MS, accepted=3, gated=12),
    "measurement, all channels gated": lambda s: s.measure(MS, accepted=0, gated=15),
    "measurement, no channel valid": lambda s: s.measure(MS, accepted=0),
    "10 measurements in a row with gated channels": ten_gated,
    "measurement older than 100 ms": lambda s: s.measure(MS, age=101 * MS),
    "measurement stale or repeated": lambda s: s.send("stale", MS),
    "statistics within limits": lambda s: s.tick(MS),
    "innovations too large": lambda s: s.tick(MS, nis=80.0),
    "variance too large": lambda s: s.tick(MS, variance_ratio=1.01),
    "command saturated": lambda s: s.send("saturated", MS),
    "end of schedule": lambda s: s.send("schedule_end", MS),
    "motor: following error": lambda s: s.send("motor_fault", MS, reason="motor_following"),
    "motor: encoder": lambda s: s.send("motor_fault", MS, reason="motor_encoder"),
    "motor: driver off": lambda s: s.send("motor_fault", MS, reason="motor_driver"),
    "link lost": lambda s: s.send("link_lost", MS),
    "tick overrun": lambda s: s.send("overrun", MS),
    "5 tick overruns in a row": five_overruns,
    "motors served late": lambda s: s.send("motor_late", MS),
    "motors served late 5 times in a row": five_late_steps,
    "no landing": lambda s: s.send("no_landing", MS),
    "supply low": lambda s: s.send("supply_low", MS),
}

# Cells: the next state; . nothing changes; ! refused in this state; ? refused for the reason in the second column.
TABLE = """
happening                                    | reason              | boot  | idle  | calibrating | armed | running | holding | stopped | fault
1 ms passes                                  |                     | .     | .     | .     | .     | .       | .       | .     | .
200 ms pass                                  | no_measurement      | .     | .     | .     | .     | holding | stopped | .     | .
10 s pass                                    | hold_expired        | .     | .     | idle  | .     | stopped | stopped | .     | .
self-test passed                             | booted              | idle  | .     | .     | .     | .       | .       | .     | .
self-test failed                             | self_test           | fault | fault | fault | fault | fault   | fault   | fault | .
command calibrate                            | calibrate_command   | !     | calibrating | . | !   | !       | !       | !     | !
command arm                                  | arm_command         | !     | armed | !     | .     | !       | !       | !     | !
command arm, no schedule                     | no_schedule         | !     | ?     | !     | .     | !       | !       | !     | !
command run                                  | no_measurement      | !     | !     | !     | ?     | .       | !       | !     | !
measurement, then command run                | run_command         | !     | !     | !     | running | .     | running | !     | !
command stop                                 | stop_command        | .     | .     | idle  | idle  | stopped | stopped | .     | .
command reset                                | reset_command       | !     | .     | !     | !     | !       | !       | idle  | idle
calibration done                             | calibrated          | .     | .     | idle  | .     | .       | .       | .     | .
calibration failed                           | calibration_failed  | .     | .     | idle  | .     | .       | .       | .     | .
measurement                                  | measurement_back    | .     | .     | .     | .     | .       | running | .     | .
measurement, some channels gated             | measurement_back    | .     | .     | .     | .     | .       | running | .     | .
measurement, all channels gated              |                     | .     | .     | .     | .     | .       | .       | .     | .
measurement, no channel valid                |                     | .     | .     | .     | .     | .       | .       | .     | .
10 measurements in a row with gated channels | gated               | .     | .     | .     | .     | stopped | stopped | .     | .
measurement older than 100 ms                |                     | .     | .     | .     | .     | .       | .       | .     | .
measurement stale or repeated                |                     | .     | .     | .     | .     | .       | .       | .     | .
statistics within limits                     |                     | .     | .     | .     | .     | .       | .       | .     | .
innovations too large                        | innovation          | .     | .     | .     | .     | stopped | stopped | .     | .
variance too large                           | covariance          | .     | .     | .     | .     | stopped | stopped | .     | .
command saturated                            |                     | .     | .     | .     | .     | .       | .       | .     | .
end of schedule                              |                     | .     | .     | .     | .     | .       | .       | .     | .
motor: following error                       | motor_following     | fault | fault | fault | fault | fault   | fault   | fault | .
motor: encoder                               | motor_encoder       | fault | fault | fault | fault | fault   | fault   | fault | .
motor: driver off                            | motor_driver        | fault | fault | fault | fault | fault   | fault   | fault | .
link lost                                    | link_lost           | .     | .     | idle  | idle  | stopped | stopped | .     | .
tick overrun                                 |                     | .     | .     | .     | .     | .       | .       | .     | .
5 tick overruns in a row                     | overrun             | .     | .     | .     | .     | stopped | stopped | .     | .
motors served late                           |                     | .     | .     | .     | .     | .       | .       | .     | .
motors served late 5 times in a row          | motor_late          | .     | .     | .     | fault | stopped | stopped | fault | .
no landing                                   | no_landing          | .     | .     | .     | .     | stopped | stopped | .     | .
supply low                                   | supply              | fault | fault | fault | fault | fault   | fault   | fault | .
"""  # noqa: E501
# Where the reason is not that of the row.
OTHERWISE = {
    ("holding", "200 ms pass"): "hold_expired",
    ("calibrating", "10 s pass"): "calibration_timeout",
    ("holding", "measurement, then command run"): "measurement_back",
}


class Pair(NamedTuple):
    state: str
    happening: str
    next: str
    reason: str  # of the transition or of the refusal

    @property
    def refused(self) -> bool:
        return self.next in ("!", "?")


def pairs() -> list[Pair]:
    head, *lines = ([part.strip() for part in line.split("|")] for line in TABLE.strip().splitlines())
    return [
        Pair(state, happening, to, "wrong_state" if to == "!" else OTHERWISE.get((state, happening), reason))
        for happening, reason, *row in lines
        for state, to in zip(head[2:], row, strict=True)
    ]


def test_the_table_is_complete() -> None:
    assert [(pair.state, pair.happening) for pair in pairs()] == [
        (state, happening) for happening in HAPPENINGS for state in STATES.values()
    ]


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: f"{pair.state}, {pair.happening}")
def test_every_pair_of_state_and_event(pair: Pair) -> None:
    s = reach(pair.state)
    reason, refusal, transitions, refused = s.reason, s.refusal, s.s.transitions, s.s.refused
    HAPPENINGS[pair.happening](s)
    if pair.refused:
        assert (s.state, s.reason, s.s.transitions) == (pair.state, reason, transitions)
        assert (s.refusal, s.s.refused) == (pair.reason, refused + 1)
    elif pair.next == ".":
        assert (s.state, s.reason, s.s.transitions) == (pair.state, reason, transitions)
        assert (s.refusal, s.s.refused) == (refusal, refused)
    else:
        assert (s.state, s.reason, s.s.refused) == (pair.next, pair.reason, refused)
        assert s.s.transitions > transitions


HELD = {  # what ends arming where forces hold the start, besides what ends it anyway
    "200 ms pass": "no_measurement",
    "10 s pass": "no_measurement",
    "10 measurements in a row with gated channels": "gated",
    "innovations too large": "innovation",
    "variance too large": "covariance",
    "5 tick overruns in a row": "overrun",
}


@pytest.mark.parametrize("pair", [p for p in pairs() if p.state == "armed"], ids=lambda pair: pair.happening)
def test_forces_that_hold_the_start_are_supervised_as_motion_is(pair: Pair) -> None:
    s = reach("idle")
    s.send("arm", ready=True, feedback=True)
    assert (s.state, s.motion) == ("armed", "start")
    HAPPENINGS[pair.happening](s)
    if pair.happening in HELD:
        assert (s.state, s.reason, s.motion) == ("idle", HELD[pair.happening], "off")
    else:
        assert s.state == ("armed" if pair.refused or pair.next == "." else pair.next)


def test_forces_hold_the_start_while_measurements_come() -> None:
    s = reach("idle")
    s.send("arm", ready=True, feedback=True)
    for _ in range(40):
        assert s.measure(33 * MS) == s.tick() == "armed"
    assert s.send("poll", 199 * MS) == "armed"
    assert s.send("poll", MS) == "idle"
    assert s.reason == "no_measurement"


def test_every_kind_of_event_is_in_the_table() -> None:
    sent: set[str] = set()

    class Spy(Supervisor):
        def send(self, event: str, after: int = 0, **payload: Any) -> str:
            sent.add(event)
            return super().send(event, after, **payload)

    for happen in HAPPENINGS.values():
        happen(Spy())
    assert sent == set(EVENTS)


MOVES = {
    "boot": "off",
    "idle": "off",
    "calibrating": "off",
    "armed": "start",
    "running": "follow",
    "holding": "ramp",
    "stopped": "ramp",
    "fault": "off",
}


@pytest.mark.parametrize("state", MOVES)
def test_motion_and_what_is_accepted(state: str) -> None:
    s = reach(state)
    output = s.output
    assert s.motion == MOVES[state]
    assert (output.accept_upload, output.accept_calibrate, output.accept_arm) == (state == "idle",) * 3
    assert not output.accept_run
    s.measure()
    assert s.output.accept_run == (state == "armed")


def test_loss_of_measurements_ends_motion_within_250_ms() -> None:
    s = reach("running")
    history = {t: (s.send("poll", MS), s.motion, s.output.ramp_left_us) for t in range(1, 300)}
    assert history[199] == ("running", "follow", 0)
    assert history[200] == ("holding", "ramp", 30 * MS)
    assert history[220] == ("holding", "ramp", 10 * MS)
    assert history[229] == ("holding", "ramp", MS)
    assert history[230] == ("holding", "hold", 0)
    assert history[250] == history[299] == ("stopped", "hold", 0)
    assert s.reason == "hold_expired"
    assert s.measure() == "stopped"


def test_a_measurement_in_time_goes_on() -> None:
    s = reach("running")
    s.send("poll", 215 * MS)
    assert s.measure(34 * MS) == "running"
    assert (s.motion, s.reason) == ("follow", "measurement_back")
    assert s.send("poll", 199 * MS) == "running"
    assert s.send("poll", MS) == "holding"


def test_a_longer_hold_stands_still() -> None:
    s = reach("running", stop_us=2_000 * MS)
    s.send("poll", 230 * MS)
    assert (s.state, s.motion) == ("holding", "hold")
    assert s.measure(1_900 * MS) == "running"


def test_late_polls_do_not_move_the_end_of_the_ramp() -> None:
    s = reach("running")
    s.send("poll", 215 * MS)
    assert s.output.ramp_left_us == 15 * MS
    s.send("stop", 5 * MS)  # nor does a stop in between
    assert (s.state, s.reason, s.output.ramp_left_us) == ("stopped", "stop_command", 10 * MS)
    s.send("poll", 10 * MS)
    assert s.motion == "hold"


def test_a_stop_ramps_from_now() -> None:
    s = reach("running")
    s.send("stop", 7 * MS)
    assert (s.motion, s.output.ramp_left_us) == ("ramp", 30 * MS)
    s.send("reset", 10 * MS)
    assert (s.state, s.motion, s.output.ramp_left_us) == ("idle", "off", 0)


def test_after_a_long_silence_the_first_event_finds_it_stopped() -> None:
    s = reach("running")
    assert s.measure(260 * MS) == "stopped"
    assert (s.s.transitions, STATES[s.s.previous]) == (7, "holding")


def test_the_time_a_measurement_was_taken_counts() -> None:
    """Not the time it came: 60 ms old, it lasts 140 ms."""
    s = reach("running")
    s.measure(100 * MS, age=60 * MS)
    assert s.send("poll", 139 * MS) == "running"
    assert s.send("poll", MS) == "holding"


def test_stamps_ahead_of_the_clock_count_as_now() -> None:
    s = reach("running")
    s.measure(100 * MS, age=-50 * MS)
    assert s.send("poll", 199 * MS) == "running"
    assert s.send("poll", MS) == "holding"
    s.measure(MS, age=-101 * MS)
    assert (s.state, s.s.stale) == ("holding", 1)


def test_an_older_stamp_with_a_newer_sequence_does_not_shorten_the_time() -> None:
    s = reach("running")
    s.measure(50 * MS)
    s.measure(MS, age=90 * MS)
    assert s.send("poll", 198 * MS) == "running"
    assert s.send("poll", MS) == "holding"


def test_repeated_and_older_sequences_are_ignored_and_counted() -> None:
    s = reach("running")
    for back in (0, 1, 1000, WORD // 2):
        last = s.s.sequence
        old = (last - back) % WORD
        assert not s.core.sm_supervisor_is_new(s.s, s.t, old, s.t)
        s.send("measurement", 40 * MS, sequence=old, stamp_us=s.t + 40 * MS, accepted=15)
        assert s.s.sequence == last
    assert (s.s.stale, s.s.accepted, s.s.gated_consecutive) == (4, 1, 0)
    assert s.send("poll", 40 * MS) == "holding"


def test_sequences_wrap_and_start_anew_with_arming() -> None:
    s = reach("running")
    for sequence in (2**31, 2**32 - 1, 0, 5):
        s.send("measurement", MS, sequence=sequence, stamp_us=s.t, accepted=1)
    assert (s.s.accepted, s.s.stale) == (5, 0)
    for event in ("stop", "reset"):
        s.send(event, MS)
    s.send("arm", MS, ready=True)
    assert s.core.sm_supervisor_is_new(s.s, s.t, 1, s.t)


def test_run_needs_a_measurement_since_arming() -> None:
    s = reach("idle")
    s.measure()
    s.send("arm", MS, ready=True)
    assert s.send("run", MS) == "armed"
    assert s.refusal == "no_measurement"
    s.measure(MS)
    assert s.send("run", 199 * MS) == "running"


@pytest.mark.parametrize(
    ("disturb", "reason"),
    [
        (lambda s: s.tick(nis=80.0), "innovation"),
        (lambda s: s.tick(variance_ratio=2.0), "covariance"),
        (ten_gated, "gated"),
    ],
)
def test_a_diverged_filter_does_not_run(disturb: Callable[[Supervisor], object], reason: str) -> None:
    s = reach("armed")
    s.measure()
    assert s.output.accept_run
    disturb(s)
    assert not s.output.accept_run
    assert s.send("run") == "armed"
    assert s.refusal == reason
    s.send("stop")
    s.send("arm", ready=True)  # a new start of the filter
    s.measure()
    assert s.send("run") == "running"


def test_arming_needs_calibration() -> None:
    s = Supervisor()
    s.send("booted")
    assert not s.output.accept_arm
    assert s.send("arm", ready=True) == "idle"
    assert s.refusal == "not_calibrated"
    s = Supervisor(config=defaults(calibration_required=0))
    s.send("booted")
    assert s.output.accept_arm
    assert s.send("arm", ready=True) == "armed"


@pytest.mark.parametrize("event", ["calibration_failed", "stop", "link_lost", "poll"])
def test_a_calibration_that_ends_early_leaves_none(event: str) -> None:
    s = reach("idle")
    assert s.output.accept_arm
    s.send("calibrate")
    assert s.send(event, 10_000 * MS) == "idle"
    assert not s.output.accept_arm


def test_an_encoder_fault_needs_calibration() -> None:
    for reason, kept in (("motor_encoder", False), ("motor_following", True), ("motor_driver", True)):
        s = reach("running")
        s.send("motor_fault", reason=reason)
        s.send("reset")
        assert (s.state, s.output.accept_arm) == ("idle", kept)


def test_unknown_motor_faults_are_those_of_the_driver() -> None:
    s = reach("running")
    s.send("motor_fault", reason="link_lost")
    assert (s.state, s.reason) == ("fault", "motor_driver")


def test_no_way_around_the_self_test() -> None:
    s = Supervisor()
    s.send("self_test_failed")
    assert s.send("booted") == "fault"
    assert s.send("reset") == "boot"
    assert s.send("booted") == "idle"
    s = reach("running")
    s.send("motor_fault", reason="motor_following")
    s.send("self_test_failed")
    assert s.reason == "motor_following"  # the first cause stays
    assert s.send("reset") == "boot"


def test_the_end_of_the_schedule_is_held() -> None:
    s = reach("armed")
    s.send("schedule_end")
    assert not s.s.at_end
    s.measure()
    s.send("run")
    s.send("schedule_end")
    for _ in range(100):
        assert s.measure(33 * MS) == "running"
        s.send("schedule_end")
    assert (s.s.at_end, s.motion) == (True, "follow")
    for event in ("stop", "reset"):
        s.send(event)
    assert s.s.at_end
    s.send("arm", ready=True)
    assert not s.s.at_end


def test_nine_gated_are_not_ten_in_a_row() -> None:
    s = reach("running")
    for _ in range(20):
        for _ in range(9):
            assert s.measure(20 * MS, accepted=1, gated=2) == "running"
        s.measure(20 * MS)
    assert (s.s.gated, s.s.accepted) == (180, 201)
    s.measure(accepted=1, gated=2)
    s.measure(accepted=0)  # one without any valid channel says nothing about jumps
    assert s.s.gated_consecutive == 1


def test_overruns_far_apart_are_not_in_a_row() -> None:
    s = reach("running")
    for _ in range(20):
        s.send("overrun", 101 * MS)
        s.measure(MS)
    assert (s.state, s.s.overruns, s.s.overrun_consecutive) == ("running", 20, 1)


def test_mean_innovation_is_judged() -> None:
    """With weight 1/16 a steady 6 after 1 has the mean 6 − 5 (15/16)ⁿ, above 5 from n = ln 5 / ln(16/15) = 24.9 on."""
    s = reach("running")
    ticks = 0
    while s.state == "running":
        s.measure()
        s.tick(33 * MS, nis=6.0)
        ticks += 1
    # The mean is cut to 1/256 below, which delays the crossing where its slope is 1/16: by 1/16 of a tick at most.
    assert ticks in (math.ceil(math.log(5) / math.log(16 / 15)), math.ceil(math.log(5) / math.log(16 / 15)) + 1)
    assert s.reason == "innovation"


def test_a_consistent_filter_never_stops() -> None:
    """Innovations of the stated covariance, 20 000 ticks of four channels; a jump at the gate's edge now and then."""
    s = reach("running")
    nis = np.random.default_rng(1).chisquare(4, 20_000) / 4
    nis[::500] = 25.0
    for value in nis:
        s.measure(33 * MS)
        assert s.tick(nis=float(value)) == "running"


def test_ticks_without_measurements_leave_the_mean() -> None:
    s = reach("running")
    before = s.s.nis_sum
    s.tick(nis=1e5, accepted=0)
    assert s.s.nis_sum == before
    s.send("statistics", nis=WORD - 1, variance_ratio=0, accepted=1)  # the largest there is does not overflow
    assert s.state == "stopped"


def test_what_is_only_counted_is_counted() -> None:
    s = reach("running")
    for _ in range(3):
        s.send("saturated")
        s.send("stale")
        s.send("overrun", 200 * MS // 3 - 1)
    assert (s.s.saturated, s.s.stale, s.s.overruns, s.s.transitions) == (3, 3, 3, 5)


def test_limits_themselves_are_allowed() -> None:
    s = reach("running", nis_window=0)
    for nis, variance_ratio, state in ((5.0, 1.0, "running"), (5.0 + 1 / 256, 1.0, "stopped")):
        assert s.tick(nis=nis, variance_ratio=variance_ratio) == state
    s = reach("running")
    for age in (100 * MS, -100 * MS):
        s.measure(MS, age=age)
    assert (s.s.accepted, s.s.stale) == (3, 0)


def test_unknown_events_change_nothing() -> None:
    s = reach("running")
    before = s.seen()
    s.core.sm_supervisor_handle(s.s, s.t, C.sm_event(kind=200))
    assert s.seen() == before


class Twin:
    """The rules again, from docs/supervisor.md: a table, a clock that never wraps, and times instead of flags."""

    COMMANDS: ClassVar = {
        ("idle", "calibrate"): "calibrating",
        ("idle", "arm"): "armed",
        ("armed", "run"): "running",
        ("calibrating", "stop"): "idle",
        ("armed", "stop"): "idle",
        ("running", "stop"): "stopped",
        ("holding", "stop"): "stopped",
        ("stopped", "reset"): "idle",
        ("fault", "reset"): "idle",
    }
    GOAL: ClassVar = {"calibrate": "calibrating", "arm": "armed", "run": "running", "reset": "idle"}
    ALWAYS = -(10**12)

    def __init__(self) -> None:
        self.state, self.reason, self.refusal, self.transitions, self.refused = "boot", "none", "none", 0, 0
        self.tested = self.calibrated = self.at_end = False
        self.entered = 0
        self.overruns: list[int] = []
        self.late: list[int] = []
        self.stale = 0
        self.feedback = False
        self.forget()
        self.ramp_end = self.ALWAYS

    def forget(self) -> None:
        self.last: int | None = None
        self.late = []
        self.valid, self.mean, self.variance_ratio, self.row, self.at_end = self.ALWAYS, 256 * 16, 0, 0, False

    def go(self, t: int, state: str, reason: str) -> None:
        if state == "stopped" and self.state == "running":
            self.ramp_end = t + 30 * MS
        if state not in ("stopped", "holding"):
            self.ramp_end = self.ALWAYS
        self.state, self.reason, self.entered, self.transitions = state, reason, t, self.transitions + 1

    def lost(self) -> str:
        tests = {
            "gated": self.row >= 10,
            "innovation": self.mean // 16 > 5 * 256,
            "covariance": self.variance_ratio > 256,
        }
        return next((name for name, true in tests.items() if true), "none")

    def send(self, t: int, event: str, **payload: Any) -> None:
        if self.state == "running" and t - self.valid >= 200 * MS:
            self.go(t, "holding", "no_measurement")
            self.ramp_end = self.valid + 230 * MS
        if self.held() and t - self.valid >= 200 * MS and t - self.entered >= 200 * MS:
            self.go(t, "idle", "no_measurement")
        if self.state == "holding" and t - self.valid >= 250 * MS:
            self.go(t, "stopped", "hold_expired")
        if self.state == "calibrating" and t - self.entered >= 10_000 * MS:
            self.go(t, "idle", "calibration_timeout")
        self.t = t
        handle = getattr(self, f"on_{event}", None)
        if event in ("calibrate", "arm", "run", "stop", "reset"):
            self.command(t, event, **payload)
        elif handle:
            handle(t, **payload)
        if self.state in ("running", "holding") and self.lost() != "none":
            self.go(t, "stopped", self.lost())
        if self.held() and self.lost() != "none":
            self.go(t, "idle", self.lost())

    def held(self) -> bool:
        """Whether forces hold the start."""
        return self.state == "armed" and self.feedback

    def command(self, t: int, event: str, ready: bool = True, feedback: bool = False) -> None:
        to = self.COMMANDS.get((self.state, event))
        refusal = "none" if event == "stop" or self.state == self.GOAL[event] else "wrong_state"
        if to == "armed":
            refusal = "not_calibrated" if not self.calibrated else "none" if ready else "no_schedule"
        elif to == "running":
            refusal = "no_measurement" if t - self.valid >= 200 * MS else self.lost()
        elif to:
            refusal = "none"
        if refusal != "none":
            self.refusal, self.refused = refusal, self.refused + 1
        elif to:
            if to in ("calibrating", "armed"):
                self.forget()
            self.feedback = feedback if to == "armed" else self.feedback
            self.calibrated &= to != "calibrating"
            self.go(t, "boot" if event == "reset" and not self.tested else to, f"{event}_command")

    def on_booted(self, t: int) -> None:
        if self.state == "boot":
            self.tested = True
            self.go(t, "idle", "booted")

    def on_self_test_failed(self, t: int) -> None:
        self.tested = False
        self.on_motor_fault(t, "self_test")

    def on_motor_fault(self, t: int, reason: str) -> None:
        self.calibrated &= reason != "motor_encoder"
        if self.state != "fault":
            self.go(t, "fault", reason)

    def on_calibrated(self, t: int) -> None:
        if self.state == "calibrating":
            self.calibrated = True
            self.go(t, "idle", "calibrated")

    def on_calibration_failed(self, t: int) -> None:
        if self.state == "calibrating":
            self.go(t, "idle", "calibration_failed")

    def on_link_lost(self, t: int) -> None:
        if to := self.COMMANDS.get((self.state, "stop")):
            self.go(t, to, "link_lost")

    def on_overrun(self, t: int) -> None:
        self.overruns = [*self.overruns, t] if self.overruns and t - self.overruns[-1] < 100 * MS else [t]
        if len(self.overruns) >= 5 and self.state in ("running", "holding"):
            self.go(t, "stopped", "overrun")
        if len(self.overruns) >= 5 and self.held():
            self.go(t, "idle", "overrun")

    def on_motor_late(self, t: int) -> None:
        self.late = [*self.late, t] if self.late and t - self.late[-1] < 100 * MS else [t]
        if len(self.late) < 5:
            return
        self.late = []
        if self.state in ("running", "holding"):
            self.go(t, "stopped", "motor_late")
        elif self.state in ("armed", "stopped"):
            self.go(t, "fault", "motor_late")

    def on_supply_low(self, t: int) -> None:
        self.on_motor_fault(t, "supply")

    def on_no_landing(self, t: int) -> None:
        if self.state in ("running", "holding"):
            self.go(t, "stopped", "no_landing")

    def on_stale(self, t: int) -> None:
        self.stale += 1

    def on_schedule_end(self, t: int) -> None:
        self.at_end |= self.state in ("running", "holding")

    def on_statistics(self, t: int, nis: int, variance_ratio: int, accepted: int) -> None:
        self.mean += (nis - self.mean // 16) if accepted else 0
        self.variance_ratio = variance_ratio

    def on_measurement(self, t: int, sequence: int, stamp_us: int, accepted: int, gated: int) -> None:
        if (self.last is not None and sequence <= self.last) or abs(t - stamp_us) > 100 * MS:
            self.stale += 1
            return
        self.last = sequence
        self.row = self.row + 1 if gated else 0 if accepted else self.row
        if accepted:
            self.valid = max(self.valid, min(t, stamp_us))
            if self.state == "holding" and self.lost() == "none":
                self.go(t, "running", "measurement_back")

    def motion(self) -> str:
        if self.state in ("holding", "stopped"):
            return "ramp" if self.t < self.ramp_end else "hold"
        return {"armed": "start", "running": "follow"}.get(self.state, "off")

    def seen(self) -> tuple[Any, ...]:
        return (
            self.state,
            self.reason,
            self.refusal,
            self.transitions,
            self.refused,
            self.stale,
            self.at_end,
            self.motion(),
            max(self.ramp_end - self.t, 0) if self.motion() == "ramp" else 0,
        )


MOTOR_REASONS = ["motor_following", "motor_encoder", "motor_driver"]
FORWARD = {
    "boot": "booted",
    "idle": "arm",
    "calibrating": "calibrated",
    "armed": "run",
    "stopped": "reset",
    "fault": "reset",
}
COMMON = ["measurement"] * 80 + ["statistics"] * 25 + ["poll"] * 8 + ["overrun"] * 10
OFTEN = COMMON + [name for name in EVENTS if name not in COMMON]


def random_event(rng: np.random.Generator, s: Supervisor, t: int, sequence: int) -> tuple[str, dict[str, Any]]:
    """Any event, one in ten the one that leads on; sequences mostly count up, stamps are mostly a little old."""
    event = OFTEN[rng.integers(len(OFTEN))]
    if rng.random() < 0.1:
        event = "calibrate" if s.state == "idle" and not s.s.calibrated else FORWARD.get(s.state, event)
    elif sequence % 40 > 37 and rng.random() < 0.6:  # late steps of the motors come in bursts too
        event = "motor_late"
    payload: dict[str, Any] = {}
    if event == "measurement":
        gated = int(rng.random() < (0.9 if sequence % 200 > 180 else 0.1)) * 3  # jumps come in bursts
        payload = {
            "sequence": max(sequence + int(rng.choice([1, 1, 1, 1, 1, 0, -1, 2])), 0),
            "stamp_us": t - int(rng.choice([0, 3 * MS, 30 * MS, -MS, 99 * MS, 100 * MS, 101 * MS, -101 * MS])),
            "accepted": int(rng.random() < 0.8) * 4,
            "gated": gated,
        }
    elif event == "statistics":
        payload = {
            "nis": int(rng.exponential(900) * rng.choice([1, 1, 1, 20])),
            "variance_ratio": int(rng.exponential(40)),
            "accepted": int(rng.integers(2)),
        }
    elif event == "motor_fault":
        payload = {"reason": MOTOR_REASONS[rng.integers(3)]}
    elif event == "arm":
        payload = {"ready": bool(rng.random() < 0.8), "feedback": bool(rng.random() < 0.3)}
    return event, payload


def test_twin_and_c_agree_on_random_events() -> None:
    """30 000 events over a clock that wraps; every state is reached for every reason it has."""
    rng = np.random.default_rng(13)
    s, twin, sequence = Supervisor(offset=WORD - 100_000 * MS), Twin(), 0
    ways: set[tuple[str, str]] = set()
    for _ in range(30_000):
        after = int(rng.choice([0, MS, 5 * MS, 33 * MS, 33 * MS, 40 * MS, 80 * MS, 201 * MS, 20_000 * MS], p=JUMPS))
        event, payload = random_event(rng, s, s.t + after, sequence)
        sequence = max(sequence, payload.get("sequence", 0))
        s.send(event, after, **payload)
        twin.send(s.t, event, **payload)
        ways.add((s.state, s.reason))
        mine = (s.state, s.reason, s.refusal, s.s.transitions, s.s.refused, s.s.stale, s.s.at_end)
        assert (*mine, s.motion, s.output.ramp_left_us) == twin.seen(), (event, payload)
    reached = {(pair.next, pair.reason) for pair in pairs() if pair.next in WAYS}
    reached |= {("boot", "none"), ("boot", "reset_command"), ("idle", "no_measurement"), ("idle", "innovation")}
    assert reached <= ways <= reached | {("idle", why) for why in HELD.values()}  # the rarest are in HELD's own test


JUMPS = np.array([10, 30, 20, 20, 10, 6, 3, 1, 0.1]) / 100.1


class Invariants(RuleBasedStateMachine):
    """Any events in any order: what must hold all the same. A second supervisor lives at another time of the clock."""

    @initialize(offset=st.integers(0, WORD - 1), start=st.sampled_from(["boot", "idle", "armed", "running"]))
    def begin(self, offset: int, start: str) -> None:
        self.two = [Supervisor(), Supervisor(offset)]
        self.before = self.two[0].counters()
        self.valid: int | None = None
        self.armed = False
        way = [("booted", {}), ("calibrate", {}), ("calibrated", {}), ("arm", {"ready": True}), ("run", {})]
        for event, payload in way[: {"boot": 0, "idle": 3, "armed": 4, "running": 5}[start]]:
            if event == "run":
                self.measurement(0, 1, 0, 0, 1)
            self.send(event, **payload)

    def send(self, event: str, after: int = 0, **payload: Any) -> None:
        s = self.two[0]
        state, transitions = s.state, s.s.transitions
        for each in self.two:
            each.send(event, after, **payload)
        changed = s.s.transitions - transitions
        assert s.state == state or changed > 0
        if changed:
            assert s.reason not in ("none", "wrong_state", "not_calibrated", "no_schedule")
            assert changed <= 3  # running, holding, stopped, fault: at most
            if changed == 1:
                assert STATES[s.s.previous] == state != s.state
        if state == "fault":
            assert s.state == "fault" or event == "reset"
        self.armed |= event == "arm"

    @rule(ms=st.sampled_from([1, 5, 33, 50, 199, 200, 250, 10_000]))
    def wait(self, ms: int) -> None:
        self.send("poll", ms * MS)

    @rule(event=st.sampled_from(sorted(set(EVENTS) - {"measurement", "statistics", "arm", "motor_fault"})))
    def something(self, event: str) -> None:
        self.send(event, MS)

    @rule(ready=st.booleans(), feedback=st.booleans())
    def arm(self, ready: bool, feedback: bool) -> None:
        self.send("arm", MS, ready=ready, feedback=feedback)

    @rule(event=st.sampled_from(["calibrate", "calibrated", "arm", "run", "reset"]))
    def go_on(self, event: str) -> None:
        self.send(event, ready=True)

    @rule(nis=st.integers(0, WORD - 1) | st.integers(0, 2000), variance_ratio=st.integers(0, 300))
    def statistics(self, nis: int, variance_ratio: int) -> None:
        self.send("statistics", nis=nis, variance_ratio=variance_ratio, accepted=1)

    @rule(reason=st.sampled_from([*MOTOR_REASONS, "none"]))
    def motor_fault(self, reason: str) -> None:
        self.send("motor_fault", reason=reason)

    @rule(
        after=st.integers(0, 260 * MS) | st.just(33 * MS),
        step=st.sampled_from([1, 1, 1, 0, -1, 2**31 - 1]),
        age=st.integers(-150 * MS, 150 * MS) | st.just(0),
        gated=st.integers(0, 1),
        accepted=st.integers(0, 1),
    )
    def measurement(self, after: int, step: int, age: int, gated: int, accepted: int) -> None:
        s = self.two[0]
        taken = s.s.accepted
        sequence = (s.s.sequence + step) % WORD
        self.send("measurement", after, sequence=sequence, stamp_us=s.t + after - age, accepted=accepted, gated=gated)
        if s.s.accepted > taken:
            assert accepted
            assert step > 0 or not s.s.has_sequence or taken == 0 or self.armed
            assert abs(age) <= 100 * MS
            self.valid = s.t - max(age, 0) if self.valid is None else max(self.valid, s.t - max(age, 0))

    @invariant()
    def nothing_moves_before_arming(self) -> None:
        assert self.armed or self.two[0].motion == "off"

    @invariant()
    def motion_belongs_to_states(self) -> None:
        s = self.two[0]
        possible = {"armed": {"start"}, "running": {"follow"}, "holding": {"ramp", "hold"}, "stopped": {"ramp", "hold"}}
        assert s.motion in possible.get(s.state, {"off"})
        assert (s.output.ramp_left_us > 0) == (s.motion == "ramp")
        assert s.output.accept_upload == (s.state == "idle")

    @invariant()
    def motion_ends_within_250_ms_of_the_last_valid_measurement(self) -> None:
        s = self.two[0]
        if s.motion in ("follow", "ramp"):
            assert self.valid is not None
            assert s.t + s.output.ramp_left_us - self.valid <= 230 * MS

    @invariant()
    def forces_hold_for_200_ms_without_a_measurement(self) -> None:
        s = self.two[0]
        if s.motion == "start" and s.s.feedback:
            since = (s.t - (s.s.entered_us - s.offset)) % WORD
            assert s.s.fresh or since < 200 * MS

    @invariant()
    def counters_count_up(self) -> None:
        now = self.two[0].counters()
        assert all(now[name] >= self.before[name] for name in COUNTERS)
        self.before = now

    @invariant()
    def the_time_of_the_clock_does_not_matter(self) -> None:
        assert self.two[0].seen() == self.two[1].seen()


def test_invariants() -> None:
    run_state_machine_as_test(Invariants, settings=settings(max_examples=100, stateful_step_count=50))


def page_table(head: str) -> list[list[str]]:
    """The cells of a table of docs/supervisor.md, found by its first heading, without code quotes."""
    text = (ROOT / "docs" / "supervisor.md").read_text()
    found = re.search(rf"^\| {head} .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert found
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in found[1].splitlines()]


def test_reasons_are_the_same_in_c_python_and_the_page() -> None:
    assert {reason.value: reason.name.lower() for reason in Reason} == REASONS
    assert set(EXPLANATIONS) == set(Reason)
    rows = [[str(reason.value), reason.name.lower(), *EXPLANATIONS[reason]] for reason in Reason]
    assert page_table("code") == rows


def test_the_wire_has_the_same_states_and_reasons() -> None:
    dialect = ElementTree.parse(ROOT / "firmware" / "dialect" / "stepmap.xml")
    for name, own in (("STATE", STATES), ("REASON", REASONS)):
        entries = dialect.findall(f".//enum[@name='STEPMAP_{name}']/entry")
        wire = {int(e.attrib["value"]): e.attrib["name"].removeprefix(f"STEPMAP_{name}_").lower() for e in entries}
        assert wire == own


def test_states_events_and_transitions_of_the_page_are_those_tested() -> None:
    assert [row[:2] for row in page_table("number")] == [[str(number), name] for number, name in STATES.items()]
    assert [row[0] for row in page_table("event")] == list(EVENTS)
    rows: dict[str, list[str]] = {}
    for pair in pairs():
        rows.setdefault(pair.happening, []).append("refused" if pair.refused else pair.next.strip("."))
    page = {row[0]: row[1:] for row in page_table("happening")}
    assert page == {happening: row for happening, row in rows.items() if any(row)}


def test_limits_of_the_page_are_the_defaults() -> None:
    config = defaults()
    assert {row[0]: int(row[1]) for row in page_table("limit")} == {
        name: int(getattr(config, name)) for name, _ in config._fields_
    }


def test_reasons_in_words() -> None:
    assert explain(11).startswith("no valid measurement")
    assert "newer" in explain(200)
    for reason in Reason:
        meaning, remedy = EXPLANATIONS[reason]
        assert meaning in explain(reason)
        assert remedy in explain(reason)
