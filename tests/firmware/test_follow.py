"""sm_follow beside its integer model: targets at any time, moves that stop there, references that come along."""

from __future__ import annotations

import ctypes
import random
from dataclasses import replace
from pathlib import Path

import pytest

from stepmap_codegen import Controller
from stepmap_codegen.stream.follower import Follower, raw_limits
from stepmap_codegen.stream.settings import Quantity, Stream
from tests.firmware import native_core
from tests.firmware.loop_kinds import controller
from tests.firmware.opened import memory, opened, place


def streaming(rate: float, acceleration: float) -> Controller:
    """The cart with other limits of its set-points, in m/s and m/s²."""
    made = controller("stream")
    assert made.plant.stream is not None
    quantity = Quantity("x", "m", made.plant.stream.states[0], -0.4, 0.5, rate, acceleration)
    return replace(made, plant=replace(made.plant, stream=Stream((quantity,), 0.2)))


@pytest.mark.parametrize(("rate", "acceleration"), [(0.5, 2.0), (0.05, 4.9), (2.0, 0.7), (0.3, 29.0)])
def test_moves_are_those_of_the_model(rate: float, acceleration: float, tmp_path: Path) -> None:
    """Targets beyond limits, a little off, and while it brakes; silence, and motors that may not follow."""
    made = streaming(rate, acceleration)
    for name, content in made.files().items():
        (tmp_path / name).write_bytes(content)
    core = native_core.with_job(tmp_path, f"follow_{rate}", "sm_follow.c", "sm_schedule.c", "sm_fixed.c")
    stream, tangent = made.plant.stream, made.schedule.tangent
    assert stream is not None
    assert tangent is not None
    (raw,) = raw_limits(stream, [made.schedule.fractions[stream.states[0]]], made.program.period)
    model = Follower([raw], stream.states, made.schedule.rows[-1], tangent, 32)
    follow, schedule, fields, row = (ctypes.c_int32 * 3)(), opened(core, made), memory(made), place(made, "schedule")
    core.sm_follow_start(follow, ctypes.byref(schedule))
    last, moved = [int(v) for v in made.schedule.rows[-1]], made.plant.step.nx + made.plant.step.nu
    rng = random.Random(1)
    for _ in range(1500):
        if rng.random() < 0.1:
            near = model.value[0] + rng.randint(-3, 3) * rng.choice([1, raw.change // 2, raw.step])
            exact = model.next[0] + rng.choice([-1, 1]) * rng.choice([raw.change, raw.step])  # off by just a limit
            target = rng.choice([rng.randint(2 * raw.low, 2 * raw.high), near, exact])
            model.take([target])
            core.sm_follow_set(follow, 0, target)
        moves, heard = rng.random() < 0.98, rng.random() < 0.95
        fields[row : row + len(last)] = last
        core.sm_follow_step(follow, ctypes.byref(schedule), fields, True, moves, heard)
        model.step(moves=moves, lost=not heard)
        assert list(follow) == [model.target[0], model.value[0], model.next[0]]
        assert fields[row : row + len(last)] == model.reference(moved)
    assert fields[len(fields) - 1] == 0  # overflows


def test_nothing_is_added_before_the_schedule_is_over(tmp_path: Path) -> None:
    made = streaming(0.5, 2.0)
    for name, content in made.files().items():
        (tmp_path / name).write_bytes(content)
    core = native_core.with_job(tmp_path, "follow", "sm_follow.c", "sm_schedule.c", "sm_fixed.c")
    follow, schedule, fields, row = (ctypes.c_int32 * 3)(), opened(core, made), memory(made), place(made, "schedule")
    core.sm_follow_start(follow, ctypes.byref(schedule))
    begin = list(follow)
    core.sm_follow_set(follow, 0, begin[0] + 1000)
    before = list(fields)
    for _ in range(5):
        core.sm_follow_step(follow, ctypes.byref(schedule), fields, False, True, True)
    assert list(fields) == before
    assert list(follow) == [begin[0] + 1000, *begin[1:]]
    fields[row] = 2**31 - 1  # a reference at the end of its format saturates, and that is counted
    follow[1] = follow[2] = -(2**31)
    core.sm_follow_step(follow, ctypes.byref(schedule), fields, True, False, True)
    assert fields[len(fields) - 1] > 0
