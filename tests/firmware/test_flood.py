"""Emulated boards that run while somebody without the key fills the line; tests/bench/flood.py has the whole minute."""

from __future__ import annotations

import re

import pytest

from tests.bench.flood import ROOT, SHIFT, flood, holds

SECONDS = 6.0  # one round: calibrate, arm, run for two seconds, stop
ATTACKS = ("begun frames", "nested frames", "signatures of 2 blocks", "longest frames, wrong signature")


def documented(board: str) -> tuple[int, float]:
    """Instructions of the longest turn and milliseconds between steps of the motors that docs/firmware.md promises."""
    page = (ROOT / "docs" / "firmware.md").read_text()
    found = re.search(rf"\| `{board}` \| ([\d ]+) \| ([\d.]+) ms \|", page)
    assert found, "the table of the flood is gone"
    return int(found[1].replace(" ", "")), float(found[2])


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("board", sorted(SHIFT))
def test_a_board_that_is_flooded_misses_no_tick_and_stops(board: str, attack: str) -> None:
    row = flood(board, attack, SECONDS)
    turn, gap = documented(board)
    assert row["stops"] == 1
    assert holds(row), row
    assert row["longest_turn_instructions"] <= turn
    assert row["longest_motor_gap_ms"] <= gap
