"""Folders of runs: none replaces another, each has its verdict, and names lead to recordings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stepmap.cli import app
from stepmap.errors import ModelError
from stepmap_hil import runs
from stepmap_hil.record import Recorder

TICK = {"time": 0.0, "tick": 0, "running": True}


def record(path: Path, ticks: int = 3) -> None:
    with Recorder(path, {"job": "thing"}) as recorder:
        for k in range(ticks):
            recorder.write("/tick", 0.1 * k, **TICK)


def finished(build: Path, job: str = "thing", verdict: str = runs.PASSED) -> Path:
    with runs.begin(runs.folder(build, job), "native", {"job": job}) as run:
        record(run.recording)
        run.end(verdict, "done", 3)
    runs.lead(build, job)
    return run.path


def verdict(path: Path) -> str:
    return str(json.loads((path / "run.json").read_text())["verdict"])


def test_a_run_never_replaces_another(tmp_path: Path) -> None:
    first, second = finished(tmp_path), finished(tmp_path)
    assert first != second
    assert re.fullmatch(r"\d{8}T\d{6}Z-native-\d+", first.name)
    assert {path.name for path in first.iterdir()} == {"run.mcap", "run.json"}
    assert os.readlink(tmp_path / "thing/runs/latest") == second.name
    assert os.readlink(tmp_path / "thing/bench") == "runs/latest"
    assert (tmp_path / "thing/bench/run.mcap").samefile(second / "run.mcap")
    assert [run.path for run in runs.known(tmp_path / "thing/runs")] == [first, second]


def test_many_at_once_have_folders_of_their_own(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from stepmap_hil import runs\n"
        "for _ in range(5):\n"
        "    with runs.begin(Path(sys.argv[1]), 'native', {}) as run:\n"
        "        run.recording.write_text('x'); run.end('passed', 'done', 1)\n"
    )
    all_of_them = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(4)]
    assert [one.wait() for one in all_of_them] == [0] * 4
    found = runs.known(tmp_path)
    assert [run.verdict for run in found] == ["passed"] * 20
    assert runs.latest(tmp_path) in [run.path for run in found]


def test_a_run_that_ends_while_another_process_clears_up_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at its verdict and the lock, which it has given back by then."""
    take = runs.try_alone

    def meanwhile(path: Path) -> int | None:
        (path.parent / "run.json").write_text(json.dumps({"format": runs.FORMAT, "verdict": "passed", "ticks": 1}))
        return take(path)

    with runs.begin(tmp_path, "native", {}) as run:
        made = run.path
        run.end("passed", "done", 1)
    (made / "run.json").write_text(json.dumps({"format": runs.FORMAT, "verdict": runs.RUNNING}))
    monkeypatch.setattr(runs, "try_alone", meanwhile)
    runs.sweep(tmp_path)
    assert [one.verdict for one in runs.known(tmp_path)] == ["passed"]
    assert not list(made.glob(".*"))


def test_a_run_that_is_left_keeps_what_was_recorded(tmp_path: Path) -> None:
    def leave() -> None:
        with runs.begin(tmp_path, "native", {}) as run:
            record(run.recording, 2)
            raise KeyboardInterrupt("interrupted")

    with pytest.raises(KeyboardInterrupt):
        leave()
    (one,) = runs.known(tmp_path)
    assert (one.verdict, one.reason, one.ticks) == ("aborted", "interrupted", 2)
    assert {path.name for path in one.path.iterdir()} == {"run.mcap", "run.json"}
    assert runs.latest(tmp_path) is None


def test_a_run_that_never_began_leaves_nothing(tmp_path: Path) -> None:
    def leave() -> None:
        with runs.begin(tmp_path, "native", {}) as run:
            record(run.recording, 0)
            raise OSError("no board")

    with pytest.raises(OSError, match="no board"):
        leave()
    assert list(tmp_path.iterdir()) == []


KILLED = (
    "import sys; from pathlib import Path; from stepmap_hil import runs; from stepmap_hil.record import Recorder\n"
    "with runs.begin(Path(sys.argv[1]), 'native', {}) as run:\n"
    "    recorder = Recorder(run.recording, {'job': 'thing'})\n"
    "    for k in range(int(sys.argv[2])):\n"
    "        recorder.write('/tick', 0.1 * k, tick=k, running=True, much='x' * 1000)\n"
    "    print('recorded', flush=True); sys.stdin.readline()\n"
)


@pytest.mark.parametrize(("ticks", "left"), [(400, ["killed"]), (0, [])])
def test_after_a_kill_the_next_run_clears_up(tmp_path: Path, ticks: int, left: list[str]) -> None:
    words = [sys.executable, "-c", KILLED, str(tmp_path), str(ticks)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "recorded\n"
        (going,) = runs.known(tmp_path)
        assert going.verdict == "running"  # it holds its lock
        process.kill()
        process.wait()
        (tmp_path / ".pruned-1-20260101T000000Z-native-1").mkdir()  # of one that was killed while it removed runs
        with runs.begin(tmp_path, "native", {}) as run:
            found = [one for one in runs.known(tmp_path) if one.path != run.path]
            run.end(runs.PASSED, "done", 1)
    assert [one.verdict for one in found] == left
    for one in found:
        assert one.ticks > 300
        assert {path.name for path in one.path.iterdir()} == {"run.mcap", "run.json"}
    assert {path.name for path in tmp_path.iterdir()} == {"latest", run.path.name, *(one.path.name for one in found)}


def test_a_folder_of_an_older_version_becomes_a_run(tmp_path: Path) -> None:
    old = tmp_path / "thing" / "bench"
    old.mkdir(parents=True)
    (old / "summary.json").write_text(json.dumps({"board": "stm32f405", "ended": "done", "ticks": 300}))
    (old / "run.mcap").write_text("precious")
    new = finished(tmp_path)
    first, second = runs.known(tmp_path / "thing/runs")
    assert {first.path, second.path} == {new, *(p for p in (first.path, second.path) if "-stm32f405-" in p.name)}
    (kept,) = (run for run in (first, second) if run.path != new)
    assert (kept.path / "run.mcap").read_text() == "precious"
    assert (kept.verdict, kept.ticks) == ("passed", 300)


def test_without_links_a_file_names_the_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    first, second = finished(tmp_path), finished(tmp_path)
    assert (tmp_path / "thing/runs/latest").read_text() == f"{second.name}\n"
    assert runs.find(Path("latest"), tmp_path) == second / "run.mcap"
    assert first.is_dir()


def test_names_lead_to_recordings(tmp_path: Path) -> None:
    first, second = finished(tmp_path), finished(tmp_path)
    other = finished(tmp_path, "other")
    for given in (first / "run.mcap", first, Path(first.name), Path("thing") / first.name):
        if given != Path(first.name):  # a run of the other job may have the same name
            assert runs.find(given, tmp_path) == first / "run.mcap"
    assert runs.find(Path("thing/latest"), tmp_path) == second / "run.mcap"
    assert runs.find(tmp_path / "thing/runs/latest", tmp_path).samefile(second / "run.mcap")
    assert runs.find(tmp_path / "thing/runs", tmp_path) == second / "run.mcap"
    assert runs.find(Path("latest"), tmp_path) in (second / "run.mcap", other / "run.mcap")


@pytest.mark.parametrize(
    "given", ["none", "../secret", "thing/../../secret", "/etc", "20260101T000000Z-native-1", ".."]
)
def test_names_that_lead_nowhere(given: str, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    build = tmp_path / "build"
    finished(build)
    with pytest.raises(ModelError, match=re.escape(given)):
        runs.find(Path(given), build)


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    finished(tmp_path)
    link = tmp_path / "thing/runs/latest"
    link.unlink()
    link.symlink_to("../../..")
    assert runs.latest(tmp_path / "thing/runs") is None


# stepmap runs


def call(*words: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["runs", *map(str, words)])
    return result.exit_code, result.output + str(result.exception or "")


def test_the_list(tmp_path: Path) -> None:
    first = finished(tmp_path, verdict=runs.FAILED)
    second = finished(tmp_path)
    code, told = call("--build", tmp_path)
    assert code == 0
    assert "thing: 2 runs" in told
    lines = {words[0]: words for words in (line.split() for line in told.splitlines()) if words}
    assert lines[first.name][1:3] == ["failed", "3"]
    assert lines[second.name][1:4] == ["(latest)", "passed", "3"]
    assert call("thing", "--build", tmp_path) == call("examples/thing.toml", "--build", tmp_path) == (0, told)
    assert "no runs" in call("--build", tmp_path / "none")[1]
    assert "has no runs" in call("other", "--build", tmp_path)[1]


def test_pruning_asks_and_keeps_the_latest(tmp_path: Path) -> None:
    all_of_them = [finished(tmp_path) for _ in range(4)]
    code, told = call("--prune", "1", "--build", tmp_path)
    assert code != 0
    assert "3 runs" in told
    assert "--yes" in told
    assert all(path.is_dir() for path in all_of_them)
    with runs.begin(tmp_path / "thing/runs", "native", {}) as going:
        assert call("--prune", "0", "--yes", "--build", tmp_path)[0] == 0
        assert {path.name for path in (tmp_path / "thing/runs").iterdir()} == {
            "latest",
            all_of_them[-1].name,
            going.path.name,
        }
        going.end(runs.PASSED, "done", 1)
    assert "nothing to remove" in call("--prune", "2", "--yes", "--build", tmp_path)[1]
