"""The table [board]: efforts from the limits of forces, and encoders that a board measures with."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap.errors import JobError
from stepmap.toml.tables import Table, read
from stepmap_codegen.emit.encoders import Encoder, MeasuredStart, encoder_count, encoder_format, read_encoders
from stepmap_codegen.emit.motors import read_axes


def wheel(low: float = -0.3, high: float = 0.3) -> sm.System:
    """A pendulum with a weak motor, an encoder and a marker."""
    b = sm.Builder("wheel")
    theta = b.coordinate("theta", unit="rad", low=-4, high=4)
    b.mass(b.world.rz(theta).ty(-1.0, name="bob"), 1.0)
    b.drive(theta, b.input("torque", unit="N m", low=low, high=high))
    b.encoder(theta)
    return b.build()


def board(tmp_path: Path, text: str) -> Table:
    file = tmp_path / "job.toml"
    file.write_text(text)
    return read(file).table("board")


@pytest.mark.parametrize(("low", "high", "scale"), [(-0.3, 0.3, 1000 / 0.3), (0.0, 6.0, 1000 / 6), (-5.0, 200.0, 5.0)])
def test_full_effort_is_at_the_larger_limit(low: float, high: float, scale: float, tmp_path: Path) -> None:
    [axis] = read_axes(board(tmp_path, ""), wheel(low, high))
    assert axis.effort_per_unit == pytest.approx(scale)


def test_too_few_levels_are_refused_with_the_numbers(tmp_path: Path) -> None:
    table = board(tmp_path, "[board.axes.torque]\neffort_per_unit = 5\n")
    with pytest.raises(JobError, match=re.escape("5 per mille per unit leaves 5 distinct efforts for torque")) as told:
        read_axes(table, wheel())
    assert told.value.line == 2
    assert "-0.3 to 0.3 N m" in str(told.value)
    assert "full effort is then at 0.3 N m (3333 per unit)" in (told.value.hint or "")
    at_least = board(tmp_path, "[board.axes.torque]\neffort_per_unit = 165\n")  # -50 … 50 per mille
    assert read_axes(at_least, wheel())[0].effort_per_unit == 165


def test_full_effort_before_the_limit_is_refused(tmp_path: Path) -> None:
    table = board(tmp_path, "[board.axes.torque]\neffort_per_unit = 5000\n")
    with pytest.raises(JobError, match=re.escape("is full effort at 0.2, and torque goes from -0.3 to 0.3 N m")):
        read_axes(table, wheel())


def test_gains_that_the_firmware_cannot_hold_are_refused(tmp_path: Path) -> None:
    text = "[board.axes.xr]\ncounts_per_unit = {counts}\nbandwidth = {bandwidth}\n"
    system = sm.systems.get("suspended_mass")
    table = board(tmp_path, text.format(counts=20000, bandwidth=200))
    # Of a motor of 60 counts/ms at full effort, with 30 ms of lag: kv = 12 · 1000/60 per mille · 500 = 1e5 of 65535.
    with pytest.raises(JobError, match=re.escape("gains are up to 1.53 times what the firmware holds")) as told:
        read_axes(table, system)
    assert told.value.line == 3
    assert "smaller bandwidth" in (told.value.hint or "")
    assert read_axes(board(tmp_path, text.format(counts=20000, bandwidth=80)), system)


# Encoders

OWN = '[board]\nmeasure = "encoders"\n'


def read_own(table: Table, system: sm.System, sigma: float = 0.01, delay: float = 0.0) -> list[Encoder]:
    return read_encoders(table, system, read_axes(table, system), np.array([sigma]), delay)


def test_the_host_measures_unless_the_job_says_so(tmp_path: Path) -> None:
    assert read_own(board(tmp_path, ""), wheel()) == []
    assert encoder_count(board(tmp_path, ""), wheel()) == 0
    assert encoder_count(board(tmp_path, OWN), wheel()) == 1
    [encoder] = read_own(board(tmp_path, OWN), wheel())
    assert (encoder.channel, encoder.counts_per_unit) == ("theta", pytest.approx(16384 / (2 * np.pi)))
    [encoder] = read_own(board(tmp_path, OWN + "[board.encoders.theta]\ncounts_per_unit = 700\n"), wheel())
    assert encoder.counts_per_unit == 700


@pytest.mark.parametrize(
    ("text", "given", "told"),
    [
        ("[board.encoders.theta]\ncounts_per_unit = 7\n", {}, 'says nothing without measure = "encoders"'),
        (OWN + "[board.encoders.phi]\ncounts_per_unit = 7\n", {}, "no channel is called 'phi'"),
        (OWN + "[board.encoders.theta]\ncounts_per_unit = -7\n", {}, "must be positive"),
        (OWN, {"delay": 0.01}, "a board reads its own encoders when it ticks"),
        (OWN, {"sigma": 1e-5}, "one count of theta is 0.000383, and its noise in [noise.measurement] is 1e-05"),
        ('[board]\nmeasure = "eyes"\n', {}, "measure"),
    ],
)
def test_what_encoders_cannot_do_is_refused(text: str, given: dict[str, float], told: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=re.escape(told)):
        read_own(board(tmp_path, text), wheel(), **given)


def test_encoders_read_no_markers(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=re.escape("sensor 'mass' of system 'suspended_mass' reads a position")):
        read_own(board(tmp_path, OWN), sm.systems.get("suspended_mass"))


@pytest.mark.parametrize("fraction", [10, 24, 29])
@pytest.mark.parametrize("counts_per_unit", [3.0, 2607.6, 1e6])
def test_counts_become_raw_values_to_half_a_unit(fraction: int, counts_per_unit: float) -> None:
    """Against numbers in floating point; a channel that is too large saturates."""
    made = encoder_format(MeasuredStart(Encoder("q", counts_per_unit), -0.7), fraction)
    for counts in (-100000, -1, 0, 1, 7, 100000):
        exact = -0.7 * 2.0**fraction + counts / counts_per_unit * 2.0**fraction
        assert made.raw(counts) == pytest.approx(np.clip(exact, 1 - 2**31, 2**31 - 1), abs=1.01 + 1e-8 * abs(exact))
