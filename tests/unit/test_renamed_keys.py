"""Keys of files by the names they had in the last release: taken, with one hint; refused beside the new name."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepmap.errors import JobError
from stepmap.toml.tables import RenamedKeyWarning, Table, read
from stepmap_codegen import generate
from stepmap_codegen.emit import motors
from stepmap_hil.bench.settings import settings_in
from tests.sil.controllers import suspended_mass

ROOT = Path(__file__).parents[2]
JOB = ROOT / "examples" / "suspended_mass.toml"


def axis(root: Table) -> motors.Axis:
    return motors.read_axes(root.table("board"), suspended_mass()[0].plant.step.system)[0]


def delay(root: Table) -> float:
    return motors.read_sensor_delay(root.table("board"), suspended_mass()[0].program.period)


KEYS: dict[tuple[str, str, str], tuple[float, Callable[[Table], Any]]] = {
    ("board", "late", "sensor_delay"): (0.012, delay),
    ("board.axes.xr", "lag", "time_constant"): (0.02, lambda root: axis(root).time_constant),
    ("board.axes.xr", "stiffness", "bandwidth"): (60.0, lambda root: axis(root).bandwidth),
    ("board.axes.xr", "following", "following_limit"): (0.01, lambda root: axis(root).following_limit),
    ("codegen", "room", "headroom"): (3.0, lambda root: generate.choices_in(root).options.headroom),
    ("bench", "substeps", "io_cycles"): (5, lambda root: settings_in(root).io_cycles),
    ("bench.plant.motor", "lag", "time_constant_factor"): (
        1.1,
        lambda root: settings_in(root).plant.motor.time_constant_factor,
    ),
    ("bench.plant.motor", "strength", "gain_factor"): (0.8, lambda root: settings_in(root).plant.motor.gain_factor),
}


def written(tmp_path: Path, table: str, *keys: str) -> Table:
    path = tmp_path / "some.toml"
    path.write_text("\n".join([f"[{table}]", *keys, ""]))
    return read(path)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key[0]}.{key[1]}")
def test_an_old_name_is_taken_with_a_hint(key: tuple[str, str, str], tmp_path: Path) -> None:
    table, old, new = key
    value, reader = KEYS[key]
    root = written(tmp_path, table, f"{old} = {value}")
    with pytest.warns(RenamedKeyWarning, match=f"some.toml:2: {table}.{old}: is called '{new}' now"):
        assert reader(root) == value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reader(written(tmp_path, table, f"{new} = {value}")) == value


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key[0]}.{key[1]}")
def test_both_names_are_an_error_with_a_line(key: tuple[str, str, str], tmp_path: Path) -> None:
    table, old, new = key
    value, reader = KEYS[key]
    root = written(tmp_path, table, f"{new} = {value}", f"{old} = {value}")
    with pytest.raises(JobError, match=f"some.toml:3: {table}.{old}: give '{new}' alone"):
        reader(root)


def test_mistakes_behind_an_old_name_have_its_line(tmp_path: Path) -> None:
    root = written(tmp_path, "bench", "jitter = 0.001", "substeps = 0")
    with (
        pytest.warns(RenamedKeyWarning),
        pytest.raises(JobError, match=r"some.toml:3: bench.io_cycles: must be 1 to 100"),
    ):
        settings_in(root)


def test_the_command_line_hints_once(tmp_path: Path) -> None:
    """Though the table is read for the axes, for the delay and for the digest."""
    job = tmp_path / "job.toml"
    job.write_text(JOB.read_text().replace("[board.axes.xr]", "[board]\nlate = 0.01\n[board.axes.xr]"))
    command = [sys.executable, "-m", "stepmap.cli", "ranges", job.name, "--build", "build"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    hints = [line for line in done.stderr.splitlines() if line.startswith("hint: ")]
    line = job.read_text().splitlines().index("late = 0.01") + 1
    now = "is called 'sensor_delay' now; the next release does not take 'late' any more"
    assert hints == [f"hint: job.toml:{line}: board.late: {now}"]
