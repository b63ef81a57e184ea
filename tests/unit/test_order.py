"""The order in which the processes of a test run get their tests."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tests.order import SHORT, SLOW, dealt
from tests.pages import ROOT
from tests.turns import Turns


def module(item: str) -> str:
    return item.split("::")[0]


def is_alone(item: str) -> bool:
    return item.endswith("clock")


ITEMS = [f"unit/test_{k}.py::{test}" for k in range(10) for test in ("a", "b")]
ITEMS[5:5] = ["unit/test_time.py::clock", "unit/test_time.py::a", "unit/test_time.py::other clock"]
ITEMS[8:8] = [f"{SLOW[1]}::a", f"{SLOW[0]}::a", f"{SLOW[0]}::b"]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 40])
def test_every_test_is_there_once(workers: int) -> None:
    made = dealt(ITEMS, workers, module, is_alone)
    assert sorted(made) == sorted(ITEMS)
    at = made.index("unit/test_time.py::clock")
    assert made[at : at + 3] == ["unit/test_time.py::clock", "unit/test_time.py::other clock", "unit/test_time.py::a"]


def test_every_part_begins_with_its_share_of_the_slow_ones() -> None:
    """Those that are to be alone come first; meanwhile the others have short ones."""
    made = dealt(ITEMS, 2, module, is_alone)
    short = ITEMS[-(made.index(f"{SLOW[0]}::a")) :]
    assert 0 < len(short) <= SHORT
    assert made[: len(short) + 2] == [*short, f"{SLOW[0]}::a", f"{SLOW[0]}::b"]
    second = made[len(ITEMS) // 2 :]
    assert [name.split("::")[1] for name in second[:3]] == ["clock", "other clock", "a"]
    assert second[3] == f"{SLOW[1]}::a"


def test_what_they_need_is_made_before_them() -> None:
    made = dealt(ITEMS, 2, module, is_alone, lambda item: item == "unit/test_time.py::a")
    assert sorted(made) == sorted(ITEMS)
    assert [name.split("::")[1] for name in made[len(ITEMS) // 2 :][:3]] == ["a", "clock", "other clock"]


def test_without_any_that_are_alone_the_slow_ones_begin() -> None:
    made = dealt([item for item in ITEMS if not is_alone(item)], 2, module, is_alone)
    assert made[0] == f"{SLOW[0]}::a"


def test_turns_are_kept_over_tests_that_are_to_be_alone(tmp_path: Path) -> None:
    """From the first to the last of them nobody else comes in; after an ordinary test somebody does."""
    held = Turns(tmp_path)

    def closed() -> bool:
        with (tmp_path / "gate").open("w") as gate:
            try:
                fcntl.flock(gate, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    with held.turn(alone=False, next_alone=True):
        assert not closed()
    with held.turn(alone=True, next_alone=True):
        assert closed()
    assert closed()
    with held.turn(alone=True, next_alone=False):
        assert closed()
    assert not closed()


def test_slow_modules_are_there() -> None:
    assert [name for name in SLOW if not (ROOT / "tests" / name).exists()] == []
