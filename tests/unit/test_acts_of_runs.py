"""Acts of a play in a run: told once, at the tick the board reports, and scored between their begins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from stepmap_hil.runs.acts import Begins, first_tick, metrics
from stepmap_hil.runs.log import Row
from stepmap_hil.wire import dialect

ACTS = ((0.0, "hang"), (0.25, "wave"), (0.4, "aside"))
RUNNING, HOLDING = (dialect.value(f"STEPMAP_STATE_{name}") for name in ("RUNNING", "HOLDING"))


def row(tick: int, *, running: bool = True, state: int = RUNNING) -> Row:
    return cast(Row, SimpleNamespace(tick=tick, running=running, state=state))


def test_an_act_begins_with_the_tick_of_the_board() -> None:
    begins = Begins(ACTS, 0.1)
    told = [list(begins.passed(one)) for one in [row(0, running=False), *map(row, range(6))]]
    assert told == [[], ["hang"], [], [], ["wave"], ["aside"], []]


def test_ticks_that_no_telemetry_came_of_pass_acts_too() -> None:
    begins = Begins(ACTS, 0.1)
    assert [list(begins.passed(row(k))) for k in (0, 9, 10)] == [["hang"], ["wave", "aside"], []]


def test_a_board_that_holds_plays_nothing() -> None:
    begins = Begins(ACTS, 0.1)
    assert not list(begins.passed(row(3, state=HOLDING)))


def test_a_begin_at_a_node_is_not_rounded_past_it() -> None:
    assert [first_tick(k * (1 / 30), 1 / 30) for k in range(300)] == list(range(300))


def test_scores_are_those_between_begins() -> None:
    tick = np.arange(4)  # the run ends before the last act
    off = np.array([1.0, 2.0, 2.0, 5.0])
    ticks: Any = SimpleNamespace(tick=tick, time=0.1 * tick)
    found = metrics(ACTS, 0.1, ticks, off)
    assert [one["begins"] for one in found] == [0.0, pytest.approx(0.3), None]
    assert found[0]["tracking_rms_m"] == pytest.approx(3**0.5)
    assert (found[1]["tracking_rms_m"], found[2]["tracking_rms_m"]) == (5.0, None)
    assert metrics(ACTS, 0.1, ticks, None)[0]["tracking_rms_m"] is None
