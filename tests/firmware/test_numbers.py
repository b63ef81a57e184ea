"""Conversions between formats, motor units and messages, against exact arithmetic: in fixed and in floating point."""

from __future__ import annotations

import ctypes
import json
import math
import re
import shutil
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.firmware import native_core
from tests.firmware.loop_board import generated

TOP, LEAST = 2**31 - 1, -(2**31)
TRAVEL = 1 << 29  # Q8 counts: SM_MOTOR_TRAVEL
NUMBERS = [LEAST, -1_234_567_891, -65_537, -257, -3, -1, 0, 1, 2, 300, 40_000, 987_654_321, TOP]


class Numbers:
    """sm_numbers of a job, and a controller's memory."""

    def __init__(self, name: str, folder: Path) -> None:
        fields = json.loads((folder / "signals.json").read_text())["fields"]
        self.first = {entry["role"]: k for k, entry in reversed(list(enumerate(fields)))}  # place of each role
        self.fixed = "float" not in name
        self.kind: Any = ctypes.c_int32 if self.fixed else ctypes.c_float
        self.core = native_core.with_job(folder, f"numbers_{folder.name}", "sm_numbers.c", "sm_fixed.c", "sm_motor.c")
        for function in ("limit_command", "state_as_command", "measured_as_command", "from_wire"):
            getattr(self.core, f"sm_numbers_{function}").restype = self.kind
        for function in ("nis", "variance_ratio"):
            getattr(self.core, f"sm_numbers_{function}").restype = ctypes.c_uint32
        self.memory = (self.kind * (len(fields) + 1))()

    def call(self, function: str, *words: Any) -> Any:
        return getattr(self.core, f"sm_numbers_{function}")(*words)

    def limit(self, i: int, wanted: float, last: float) -> tuple[float, int]:
        """(applied, counted)."""
        count = ctypes.c_uint32()
        return self.call("limit_command", i, self.kind(wanted), self.kind(last), ctypes.byref(count)), count.value


@cache
def numbers(name: str) -> Numbers:
    return Numbers(name, generated(name))


def shifted(value: int, right: int) -> int:
    if abs(right) > 30:
        return 0
    if right > 0:
        return math.floor(Fraction(value, 2**right) + Fraction(1, 2))
    return max(LEAST, min(TOP, value << -right)) >> -right << -right  # zeros are shifted in


@pytest.mark.parametrize("bits", [-1, 0, 12, 30, 60, 61])
def test_states_and_measurements_in_the_format_of_commands(bits: int, tmp_path: Path) -> None:
    """Whatever the formats are; without a common digit it is 0."""
    folder = tmp_path / f"commands_of_{bits}"
    shutil.copytree(generated("suspended_mass"), folder)
    header = (folder / "controller.h").read_text()
    assert header.count("SM_U_BITS {30, 29}") == 1
    (folder / "controller.h").write_text(header.replace("SM_U_BITS {30, 29}", f"SM_U_BITS {{{bits}, 29}}"))
    made = Numbers("suspended_mass", folder)
    for value in NUMBERS:
        made.memory[made.first["estimate"] + 2] = made.memory[made.first["measurement"] + 2] = value
        assert made.call("state_as_command", made.memory, 0) == shifted(value, 30 - bits)
        assert made.call("measured_as_command", made.memory, 0) == shifted(value, 29 - bits)


def test_a_force_has_neither_state_nor_measurement() -> None:
    for name in ("cart_pendulum", "stream_float32"):
        made = numbers(name)
        for k in range(len(made.memory)):
            made.memory[k] = 12345
        assert made.call("state_as_command", made.memory, 0) == 0
        assert made.call("measured_as_command", made.memory, 0) == 0


def test_positions_in_floating_point_are_states_and_measurements() -> None:
    made = numbers("float32")
    for k in range(len(made.memory)):
        made.memory[k] = k
    for role, function in (("estimate", "state_as_command"), ("measurement", "measured_as_command")):
        first = made.first[role]
        assert [made.call(function, made.memory, i) for i in (0, 1)] == [first + 2, first + 3]


def test_motors_get_positions_within_their_travel_and_a_limit_of_what_is_no_number() -> None:
    made = numbers("float32")
    scale = made.call("as_motor", 0, ctypes.c_float(1.0))
    assert scale == 20000 * 256
    cases = {0.5: scale // 2, -0.25: -scale // 4, 1e30: TRAVEL, -1e30: -TRAVEL, math.inf: TRAVEL, -math.inf: -TRAVEL}
    for value, wanted in cases.items():
        assert made.call("as_motor", 0, ctypes.c_float(value)) == wanted
    assert abs(made.call("as_motor", 0, ctypes.c_float(math.nan))) == TRAVEL


def limits(name: str) -> list[tuple[float, float, float]]:
    """(low, high, most in one tick) of each command, as generated."""
    words = {}
    for file in ("controller.h", "robot.h"):
        for macro, values in re.findall(r"#define (SM_U_\w+) \{(.*?)\}", (generated(name) / file).read_text()):
            words[macro] = [float(v.strip(" ()F")) for v in values.split(",")]
    return list(zip(words["SM_U_LOW"], words["SM_U_HIGH"], words["SM_U_STEP"], strict=True))


@pytest.mark.parametrize("name", ["suspended_mass", "float32"])
def test_commands_are_limited_in_range_and_change_and_counted(name: str) -> None:
    made = numbers(name)
    rng = np.random.default_rng(6)
    for i, (low, high, step) in enumerate(limits(name)):
        wide, counted = high - low, 0
        for wanted, part in zip(
            rng.uniform(low - 0.3 * wide, high + 0.3 * wide, 60), rng.uniform(size=60), strict=True
        ):
            last = wanted if part < 0.3 else low + part * wide
            if made.fixed:
                wanted, last = int(wanted), int(last)
            else:
                wanted, last = float(np.float32(wanted)), float(np.float32(last))
            expected = min(max(min(max(wanted, low), high), last - step), last + step)
            applied, count = made.limit(i, wanted, last)
            assert applied == (expected if made.fixed else pytest.approx(expected, abs=1e-6))
            assert count == (0 if applied == wanted else 1)
            counted += count
        middle = (low + high) / 2
        assert made.limit(i, int(middle) if made.fixed else middle, int(middle) if made.fixed else middle)[1] == 0
        assert 0 < counted < 60


def test_a_command_that_is_no_number_becomes_a_limit() -> None:
    made = numbers("float32")
    for i, (low, _, step) in enumerate(limits("float32")):
        for last in (low, low + 3 * step):
            assert made.limit(i, math.nan, last)[0] == pytest.approx(max(low, last - step))


def test_innovations_and_variances_as_ratios_in_floating_point() -> None:
    made = numbers("float32")
    e, s = made.first["innovation"], made.first["innovation variance"]
    cases = {(0.3, 0.09): 256, (0.0, 1.0): 0, (3.0, 1.0): 9 * 256, (1e30, 1e-30): 10**9, (math.nan, 1.0): 10**9}
    for (innovation, variance), wanted in cases.items():
        made.memory[e], made.memory[s] = innovation, variance
        assert made.call("nis", made.memory, 0) == pytest.approx(wanted, abs=1)
    ratio = {
        (1.0, 1.0): 256,
        (0.5, 2.0): 64,
        (1e30, 1e-6): 2**32 - 1,
        (math.nan, 1.0): 2**32 - 1,
        (-1.0, 1.0): 2**32 - 1,
    }
    for (variance, limit), wanted in ratio.items():
        assert made.call("variance_ratio", ctypes.c_float(variance), ctypes.c_float(limit)) == wanted


def test_words_of_messages_are_the_bits_of_floats() -> None:
    made = numbers("float32")
    for value in (0.0, -0.0, 1.5, -3e30, math.inf):
        bits = int(np.float32(value).view(np.int32))
        assert made.call("to_wire", ctypes.c_float(value)) == bits
        assert np.float32(made.call("from_wire", bits)).tobytes() == np.float32(value).tobytes()
