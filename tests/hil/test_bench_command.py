"""What can go wrong around a run, through the command line: an exit code, a reason, a robot that stands."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import serial

from stepmap_hil.record import read
from stepmap_hil.replay import story
from tests.hil.commands import Started, build_folder, command, run, started
from tests.hil.rigs import FAULTS
from tests.pil.built import JOB, firmware


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
    assert f"stepmap: error: the run ended early: {told}. Check its" in complaints
    assert "Traceback" not in complaints
    assert "as expected: stopped, stop_command" in table
    recording = built / "suspended_mass" / "bench" / "run.mcap"
    # The run begins a third of a second after arming; its 30 ticks until 1 s, then the stop within the next period.
    assert events(recording)[:3] == ["armed", "running", "fault: unplugged"]
    assert events(recording)[-1] == "stopped"
    whole = story(recording)
    assert whole.closed.ended.startswith(told)
    assert [result.ok for result in whole.closed.results] == [True]
    assert sum(row.running and row.measured for row in whole.closed.rows) == 30
    assert feeds(made) == []


# How long


def test_a_run_may_be_longer_than_its_plan(built: Path) -> None:
    """Two seconds after the end of the plan the mass still rests at its set point."""
    code, _, complaints = run(command(built, "--seconds", "12", "--no-open-loop"))
    assert (code, complaints) == (0, "")
    recording = story(built / "suspended_mass" / "bench" / "run.mcap")
    rows = [row for row in recording.closed.rows if row.running]
    assert len(rows) == 360
    for row in rows[300:]:
        assert np.hypot(row.coordinates[0] - 0.43, row.coordinates[1] - 0.25) < 0.01


@pytest.mark.parametrize("seconds", ["0", "0.05", "-1", "nan", "1e9"])
def test_a_run_of_no_length(seconds: str, built: Path) -> None:
    code, _, complaints = run(command(built, "--seconds", seconds))
    assert code == 2
    assert "--seconds" in complaints


# The board


def test_an_emulated_chip_is_flashed_first(tmp_path: Path) -> None:
    build = build_folder(tmp_path, "stm32f405")
    options = ("--board", "stm32f405", "--faults", str(FAULTS / "unplugged.toml"))
    code, table, complaints = run(command(build, *options))
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
        deadline = time.monotonic() + 10
        while not log.read_text().startswith("/dev/") and time.monotonic() < deadline:
            time.sleep(0.02)
        yield log.read_text().split()[0]
    finally:
        board.kill()
        board.wait()


def test_a_port_that_somebody_uses(terminal: str, built: Path) -> None:
    with serial.Serial(terminal, exclusive=True):
        code, _, complaints = run(command(built, "--port", terminal))
    assert code == 1
    assert "no other program using it" in complaints


def test_a_port_with_nothing_behind_it(terminal: str, built: Path) -> None:
    code, _, complaints = run(command(built, "--port", terminal))
    assert code == 1
    assert "Nothing arrives at all" in complaints


def test_a_board_with_another_key(port: str, tmp_path: Path) -> None:
    other = tmp_path / "key"
    other.touch(mode=0o600)
    other.write_text("17" * 32 + "\n")
    built = build_folder(tmp_path / "build")  # of its own: the firmware is built again, with that key
    code, _, complaints = run(command(built, "--port", port, key=other))
    assert code == 1
    assert "another key" in complaints
    assert "Traceback" not in complaints


def test_a_board_with_another_model(port: str, tmp_path: Path) -> None:
    """The board was flashed with the main job, and now a job with another mass is to run on it."""
    job = tmp_path / "heavier.toml"
    job.write_text(JOB.read_text().replace("mass = 0.1 ", "mass = 0.12 "))
    code, _, complaints = run(command(tmp_path / "build", "--port", port, job=job))
    assert code in (1, 2)
    assert "model" in complaints
    assert "flash" in complaints
    assert "Traceback" not in complaints


# The disk


def limited(words: list[str], size: int) -> list[str]:
    """The same with files of at most that size."""
    code = (
        "import os, resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); os.execv(sys.argv[1], sys.argv[1:])"
    )
    return [sys.executable, "-c", code, *words]


def test_a_file_that_may_not_grow(built: Path) -> None:
    code, _, complaints = run(limited(command(built), 400_000))
    check_aborted(built, code, complaints, "File too large")


def test_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
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
    assert f"stepmap: error: the run ended early: the recording could not go on: {why}" in complaints
    assert "Traceback" not in complaints
    left = story(build / "suspended_mass" / "aborted.mcap")
    assert 10 < len(left.closed.rows) < 300
    assert left.closed.ended == "the recording ends here"


# Ctrl-C


@pytest.mark.slow
@pytest.mark.parametrize("board", ["native", "stm32f405"])
def test_ctrl_c_at_any_time_leaves_nothing(board: str, tmp_path: Path) -> None:
    """At every stage: reading, flashing, connecting, uploading, calibrating, running, and the comparison after it."""
    build = build_folder(tmp_path, board)
    folder = build / "suspended_mass"
    there = {path.name for path in folder.iterdir()}
    words = command(build, "--board", board, sensor="kinect")
    for seconds in (1.0, 1.7, 2.4, 3.2, 4.0, 5.0, 6.5, 9.0):
        with started(words) as made:
            time.sleep(seconds)
            made.process.send_signal(signal.SIGINT)
            code, _, complaints = made.end(30.0)
            settled(lambda made=made: made.family() == [])  # type: ignore[misc]
        assert (code, "Traceback" in complaints) == (1, False), f"after {seconds} s: {complaints}"
        assert "interrupted" in complaints
        assert {path.name for path in folder.iterdir()} <= {*there, ".count", ".build-native.pio", "aborted.mcap"}
        settled(lambda made=made: feeds(made) == [])  # type: ignore[misc]
        if (folder / "aborted.mcap").exists():
            told = events(folder / "aborted.mcap")
            assert "running" not in told or "stopped" in told[-1], told


def settled(over: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not over():
        assert time.monotonic() < deadline
        time.sleep(0.05)
