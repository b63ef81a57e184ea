"""The order in which the processes of a test run get their tests."""

from __future__ import annotations

import pytest

from tests.order import SLOW, dealt
from tests.pages import ROOT


def module(item: str) -> str:
    return item.split("::")[0]


def is_alone(item: str) -> bool:
    return item.endswith("clock")


ITEMS = [f"unit/test_{k}.py::{test}" for k in range(10) for test in ("a", "b")]
ITEMS[5:5] = ["unit/test_time.py::clock", "unit/test_time.py::a", f"{SLOW[1]}::a", f"{SLOW[0]}::a", f"{SLOW[0]}::b"]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 40])
def test_every_test_is_there_once(workers: int) -> None:
    made = dealt(ITEMS, workers, module, is_alone)
    assert sorted(made) == sorted(ITEMS)
    at = made.index("unit/test_time.py::clock")
    assert made[at + 1] == "unit/test_time.py::a"


def test_every_part_begins_with_its_share_of_the_slow_ones() -> None:
    made = dealt(ITEMS, 2, module, is_alone)
    assert made[:2] == [f"{SLOW[0]}::a", f"{SLOW[0]}::b"]
    second = made[len(ITEMS) // 2 :]
    assert second[:3] == [f"{SLOW[1]}::a", "unit/test_time.py::clock", "unit/test_time.py::a"]


def test_slow_modules_are_there() -> None:
    assert [name for name in SLOW if not (ROOT / "tests" / name).exists()] == []
