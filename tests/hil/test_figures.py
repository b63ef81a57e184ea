"""``stepmap figure fig2`` and ``fig4``: from a recording alone, in the layout of the paper."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from stepmap import figures as published
from stepmap.cli import app
from stepmap.errors import LinkError, ModelError
from stepmap_hil.bench.execute import closed_loop, open_loop
from stepmap_hil.report import plots as figures
from stepmap_hil.report import published as paper_figures
from stepmap_hil.report import write as results
from stepmap_hil.report.series import series
from stepmap_hil.report.summary import summarize
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.runs.recording import read_run
from tests.hil.rigs import quiet, rig, source
from tests.pil.built import ROOT

FACTS = {"seed": 1, "sensor": "gaussian", "flash_bytes": None, "ram_bytes": None, "instructions_per_tick": None}


def record(path: Path, *, opened: bool, ticks: int | None = None) -> Path:
    made = rig(ticks=ticks)
    with Recorder(path, made.about(), source().attachments()) as recorder:
        run = closed_loop(made, recorder, quiet)
        results.conclude(recorder, run, FACTS)
        results.complete(recorder, open_loop(made, quiet) if opened else None, FACTS)
    return path


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("recording") / "run.mcap", opened=True)


def figure(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["figure", *map(str, words)])


@pytest.mark.parametrize("name", ["fig2", "fig4"])
def test_a_recording_becomes_a_figure(name: str, recording: Path, tmp_path: Path) -> None:
    done = figure(name, recording, "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / f"{name}.svg").read_bytes()
    assert f"Schultz &amp; Murphey, Fig. {name[-1]}" in (tmp_path / f"{name}.html").read_text()
    assert len(json.loads((tmp_path / f"{name}.json").read_text())) == 300


def test_fig2_shows_the_set_point_of_the_paper(recording: Path) -> None:
    """(x_m, y_m) ≈ (0.43, 0.25) in the last two seconds; without feedback the mass swings around it."""
    made = published.make("fig2", recording=recording)
    rows = [row for row in made.rows if row["time"] >= made.rows[-1]["time"] - 2.0]
    assert len(rows) == 60 or len(rows) == 61
    far = {}
    for trial in ("reference", "open_loop", "closed_loop"):
        where = np.array([[row[f"{trial}_xm"], row[f"{trial}_ym"]] for row in rows])
        far[trial] = np.linalg.norm(where - (0.43, 0.25), axis=1).max()
    assert far["reference"] < 0.003
    assert far["closed_loop"] < 0.01
    assert far["open_loop"] > 5 * far["closed_loop"]
    titles = [axis.get_title(loc="left") for axis in made.figure.axes]
    assert titles == ["(a) open loop", "last two seconds", "(b) closed loop", "last two seconds"]
    limits = [(axis.get_xlim(), axis.get_ylim()) for axis in made.figure.axes]
    assert limits[:2] == limits[2:]  # so that both can be compared


def test_fig4_shows_velocities(recording: Path) -> None:
    made = published.make("fig4", recording=recording)
    told = read_run(recording)
    s = series(told.controller, told.closed)
    assert [axis.get_ylabel() for axis in made.figure.axes] == ["velocity of xr [m/s]", "velocity of r [m/s]"]
    for k, axis in enumerate(made.figure.axes):
        curves = {line.get_label(): np.asarray(line.get_ydata()) for line in axis.lines}
        assert list(curves) == ["reference", "raw measurements", "filtered measurements"]
        # A velocity that is held for a period moves the robot from one command to the next: they sum up to the way.
        assert curves["reference"].sum() / 30 == pytest.approx(s.plan[-1, k] - s.plan[0, k], rel=0.02, abs=1e-3)
        rough = {name: float(np.std(np.diff(values - curves["reference"]))) for name, values in curves.items()}
        assert rough["raw measurements"] > 5 * rough["filtered measurements"]


def test_errors_are_those_of_the_summary_and_leave_out_what_was_not_seen(recording: Path) -> None:
    """A lost ball is sent as 0, which is no measurement."""
    told = read_run(recording)
    s = series(told.controller, told.closed)

    def drawn(valid: np.ndarray) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
        measured = np.where(valid, s.measured, 0.0)
        (axis,) = figures.estimates(told.controller, replace(s, measured=measured, valid=valid)).axes
        return {str(line.get_label()): np.asarray(line.get_ydata()) for line in axis.lines}

    curves = drawn(np.ones_like(s.valid))
    summary = summarize(told.controller, told.closed, s, {})
    for label, name in (("measurement", "raw_measurement_rms_m"), ("estimate", "estimate_rms_m")):
        assert np.sqrt(np.mean(curves[label] ** 2)) == pytest.approx(1e3 * summary[name])
    lost = np.ones_like(s.valid)
    lost[20:30, :2] = False
    gaps = drawn(lost)
    assert np.isnan(gaps["measurement"][20:30]).all()
    assert np.array_equal(np.delete(gaps["measurement"], np.s_[20:30]), np.delete(curves["measurement"], np.s_[20:30]))
    assert np.array_equal(gaps["estimate"], curves["estimate"])


@pytest.mark.parametrize("squeezed", [0, 1])
def test_a_path_along_one_axis_is_no_sliver(recording: Path, squeezed: int) -> None:
    """A hundred times as long as wide: the panel has room beside it. An open loop that falls far is cut off."""
    told = read_run(recording)
    s = series(told.controller, told.closed)
    factor = np.where(np.arange(s.reference.shape[1]) == squeezed, 0.01, 1.0)
    thin = replace(s, reference=s.reference * factor, coordinates=s.coordinates * factor[: s.coordinates.shape[1]])
    fallen = replace(thin, coordinates=thin.coordinates - 50.0 * (thin.time / thin.time[-1])[:, None] ** 2)
    whole, *_ = figures.setpoint(told.controller, thin, fallen).axes
    width, height = np.ptp(whole.get_xlim()), np.ptp(whole.get_ylim())
    assert figures.FLAT * 0.99 <= height / width <= figures.TALL * 1.01
    assert max(width, height) < 10.0
    drawn = figures.tracking(told.controller, thin, fallen)
    for axis, k in zip(drawn.axes, range(2), strict=True):
        mine = np.concatenate([thin.reference[:, k], thin.coordinates[:, k]])
        low, high = axis.get_ylim()
        assert low < mine.min() < mine.max() < high
        assert high - low < 6 * np.ptp(mine)


def test_what_cannot_be_drawn_is_refused(recording: Path, tmp_path: Path) -> None:
    alone = record(tmp_path / "alone.mcap", opened=False, ticks=20)
    with pytest.raises(ModelError, match="no open loop"):
        published.make("fig2", recording=alone)
    assert published.make("fig4", recording=alone).rows
    with pytest.raises(ModelError, match="not made from a recording"):
        published.make("fig3", recording=recording)
    with pytest.raises(ModelError, match="cannot be read"):
        published.make("fig4", recording=tmp_path / "none.mcap")
    done = figure("fig5")
    assert (done.exit_code, "fig2, fig3, fig4" in done.stderr) == (2, True)


def test_the_bench_is_run_where_there_is_no_recording(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bench itself is tested elsewhere; here a recording stands in for it."""
    commands: list[list[str]] = []

    def bench(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        with runs.begin(Path(command[command.index("--runs") + 1]), "native", {}) as run:
            shutil.copy(recording, run.recording)
            run.end(runs.PASSED, "done", 300)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(paper_figures.subprocess, "run", bench)
    monkeypatch.chdir(tmp_path)
    with runs.begin(Path("build/suspended_mass/runs"), "native", {}) as cut:  # of the user, and of no use for this
        cut.recording.write_bytes(recording.read_bytes()[:200_000])
        cut.end(runs.STOPPED, "stopped by the user", 60)
    before = {path: path.stat().st_mtime_ns for path in Path("build/suspended_mass").rglob("*")}
    said: list[str] = []
    for _ in range(2):  # the second time it is there
        assert published.make("fig4", lambda part, text: said.append(text)).rows
    assert len(commands) == 1
    assert commands[0][3:5] == ["bench", str(ROOT / "examples" / "suspended_mass.toml")]
    assert "running the bench, about a minute" in said
    assert {path: path.stat().st_mtime_ns for path in Path("build/suspended_mass").rglob("*")} == before


def test_a_bench_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bench(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "error: fakenect is not there\n")

    monkeypatch.setattr(paper_figures.subprocess, "run", bench)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LinkError, match="no recording: fakenect is not there"):
        published.make("fig2")
