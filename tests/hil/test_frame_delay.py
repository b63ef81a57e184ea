"""Frames that come late: seeded, on the grid of exchanges, never so late that the board does without them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepmap.errors import JobError
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.bench.settings import read_settings
from stepmap_hil.report.summary import bit_exact
from stepmap_hil.sensors.frame_delay import FrameDelay
from tests.hil.rigs import quiet, rig
from tests.pil.built import JOB

PERIOD, GRID = 1 / 30, 1 / 30 / 64


def delays(jitter: float, count: int = 4000, seed: int = 1) -> np.ndarray:
    frame_delay = FrameDelay(jitter, GRID, PERIOD, seed)
    return np.array([frame_delay.next() for _ in range(count)])


def test_delays_are_those_of_half_a_bell() -> None:
    """Mean √(2/π) σ and deviation √(1 − 2/π) σ; 4000 of them give both to 2 %, rounding adds 1 % at most."""
    found = delays(0.003)
    assert found.mean() == pytest.approx(0.003 * np.sqrt(2 / np.pi), rel=0.05)
    assert found.std() == pytest.approx(0.003 * np.sqrt(1 - 2 / np.pi), rel=0.05)
    assert np.abs(found / GRID - np.round(found / GRID)).max() < 1e-9


def test_none_is_half_a_period_late() -> None:
    found = delays(0.02)
    assert found.min() >= 0
    assert 0.4 * PERIOD < found.max() < 0.5 * PERIOD


def test_a_seed_gives_the_same_delays() -> None:
    assert (delays(0.002) == delays(0.002)).all()
    assert (delays(0.002) != delays(0.002, seed=2)).any()
    assert (delays(0.0, 10) == 0).all()


def test_a_run_with_late_frames_loses_none_and_is_the_same_again() -> None:
    made = rig(ticks=60)
    late = replace(made, settings=replace(made.settings, jitter=0.004))
    runs = [closed_loop(one, None, quiet) for one in (late, late, replace(late, seed=2))]
    assert runs[0].digest() == runs[1].digest() != runs[2].digest()
    rows = [row for row in runs[0].rows if row.running]
    assert len(rows) == 60
    assert all(row.measured for row in rows)  # no tick was done without its frame
    apart = np.diff([row.time for row in rows])
    assert apart.mean() == pytest.approx(PERIOD, rel=0.02)
    # Of two independent delays: √2 √(1 − 2/π) 4 ms = 3.4 ms; 60 of them tell it to 10 % (one deviation).
    assert apart.std() == pytest.approx(0.0034, rel=0.35)
    assert bit_exact(late.controller, runs[0]) is True


def test_without_jitter_frames_come_every_period() -> None:
    made = rig(ticks=20)
    run = closed_loop(replace(made, settings=replace(made.settings, jitter=0.0)), None, quiet)
    assert np.ptp(np.diff([row.time for row in run.rows])) < 1e-9


def test_the_main_job_has_jitter_and_mistakes_are_found(tmp_path: Path) -> None:
    assert read_settings(JOB).jitter == pytest.approx(0.002)
    file = tmp_path / "job.toml"
    file.write_text("[bench]\njitter = -0.001\n")
    with pytest.raises(JobError, match="at least 0 s") as caught:
        read_settings(file)
    assert caught.value.line == 2
