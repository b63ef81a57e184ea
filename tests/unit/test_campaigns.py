"""Campaigns run: one table whatever happens on the way to it."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from stepmap.campaigns import load
from stepmap.campaigns.dispatch import LostWorkersError, WorkerError
from stepmap.campaigns.parts import Parts
from stepmap.errors import BusyError, ModelError
from tests.campaigns import FILTER, rows, scripted, written
from tests.hil.commands import call
from tests.processes import PATIENCE, TIED, heed_signals, wait_for
from tests.undrawn import STEPMAP


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A small study and its table, made without interruption in this process."""
    folder = tmp_path_factory.mktemp("whole")
    path = written(folder)
    with ThreadPoolExecutor(1) as executor:
        finished = load(path).run(executor, build=folder / "build")
    return path, finished.folder.table.read_bytes()


# One table ------------------------------------------------------------------------------------------------------------


def test_what_a_campaign_leaves(whole: tuple[Path, bytes]) -> None:
    path, _ = whole
    campaign = load(path)
    folder = campaign.folder(path.parent / "build")
    assert sorted(p.name for p in folder.path.iterdir()) == [
        "manifest.json",
        "report.html",
        "sessions.json",
        "table.parquet",
    ]
    assert (folder.path.parent / "latest").resolve() == folder.path.resolve()
    told = json.loads((folder.path / "manifest.json").read_text())
    assert (told["complete"], told["trials"], told["failed"], told["seed"]) == (True, 60, 0, 7)
    table = pq.read_table(folder.table).to_pylist()
    assert [row["trial"] for row in table] == list(range(60))
    assert [row["noise.process.p"] for row in table] == [0.01] * 30 + [0.02] * 30
    assert all(row["ok"] and row["reason"] is None for row in table)
    # Innovations are white: mean e²/S over 30 runs of 20 readings is 1 within 4 standard errors, 4 √(2/600).
    assert abs(np.mean([row["nis"] for row in table[:30]]) - 1.0) < 4 * np.sqrt(2 / 600)
    page = folder.report.read_text()
    assert "http" not in page.replace("http://www.w3.org", "").replace("https://github.com/leeoniya/uPlot", "")
    assert page.count("<svg") >= 6


def test_processes_make_the_same_bytes_and_nothing_is_made_twice(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    path, content = whole
    campaign = load(path)
    finished = campaign.run(build=tmp_path, jobs=2)
    assert finished.folder.table.read_bytes() == content
    before = {p: p.stat().st_mtime_ns for p in finished.folder.path.iterdir()}
    assert campaign.run(build=tmp_path, jobs=2).fresh == 0
    assert {p: p.stat().st_mtime_ns for p in finished.folder.path.iterdir()} == before


def test_chunks_do_not_matter_to_trials(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    path = written(tmp_path, chunk=13)
    with ThreadPoolExecutor(1) as executor:
        other = load(path).run(executor, build=tmp_path).table
    assert other.to_pylist() == pq.read_table(load(whole[0]).folder(whole[0].parent / "build").table).to_pylist()


def test_another_seed_has_a_folder_of_its_own(tmp_path: Path) -> None:
    tables = []
    for seed in (1, 2):
        path = written(tmp_path, FILTER.replace("seed = 7", f"seed = {seed}"), trials=3)
        with ThreadPoolExecutor(1) as executor:
            tables.append(load(path).run(executor, build=tmp_path / "build").table.to_pylist())
    assert tables[0] != tables[1]
    assert len([p for p in (tmp_path / "build" / "study" / "campaigns").iterdir() if not p.is_symlink()]) == 2


# Cut off --------------------------------------------------------------------------------------------------------------


def test_cut_off_and_resumed(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    """Interrupted after every chunk, and begun again each time."""
    campaign, cuts = load(whole[0]), 0

    def cut(done: int, fresh: int, cpu_s: float) -> None:
        if fresh:
            raise KeyboardInterrupt

    while True:
        try:
            with ThreadPoolExecutor(1) as executor:
                finished = campaign.run(executor, build=tmp_path, watch=cut)
            break
        except KeyboardInterrupt:
            cuts += 1
            assert not campaign.folder(tmp_path).complete
    assert cuts == len(campaign.chunks)
    assert finished.folder.table.read_bytes() == whole[1]
    assert [s["ended"] for s in finished.folder.sessions()] == ["cut off"] * cuts + ["done"]


def test_a_killed_command_goes_on(tmp_path: Path) -> None:
    """SIGKILL in the middle, with a process at work: it ends, too, and the next command finishes the table."""
    path = written(tmp_path, trials=300, chunk=1)
    campaign, build = load(path), tmp_path / "build"
    words = [*TIED, *STEPMAP, "campaign", str(path), "--build", str(build), "--jobs", "1"]
    parts = campaign.folder(build).path / "parts"
    command = subprocess.Popen(words, stderr=subprocess.PIPE, preexec_fn=heed_signals, start_new_session=True)
    try:
        wait_for(lambda: len(list(parts.glob("*.parquet"))) > 2, "parts of the table")
    finally:
        command.kill()
        command.communicate(timeout=PATIENCE)
    assert not campaign.folder(build).table.exists()
    wait_for(lambda: not _of_session(command.pid), "the end of the workers of a killed command")
    (parts / "00000001.parquet").write_bytes(b"cut short")  # as after a loss of power
    with ThreadPoolExecutor(1) as executor:
        resumed = campaign.run(executor, build=build)
        again = campaign.run(executor, build=tmp_path / "other")
    assert 0 < resumed.fresh < 600
    assert resumed.folder.table.read_bytes() == again.folder.table.read_bytes()


def test_an_interrupted_command_says_what_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path, trials=2000, chunk=1)
    build = tmp_path / "build"
    words = [*TIED, *STEPMAP, "campaign", str(path), "--build", str(build), "--jobs", "2"]
    parts = load(path).folder(build).path / "parts"
    command = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
        start_new_session=True,
    )
    wait_for(lambda: any(parts.glob("*.parquet")), "a part of the table")
    os.killpg(command.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    _, complaints = command.communicate(timeout=PATIENCE)
    assert command.returncode == 1
    assert complaints.splitlines()[-1] == "error: interrupted"
    assert f"note: what is done is kept in {parts.parent}" in complaints
    assert "Traceback" not in complaints
    wait_for(lambda: not _of_session(command.pid), "the end of the workers")


def _of_session(session: int) -> list[int]:
    """Processes of a session that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if words[0] != "Z" and int(words[3]) == session:
            found.append(int(folder.name))
    return found


def test_two_at_once_in_one_folder(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    campaign = load(whole[0])
    campaign.folder(tmp_path).path.parent.mkdir(parents=True)
    with campaign.folder(tmp_path).alone(), ThreadPoolExecutor(1) as executor:
        other = executor.submit(lambda: campaign.run(executor=ThreadPoolExecutor(1), build=tmp_path))
        with pytest.raises(BusyError, match="works on"):
            other.result(PATIENCE)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=160k,mode=0755", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_loses_nothing(disk: Path, tmp_path: Path) -> None:
    """Parts of 4 kB and more fill it; with more room the same command goes on."""
    path = written(tmp_path, trials=30, chunk=1)
    campaign = load(path)
    shutil.copytree(_plan(path, tmp_path), disk / "pendulum" / "optimize")
    code, _, complaints = call([*STEPMAP, "campaign", str(path), "--build", str(disk), "--jobs", "1"])
    assert code == 1
    assert "No space left on device" in complaints
    assert f"note: what is done is kept in {campaign.folder(disk).path}" in complaints
    assert "Traceback" not in complaints
    left = len(list((campaign.folder(disk).path / "parts").glob("*.parquet")))
    assert 0 < left < 60
    assert not campaign.folder(disk).table.exists()
    subprocess.run(["mount", "-o", "remount,size=4M", str(disk)], check=True)
    with ThreadPoolExecutor(1) as executor:
        finished = campaign.run(executor, build=disk)
        other = campaign.run(executor, build=tmp_path / "other")
    assert finished.fresh == 60 - left
    assert finished.folder.table.read_bytes() == other.folder.table.read_bytes()


def _plan(path: Path, tmp_path: Path) -> Path:
    """The stage optimize of the job, made elsewhere: it would not fit."""
    from stepmap.campaigns.plans import plan_of
    from stepmap.jobs import optimize as optimum

    job, build = load(path).base.job({}), tmp_path / "plan"
    plan_of(job, build)
    return optimum.stage(job, build).folder


# Workers --------------------------------------------------------------------------------------------------------------


def test_a_killed_worker_costs_nothing(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    killed = []

    def kill_one(done: int, fresh: int, cpu_s: float) -> None:
        if fresh and not killed:
            child = multiprocessing.active_children()[0]
            child.kill()
            killed.append(child.pid)

    finished = load(whole[0]).run(build=tmp_path, jobs=2, watch=kill_one)
    assert killed
    assert finished.lost_workers >= 1
    assert finished.folder.table.read_bytes() == whole[1]


@pytest.mark.parametrize("chunk", [1, 4])
def test_a_trial_that_ends_its_worker_is_a_row(tmp_path: Path, chunk: int) -> None:
    deeds = ["go"] * 5 + ["die"] + ["go"] * 4
    campaign = scripted(tmp_path, [f"{d}" for d in deeds], chunk)
    table = rows(campaign, tmp_path / "build", jobs=2)
    assert [row["square"] for row in table] == [float(i * i) if i != 5 else None for i in range(10)]
    assert [row["trial"] for row in table if not row["ok"]] == [5]
    assert table[5]["reason"] == "its worker process was lost 3 times"


def test_a_failed_trial_is_a_row_with_its_reason(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as executor:
        table = rows(scripted(tmp_path, ["go", "fail", "divide", "go"], 2), tmp_path / "build", executor=executor)
    assert [row["ok"] for row in table] == [True, False, False, True]
    assert table[1]["reason"] == "trial 1 was told to fail"
    assert table[2]["reason"] == "ZeroDivisionError: float division by zero"
    assert [row["square"] for row in table] == [0.0, None, None, 9.0]


def test_a_computer_without_memory_is_no_result(tmp_path: Path) -> None:
    campaign = scripted(tmp_path, ["go", "no memory"])
    with ThreadPoolExecutor(1) as executor, pytest.raises(WorkerError, match="not enough memory"):
        campaign.run(executor, build=tmp_path / "build")
    parts = Parts.found(campaign.folder(tmp_path / "build"), campaign)
    assert list(parts.known) == [(0, 1)]


def test_an_executor_that_breaks_ends_the_campaign(tmp_path: Path) -> None:
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("forkserver")
    with (
        ProcessPoolExecutor(1, mp_context=context) as executor,
        pytest.raises(LostWorkersError, match="the workers are gone"),
    ):
        scripted(tmp_path, ["go", "die"]).run(executor, build=tmp_path / "build")


def test_one_kind_of_workers_is_asked_for(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor, pytest.raises(ModelError, match="give one of"):
        load(whole[0]).run(executor, build=tmp_path, jobs=2)


# Command --------------------------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    path = written(tmp_path, trials=4)
    words = [*STEPMAP, "campaign", str(path), "--build", str(tmp_path / "build"), "--jobs", "1"]
    code, told, complaints = call(words)
    assert (code, complaints) == (0, "")
    assert "8, 0 failed" in told
    assert "report" in told
    assert "NEES at the end, point 0" in told
    code, told, _ = call(words)
    assert (code, told.startswith("unchanged, skipped: ")) == (0, True)
    folder = load(path).folder(tmp_path / "build")
    row = pq.read_table(folder.table).to_pylist()[5]
    code, told, _ = call([*words[:-2], "--trial", "5"])
    assert code == 0
    assert f"{row['nees']:.6g}" in told
    assert call([*words[:-2], "--trial", "8"])[0] == 2


def test_without_pyarrow_it_says_so_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepmap import extras

    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    path = written(tmp_path)
    code, _, complaints = call([*STEPMAP, "campaign", str(path), "--build", str(tmp_path / "build")])
    assert code == 2
    assert "pip install 'stepmap[campaign]'" in complaints
    assert not (tmp_path / "build").exists()
