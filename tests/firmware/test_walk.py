"""sm_walk: the row nearest to a pose is that of the model, and contacts are landings when they can be."""

from __future__ import annotations

import ctypes
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from stepmap_codegen.model import nearest
from tests.firmware import native_core
from tests.firmware.loop_board import generated
from tests.firmware.loop_kinds import controller
from tests.firmware.opened import memory, opened

TOP, LEAST = 2**31 - 1, -(2**31)
W = native_core.types("sm_walk.h")


@pytest.fixture
def walk() -> tuple[ctypes.CDLL, Any]:
    """sm_walk with the rolling wheel's controller, and its schedule."""
    files = ("sm_walk.c", "sm_schedule.c", "sm_fixed.c", "controller.c")
    core = native_core.with_job(generated("walk"), "walk", *files)
    core.sm_walk_nearest.restype = ctypes.c_uint32
    core.sm_walk_copy_row.restype = ctypes.c_bool
    return core, opened(core, controller("walk"))


def in_state(pose: int) -> int:
    """A pose in the format of the schedule, in that of the estimate."""
    made = controller("walk")
    left = made.description()["fields"][0]["bits"] - made.schedule.fractions[0]
    return max(LEAST, min(TOP, pose << left if left > 0 else pose >> -left))


def test_the_nearest_row_is_that_of_the_model(walk: tuple[ctypes.CDLL, Any]) -> None:
    """Poses along the step, off it, and farther off than what is compared can say; from any expected row."""
    core, schedule = walk
    made, rng = controller("walk"), random.Random(7)
    rows, fractions = made.schedule.rows, made.schedule.fractions[:1]
    bits = [made.description()["fields"][0]["bits"]]
    for _ in range(1000):
        spread = rng.choice([0, 1 << 20, 1 << 27, 1 << 30])
        x = (ctypes.c_int32 * 8)(in_state(int(rows[rng.randrange(len(rows)), 0]) + rng.randint(-spread, spread)))
        expected = rng.choice([0, 1, 2, 3, 4, len(rows) - 1, len(rows), len(rows) + 2, rng.randrange(len(rows))])
        found = core.sm_walk_nearest(ctypes.byref(schedule), x, expected)
        assert found == nearest.nearest([x[0]], rows, expected, bits, fractions)
    for expected in (len(rows) + 3, len(rows) + 50):  # the last one, where none is within reach
        assert core.sm_walk_nearest(ctypes.byref(schedule), x, expected) == len(rows) - 1


def test_all_coordinates_of_a_pose_count(tmp_path: Path) -> None:
    """The wheel has one; with its momentum taken for another, rows are told apart by both."""
    folder = tmp_path / "two"
    shutil.copytree(generated("walk"), folder)
    header = (folder / "controller.h").read_text()
    assert header.count("SM_GAIT_POSE 1 ") == 1
    (folder / "controller.h").write_text(header.replace("SM_GAIT_POSE 1 ", "SM_GAIT_POSE 2 "))
    core = native_core.with_job(folder, "walk_two", "sm_walk.c", "sm_schedule.c", "sm_fixed.c", "controller.c")
    core.sm_walk_nearest.restype = ctypes.c_uint32
    made, rng = controller("walk"), random.Random(8)
    schedule, rows, fractions = opened(core, made), made.schedule.rows, made.schedule.fractions[:2]
    bits = [entry["bits"] for entry in made.description()["fields"][:2]]
    alone = 0
    for _ in range(300):
        x = (ctypes.c_int32 * 8)(*(rng.randint(-(1 << 28), 1 << 28) for _ in range(2)))
        expected = rng.randrange(len(rows))
        found = core.sm_walk_nearest(ctypes.byref(schedule), x, expected)
        assert found == nearest.nearest(list(x[:2]), rows, expected, bits, fractions)
        alone += found != nearest.nearest([x[0]], rows, expected, bits[:1], fractions[:1])
    assert alone > 30


def test_a_contact_is_a_landing_in_the_second_half_of_a_step_alone(walk: tuple[ctypes.CDLL, Any]) -> None:
    core, schedule = walk
    made, w = controller("walk"), W.sm_walk()
    half = made.schedule.gait // 2
    for contact in (False, True):
        for has_row in (False, True):
            for row in (0, half - 1, half, half + 1, schedule.gait, schedule.count - 1):
                fields = memory(made)
                w.row, w.has_row, w.ticks = row, has_row, 7
                core.sm_walk_begin(ctypes.byref(w), fields, ctypes.byref(schedule), contact, 123)
                assert w.landed == (contact and has_row and row >= half)
                assert w.ticks == (0 if w.landed else 7)
                assert (123 in list(fields)) == w.landed  # how long ago it was


def test_steps_that_take_too_long_are_told(walk: tuple[ctypes.CDLL, Any]) -> None:
    """At the last row, and after all rows and six ticks, wherever the pose is."""
    core, schedule = walk
    made, w, fields = controller("walk"), W.sm_walk(), memory(controller("walk"))
    core.sm_walk_start(ctypes.byref(w), fields)
    for tick in range(1, schedule.count + 10):
        over = core.sm_walk_copy_row(ctypes.byref(w), fields, ctypes.byref(schedule))
        assert w.ticks == tick
        assert (w.row, over) == (0, tick > schedule.count + nearest.AHEAD)
        assert not w.landed
    for before, over in ((schedule.count - 2, True), (schedule.count - 3, False)):
        w.ticks, w.row = 1, before
        fields[0] = in_state(int(made.schedule.rows[before + 1, 0]))
        assert core.sm_walk_copy_row(ctypes.byref(w), fields, ctypes.byref(schedule)) == over
        assert w.row == before + 1
