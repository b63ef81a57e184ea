"""Campaigns on the bench: rows are what runs are, whatever process makes them."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from stepmap.campaigns import load
from stepmap.errors import JobError
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.report.series import series
from stepmap_hil.report.summary import bit_exact, summarize
from tests.hil.rigs import FAULTS, quiet, rig
from tests.pil.built import JOB, KEY_FILE, OUT

TEXT = """
[campaign]
kind = "bench"
job = "{job}"
trials = 2
seed = 1
chunk = 2
[bench]
sensor = "gaussian"
seconds = 2.0
[grid]
faults = ["none", "{faults}/occluded.toml"]
bench.plant.system.mass = [0.1, 0.12]
"""


def written(folder: Path, text: str = TEXT) -> Path:
    path = folder / "trials.toml"
    path.write_text(text.replace("{job}", str(JOB)).replace("{faults}", str(FAULTS)))
    return path


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A build folder in which everything is done already, with the key of all tests."""
    rig()
    shutil.copytree(OUT / "suspended_mass", tmp_path / "build" / "suspended_mass")
    shutil.copy(KEY_FILE, tmp_path / "build" / "suspended_mass" / "key")
    return tmp_path / "build"


def test_trials_are_runs(build: Path, tmp_path: Path) -> None:
    campaign = load(written(tmp_path))
    finished = campaign.run(build=build, jobs=2)
    table = finished.table.to_pylist()
    assert [row["faults"].rpartition("/")[2] for row in table[::2]] == [
        "none",
        "none",
        "occluded.toml",
        "occluded.toml",
    ]
    assert all(row["ok"] and row["bit_exact"] and row["faults_ok"] for row in table)
    assert [row["verdict"] for row in table] == ["passed"] * 8
    assert all("no measurement" in row["ended"] for row in table[4:])
    last = campaign.varied.trial(7)
    usual = rig(faults="occluded", ticks=60, seed=last.seed)
    plant = replace(usual.settings.plant, system={**usual.settings.plant.system, "mass": 0.12})
    setup = replace(usual, settings=replace(usual.settings, plant=plant))
    own = closed_loop(setup, None, quiet)
    told = summarize(setup.controller, own, series(setup.controller, own), {})
    assert table[7]["run"] == told["digest"]
    assert table[7]["tracking_rms"] == told["tracking_rms_m"]
    assert len({row["run"] for row in table}) == 8
    with ThreadPoolExecutor(1) as executor:
        shutil.rmtree(finished.folder.path)
        again = campaign.run(executor, build=build)
    assert again.table.to_pylist() == table


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("bench.plant.system.mass", "weights.terminal", 13, "does not vary"),
        ("bench.plant.system.mass", "bench.plant.system.masse", 13, "masse"),
        ("/occluded.toml", "/occuded.toml", 12, "there is no file"),
        ("seconds = 2.0", "seconds = 0.01", 10, "three ticks"),
        ('sensor = "gaussian"', 'sensor = "gausian"', 9, "gausian"),
    ],
)
def test_mistakes_name_file_and_line(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    path = written(tmp_path, TEXT.replace(old, new))
    with pytest.raises(JobError, match=said) as caught:
        load(path)
    assert (caught.value.file, caught.value.line) == (str(path), line)


def test_a_first_tick_that_was_lost_is_no_other_bit() -> None:
    """Telemetry of tick 0 is lost with this seed: the model cannot be compared, which is not the same as differs."""
    run = closed_loop(setup := rig(faults="noisy_line", ticks=60, seed=1641411168), None, quiet)
    first = next(row for row in run.rows if row.running)
    assert first.tick == 1
    assert bit_exact(setup.controller, run) is None
