"""What can go wrong around a run, through the command line: an exit code, a reason, a robot that stands."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import serial

from stepmap_hil.report.series import moving
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.mcap import read
from stepmap_hil.runs.recording import read_run
from tests.hil.commands import LONG, NewRuns, Started, build_folder, call, command, run, running, started
from tests.hil.rigs import FAULTS
from tests.pil.built import JOB, firmware
from tests.processes import handles, has_loaded, wait_for
from tests.undrawn import STEPMAP


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_folder(tmp_path_factory.mktemp("build"))


def events(file: Path) -> list[str]:
    return [entry.content["text"] for entry in read(file).of("/event")]


def feeds(made: Started) -> list[Path]:
    """Folders with frames for the driver that a command has left behind."""
    return list(Path("/dev/shm").glob(f"stepmap-kinect-{made.process.pid}-*"))


# The camera


@pytest.mark.parametrize(("sensor", "told"), [("kinect", "the Kinect is gone"), ("gaussian", "the sensor is gone")])
def test_a_sensor_that_is_unplugged_ends_the_run_safely(sensor: str, told: str, built: Path) -> None:
    with started(command(built, "--faults", str(FAULTS / "unplugged.toml"), sensor=sensor)) as made:
        code, table, complaints = made.end()
        assert made.family() == []
    assert code == 1
    assert f"error: the run ended early: {told}. Check its" in complaints
    assert "Traceback" not in complaints
    assert "as expected: stopped, stop_command" in table
    recording = built / "suspended_mass" / "bench" / "run.mcap"
    # The run begins a third of a second after arming; its 30 ticks until 1 s, then the stop within the next period.
    assert events(recording)[:3] == ["armed", "running", "fault: unplugged"]
    assert events(recording)[-1] == "stopped"
    whole = read_run(recording)
    assert whole.closed.ended.startswith(told)
    assert [result.ok for result in whole.closed.results] == [True]
    assert sum(row.running and row.measured for row in whole.closed.rows) == 30
    assert feeds(made) == []


# How long


def test_a_run_may_be_longer_than_its_plan(built: Path) -> None:
    """After the end of the plan the mass goes on to rest at its set point."""
    code, _, complaints = call(command(built, "--seconds", "10.5", "--no-open-loop"))
    assert (code, complaints) == (0, "")
    recording = read_run(built / "suspended_mass" / "bench" / "run.mcap")
    rows = [row for row in recording.closed.rows if row.running]
    assert len(rows) == 315
    for row in rows[300:]:
        assert np.hypot(row.coordinates[0] - 0.43, row.coordinates[1] - 0.25) < 0.01


@pytest.mark.parametrize("seconds", ["0", "0.05", "-1", "nan", "1e9"])
def test_a_run_of_no_length(seconds: str, built: Path) -> None:
    code, _, complaints = call(command(built, "--seconds", seconds))
    assert code == 2
    assert "--seconds" in complaints


# The board


def test_an_emulated_chip_is_flashed_first(tmp_path: Path) -> None:
    build = build_folder(tmp_path, "stm32f405")
    options = ("--board", "stm32f405", "--faults", str(FAULTS / "unplugged.toml"))
    code, table, complaints = call(command(build, *options))
    assert (code, "the sensor is gone" in complaints) == (1, True)
    size = firmware("stm32f405").image.stat().st_size
    assert f"{size} bytes by stm32flash" in table
    summary = json.loads((build / "suspended_mass" / "bench" / "summary.json").read_text())
    assert summary["flashed_bytes"] == size
    assert summary["bit_exact_with_host"] is True


@pytest.fixture
def terminal() -> Iterator[str]:
    ours, theirs = pty.openpty()
    yield os.ttyname(theirs)
    os.close(ours)
    os.close(theirs)


@pytest.fixture
def port(tmp_path: Path) -> Iterator[str]:
    """A board at a serial port, with the firmware and the key of all tests."""
    log = tmp_path / "board"
    with log.open("w") as output:
        board = subprocess.Popen([str(firmware("native").program), "--serial", "pty"], stdout=output, stderr=output)
    try:
        wait_for(lambda: log.read_text().startswith("/dev/"), "the board tells its port")
        yield log.read_text().split()[0]
    finally:
        board.kill()
        board.wait()


def test_a_port_that_somebody_uses(terminal: str, built: Path) -> None:
    with serial.Serial(terminal, exclusive=True):
        code, _, complaints = call(command(built, "--port", terminal))
    assert code == 1
    assert "no other program using it" in complaints


def test_a_port_with_nothing_behind_it(terminal: str, built: Path) -> None:
    code, _, complaints = call(command(built, "--port", terminal))
    assert code == 1
    assert "Nothing arrives at all" in complaints


def test_a_board_with_another_key(port: str, tmp_path: Path) -> None:
    other = tmp_path / "key"
    other.touch(mode=0o600)
    other.write_text("17" * 32 + "\n")
    built = build_folder(tmp_path / "build")  # of its own: the firmware is built again, with that key
    code, _, complaints = call(command(built, "--port", port, key=other))
    assert code == 1
    assert "another key" in complaints
    assert "Traceback" not in complaints


def test_a_board_with_another_model(port: str, tmp_path: Path) -> None:
    """The board was flashed with the main job, and now a job with another mass is to run on it."""
    job = tmp_path / "heavier.toml"
    job.write_text(JOB.read_text().replace("mass = 0.1 ", "mass = 0.12 "))
    code, _, complaints = call(command(tmp_path / "build", "--port", port, job=job))
    assert code in (1, 2)
    assert "model" in complaints
    assert "flash" in complaints
    assert "Traceback" not in complaints


# Several at once


def test_two_benches_at_once_both_end_well(tmp_path: Path) -> None:
    """Nothing is built yet: one of them builds, the other waits for that; both have a run of their own."""
    build = build_folder(tmp_path)
    shutil.rmtree(build / "suspended_mass" / "build-native")
    shutil.rmtree(build / "suspended_mass" / ".build-native.pio", ignore_errors=True)
    words = command(build, "--seconds", "0.5", "--no-open-loop")
    with started(words) as one, started(words) as two:
        ends = [made.end(600.0) for made in (one, two)]
    assert [code for code, _, _ in ends] == [0, 0], ends
    first, second = runs.known(build / "suspended_mass" / "runs")
    assert (first.verdict, second.verdict) == (runs.PASSED, runs.PASSED)
    digests = {json.loads((run.path / "summary.json").read_text())["digest"] for run in (first, second)}
    assert len(digests) == 1
    assert (build / "suspended_mass" / "bench" / "report.html").exists()


# The disk


def limited(words: list[str], size: int) -> list[str]:
    """The same with files of at most that size; the process of a board, whose flash is longer, lifts the limit."""
    code = (
        "import os, resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "limit = resource.RLIMIT_FSIZE; "
        f"resource.setrlimit(limit, ({size}, resource.getrlimit(limit)[1])); os.execv(sys.argv[1], sys.argv[1:])"
    )
    return [sys.executable, "-c", code, *words]


def test_a_file_that_may_not_grow(built: Path) -> None:
    code, _, complaints = run(limited(command(built), 400_000))
    check_aborted(built, code, complaints, "File too large")


def test_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k,mode=0755", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        whole = build_folder(tmp_path / "build")
        for stage in ("optimize", "generate", "build-native"):  # read-only: what has to be built is built
            (disk / "suspended_mass").mkdir(exist_ok=True)
            (disk / "suspended_mass" / stage).symlink_to(whole / "suspended_mass" / stage)
        code, _, complaints = run(command(disk, "--no-open-loop"))
        check_aborted(disk, code, complaints, "No space left on device")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def check_aborted(build: Path, code: int, complaints: str, why: str) -> None:
    """The robot was stopped, and what was recorded until then can be read."""
    assert code == 1
    assert f"error: the run ended early: the recording could not go on: {why}" in complaints
    assert "Traceback" not in complaints
    left = read_run(build / "suspended_mass" / "aborted.mcap")
    assert 10 < len(left.closed.rows) < 300
    assert left.closed.ended == "the recording ends here"
    last = runs.known(build / "suspended_mass" / "runs")[-1]
    assert (last.verdict, why in last.reason, last.ticks > 5) == (runs.ABORTED, True, True)


# Options


@pytest.mark.parametrize("name", ["bench", "robot"])
def test_a_seed_that_no_recording_could_hold(name: str, tmp_path: Path) -> None:
    code, _, complaints = call([*STEPMAP, name, str(tmp_path / "job.toml"), "--seed", str(2**53)])
    assert code == 2
    assert "--seed" in complaints


def test_a_file_where_runs_are_to_go(built: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    code, _, complaints = call(command(built, "--runs", str(tmp_path / "runs")))
    assert (code, complaints.splitlines()[0]) == (2, f"error: --runs: {tmp_path / 'runs'} is not a folder")


def test_what_can_be_known_is_said_before_anything_is_made(built: Path, tmp_path: Path) -> None:
    """A missing key or a build folder that is a file would else be found after minutes of optimizing and building."""
    (tmp_path / "file").touch()
    for words, said in (
        (command(built, key=tmp_path / "no.key"), f"error: there is no key file {tmp_path / 'no.key'}"),
        (command(tmp_path / "file"), f"error: --build: {tmp_path / 'file'} is not a folder"),
    ):
        code, table, complaints = call(words)
        assert code != 0
        assert complaints.splitlines()[0] == said
        assert "hint: " in complaints
        assert table == ""


# Ctrl-C

LATE = """
import os, signal
from stepmap_hil.bench import execute as running
from tests import undrawn

compare = running.open_loop

def interrupted(*given):
    os.kill(os.getpid(), signal.SIGINT)
    return compare(*given)

running.open_loop = interrupted
undrawn.main()
"""


def interrupted_late(words: list[str]) -> str:
    """Complaints of a bench that is interrupted while it does the run to compare with."""
    code, _, complaints = run([sys.executable, "-c", LATE, *words[3:]])
    assert (code, "Traceback" in complaints) == (1, False), complaints
    assert complaints.splitlines()[-1] == "error: interrupted"
    return complaints


def test_how_a_run_ended_is_kept_whatever_comes_afterwards(built: Path) -> None:
    """The board has stopped it; that is worth more than that the comparison is missing."""
    complaints = interrupted_late(command(built, "--seconds", "3", "--faults", str(FAULTS / "wrong_object.toml")))
    assert complaints.splitlines()[-2].endswith("; aborted.mcap leads there")
    left = built / "suspended_mass" / "aborted.mcap"
    told = read_run(left)
    assert told.closed.ended.startswith("stopped: measurements stayed implausible at tick")
    assert told.closed.stop is not None
    assert told.closed.suspects[0].startswith("the injected fault jump in mass.x")
    assert [result.ok for result in told.closed.results] == [True]
    assert (told.opened, told.facts["planned_ticks"]) == (None, 90)
    assert read(left).about["aborted"] == {"why": "interrupted"}
    last = runs.known(built / "suspended_mass" / "runs")[-1]
    assert (last.verdict, last.reason, last.ticks) == (runs.ABORTED, "interrupted", len(moving(told.closed)))


def test_a_run_that_went_to_its_end_did_so_whatever_comes_afterwards(built: Path, tmp_path: Path) -> None:
    """In a place of its own, beside which nothing is put."""
    place = tmp_path / "runs"
    complaints = interrupted_late(command(built, "--seconds", "1", "--runs", str(place)))
    (last,) = runs.known(place)
    assert complaints.splitlines()[-2] == f"note: what was recorded is in {last.path / 'run.mcap'}"
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    told = read_run(last.path / "run.mcap")
    assert (told.closed.ended, last.ticks, len(moving(told.closed))) == ("", 30, 30)


FLASHING = """
import os, signal
from stepmap.cli import main
from stepmap_hil.firmware import flash

run = flash._run

def interrupted(command, progress):
    def told(part):
        os.kill(os.getpid(), signal.SIGINT)
        progress(part)
    return run(command, told)

flash._run = interrupted
main()
"""
"""The command line, interrupted when a part of the flash is written: over before anybody outside has seen it."""
DRAWN = "ft2font"  # a library of the plots, which are made after everything else


def is_under_way(made: Started, new: NewRuns, stage: str) -> bool:
    """Whether a command has come to a stage, as seen from outside."""
    return {
        "importing": lambda: handles(made.process.pid, signal.SIGHUP),
        "solving": lambda: has_loaded(made.process.pid, "_casadi"),
        "flashing": lambda: made.process.poll() is not None,  # it interrupts itself
        "connecting": lambda: running(str(new.build / "suspended_mass" / "build-native" / "program")),
        "running": new.under_way,
        "drawing": lambda: has_loaded(made.process.pid, DRAWN),
    }[stage]()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "sensor", "stages"),
    [
        ("native", "gaussian", ["importing", "solving", "connecting", "running", "drawing"]),
        ("stm32f405", "kinect", ["flashing", "running"]),
    ],
)
def test_ctrl_c_at_any_time_leaves_nothing(board: str, sensor: str, stages: list[str], tmp_path: Path) -> None:
    """At every stage, from the first import to the pictures."""
    build = build_folder(tmp_path, board)
    folder = build / "suspended_mass"
    there = {path.name for path in folder.iterdir()}
    for stage in stages:
        new = NewRuns(build)
        length = ("--seconds", "1") if stage == "drawing" else LONG
        words = command(build, "--board", board, *length, sensor=sensor)
        words[1:3] = ["-c", FLASHING] if stage == "flashing" else ["-m", "stepmap.cli"]  # with its pictures
        with started(words) as made:
            over = f"it comes to {stage}"
            wait_for(
                lambda made=made, new=new, stage=stage: (  # type: ignore[misc]
                    is_under_way(made, new, stage) or made.process.poll() is not None
                ),
                over,
            )
            if stage != "flashing":
                made.process.send_signal(signal.SIGINT)
            code, _, complaints = made.end()
            wait_for(lambda made=made: made.family() == [], "nothing of it is left")  # type: ignore[misc]
        assert (code, "Traceback" in complaints) == (1, False), f"{stage}: {complaints}"
        assert "interrupted" in complaints
        assert {path.name for path in folder.iterdir()} <= {*there, ".build-native.pio", "aborted.mcap", "runs"}
        wait_for(lambda made=made: feeds(made) == [], "its frames are gone")  # type: ignore[misc]
        verdicts = {run.verdict for run in runs.known(folder / "runs")}
        assert verdicts <= {runs.ABORTED}, stage
        if (folder / "aborted.mcap").exists():
            told = events(folder / "aborted.mcap")
            assert "running" not in told or "stopped" in told[-1], told
