"""A few runs of `make soak`, which goes on for hours: the same bytes each time, and broken promises are noticed."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.firmware.soak import Soak, library

RUNS = 12


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return library(Path(tmp_path_factory.mktemp("soak")), optimize="-O0")


def test_runs_with_random_faults_are_the_same_each_time(core: ctypes.CDLL) -> None:
    digests = []
    for seed in (1, 1, 2):
        board = Soak(core, seed)
        assert [board.run() for _ in range(RUNS)] == [""] * RUNS
        counts, digest = board.told()
        assert 0 < counts.real_runs < counts.runs == RUNS
        assert counts.ticks > 50 * RUNS
        assert counts.uptime_wraps > 0
        digests.append(digest)
    assert digests[0] == digests[1] != digests[2]


def test_broken_promises_are_noticed(core: ctypes.CDLL) -> None:
    board = Soak(core, 3)
    core.port_drive(0, 5)  # an effort while power is off
    assert board.run() == "f.disobeyed == 0U"
