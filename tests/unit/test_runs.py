"""Folders of runs: none replaces another, each has its verdict, and names lead to recordings."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stepmap.cli import app
from stepmap.errors import ModelError
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.folders import open_run
from stepmap_hil.runs.mcap import Recorder, read
from stepmap_hil.wire import dialect
from tests.processes import run_python

RUNNING, STOPPED = (dialect.value(f"STEPMAP_STATE_{name}") for name in ("RUNNING", "STOPPED"))
TICK = {"time": 0.0, "tick": 0, "running": True, "state": RUNNING}


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
        "import sys; from pathlib import Path; from stepmap_hil.runs import folders as runs\n"
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
    take = open_run.try_alone

    def meanwhile(path: Path) -> int | None:
        (path.parent / "run.json").write_text(json.dumps({"format": runs.FORMAT, "verdict": "passed", "ticks": 1}))
        return take(path)

    with runs.begin(tmp_path, "native", {}) as run:
        made = run.path
        run.end("passed", "done", 1)
    (made / "run.json").write_text(json.dumps({"format": runs.FORMAT, "verdict": runs.RUNNING}))
    monkeypatch.setattr(open_run, "try_alone", meanwhile)
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
    "import sys; from pathlib import Path\n"
    "from stepmap_hil.runs import folders as runs; from stepmap_hil.runs.mcap import Recorder\n"
    "from stepmap_hil.runs.fault_verdict import MOVING\n"
    "with runs.begin(Path(sys.argv[1]), 'native', {}) as run:\n"
    "    recorder = Recorder(run.recording, {'job': 'thing'})\n"
    "    for k in range(int(sys.argv[2])):\n"
    "        recorder.write('/tick', 0.1 * k, tick=k, running=True, state=MOVING[0], much='x' * 1000)\n"
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


# What is no run


def test_ticks_are_counted_until_the_board_ended_the_run(tmp_path: Path) -> None:
    def leave() -> None:
        with runs.begin(tmp_path, "native", {}) as run:
            with Recorder(run.recording, {"job": "thing"}) as recorder:
                for k, (going, state) in enumerate([(False, RUNNING), *[(True, RUNNING)] * 3, *[(True, STOPPED)] * 15]):
                    recorder.write("/tick", 0.1 * k, **{**TICK, "running": going, "state": state})
            raise KeyboardInterrupt("interrupted")

    with pytest.raises(KeyboardInterrupt):
        leave()
    assert [run.ticks for run in runs.known(tmp_path)] == [3]


NAME = "20260101T000000Z-native-1"


def foreign(place: Path, kind: str) -> tuple[Path, Path]:
    """A folder among runs that is none, and a file in it or behind it."""
    path = place / ("exp1" if kind == "another name" else NAME)
    path.mkdir(parents=True)
    victim = path / "results.csv"
    if kind == "another name":
        (path / "run.json").write_text(json.dumps({"format": runs.FORMAT, "verdict": "passed"}))
    elif kind == "another format":
        (path / "run.json").write_text(json.dumps({"format": "other", "verdict": "running"}))
    elif kind == "a recording alone":
        victim = path / "run.mcap"
    elif kind.startswith("a link"):
        victim = place.parent / "victim"
        (path / kind.removeprefix("a link as ")).symlink_to(victim)
        record(path / "run.mcap")
    victim.write_text(json.dumps({"format": runs.FORMAT, "verdict": "running"}))
    return path, victim


FOREIGN = [
    "another name",
    "no run.json",
    "another format",
    "a recording alone",
    "a link as .lock",
    "a link as run.json",
]


@pytest.mark.parametrize("kind", FOREIGN)
def test_folders_that_are_no_runs_are_left_alone(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "otherproject" / "runs"
    path, victim = foreign(place, kind)
    before = victim.read_text()
    inside = sorted(path.iterdir())
    assert runs.known(place) == []
    assert call("--build", tmp_path) == (0, f"no runs in {tmp_path}\n")
    assert "nothing to remove" in call("--build", tmp_path, "--prune", "0", "--yes")[1]
    finished(tmp_path, "otherproject")
    finished(tmp_path, "otherproject")
    assert "removed 1 run," in call("--build", tmp_path, "--prune", "0", "--yes")[1]
    assert (sorted(path.iterdir()), victim.read_text()) == (inside, before)


def test_what_one_calls_like_a_run_that_was_removed_stays(tmp_path: Path) -> None:
    finished(tmp_path)
    (tmp_path / "thing/runs/.pruned-results").mkdir()
    assert len(runs.known(tmp_path / "thing/runs")) == 1
    assert (tmp_path / "thing/runs/.pruned-results").is_dir()


def test_a_lock_that_leads_elsewhere_is_not_taken(tmp_path: Path) -> None:
    finished(tmp_path)
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "thing/runs/.lock").symlink_to(tmp_path / "victim")
    code, told = call("--build", tmp_path)
    assert code != 0
    assert "not used as a lock: remove it" in told
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize("name", ["run.json", "run.mcap", "latest", "summary.json"])
def test_pipes_are_not_waited_for(name: str, tmp_path: Path) -> None:
    """Nobody will ever write to them."""
    made = finished(tmp_path)
    place = tmp_path / "thing" / "runs"
    pipe = (place if name == "latest" else made) / name
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    if name == "run.mcap":
        (made / "run.json").write_text(json.dumps({"format": runs.FORMAT, "verdict": "running"}))
        with pytest.raises(ModelError, match="Not a regular file"):
            read(pipe)
    if name == "summary.json":
        (tmp_path / "thing/bench").unlink()
        made.rename(tmp_path / "thing/bench")  # where older versions left their runs
        runs.lead(tmp_path, "thing")
    assert runs.latest(place) == (made if name == "run.json" else None if name != "run.mcap" else made)
    found = [run.path for run in runs.known(place)]
    assert found == ([made] if name == "latest" else [])


def test_a_file_with_a_verdict_has_a_size(tmp_path: Path) -> None:
    made = finished(tmp_path)
    (made / "run.json").write_text(json.dumps({"format": runs.FORMAT, "verdict": "passed", "more": "x" * 100_000}))
    (made / "notes").touch()
    assert runs.known(tmp_path / "thing/runs") == []


FULL = """
import resource, signal, sys
from pathlib import Path
from stepmap_hil.runs import folders as runs

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    with runs.begin(Path(sys.argv[1]), "native", {}):
        print("begun")
except OSError as error:
    print(error.strerror)
"""


def test_a_disk_that_is_full_from_the_start_holds_nothing_afterwards(tmp_path: Path) -> None:
    done = run_python(FULL, str(tmp_path / "runs"))
    assert (done.stdout, done.stderr) == ("File too large\n", "")
    assert list((tmp_path / "runs").iterdir()) == []


TERMINATED = """
import os, signal, sys
from pathlib import Path
from stepmap.cli.signals import Ending
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.fault_verdict import MOVING
from stepmap_hil.runs.mcap import Recorder

with Ending().heeded(), runs.begin(Path(sys.argv[1]), "native", {}) as run:
    with Recorder(run.recording, {"job": "thing"}) as recorder, recorder.telling_why():
        recorder.write("/tick", 0.1, running=True, state=MOVING[0])
        os.kill(os.getpid(), int(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (signal.SIGINT, "interrupted"),
        (signal.SIGTERM, "terminated"),
        (signal.SIGHUP, "terminated: the terminal is gone"),
    ],
)
def test_a_run_that_was_told_to_end_says_by_what(number: signal.Signals, told: str, tmp_path: Path) -> None:
    run_python(TERMINATED, str(tmp_path), str(int(number)))
    (one,) = runs.known(tmp_path)
    assert (one.verdict, one.reason, one.ticks) == ("aborted", told, 1)
    assert read(one.path / "run.mcap").about["aborted"] == {"why": told}


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
    (tmp_path / "empty").mkdir()
    assert "no runs" in call("--build", tmp_path / "empty")[1]
    assert "has no runs" in call("other", "--build", tmp_path)[1]


@pytest.mark.parametrize("job", ["..", "../thing/..", "...toml"])
def test_runs_are_those_of_a_job_in_the_build_folder(job: str, tmp_path: Path) -> None:
    finished(tmp_path, "runs/..")
    (tmp_path / "build").mkdir()
    code, told = call(job, "--build", tmp_path / "build", "--prune", "0", "--yes")
    assert code != 0
    assert "cannot be the name of a job" in told


@pytest.mark.parametrize("kind", ["nothing", "a file"])
def test_a_build_folder_that_is_none_is_wrong_usage(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "a file":
        (tmp_path / "build").touch()
    command = [sys.executable, "-m", "stepmap.cli", "runs", "--build", str(tmp_path / "build")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"error: --build: {tmp_path / 'build'} is not a folder\n")
    monkeypatch.chdir(tmp_path)
    if kind == "nothing":  # in a project in which nothing was built yet
        assert call() == (0, "no runs in build\n")


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
