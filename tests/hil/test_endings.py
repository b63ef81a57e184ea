"""Runs and robots that are told to end: by kill, by a terminal that closes. Nothing is left and the robot stands."""

from __future__ import annotations

import os
import pty
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stepmap_hil.record import read
from tests.hil.commands import Started, build_folder, command, started
from tests.pil.built import JOB, ROOT

MEMORY = Path("/dev/shm")
PROGRAM = Path("build-native") / "program"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_folder(tmp_path_factory.mktemp("build"))


def settled(over: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not over():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def heeding(words: list[str]) -> list[str]:
    """A command that heeds SIGHUP, also where whoever runs the tests ignores it."""
    code = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-c", code, *words]


def under_way(program: Path) -> bool:
    """Whether a process runs this program: the board of a run, whose ten seconds are half over some seconds later."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if str(program).encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                time.sleep(4.5)
                return True
        except OSError:
            continue
    return False


def check_left(folder: Path, there: set[str]) -> None:
    """The record ends with the command to stop, and there is nothing else."""
    assert {path.name for path in folder.iterdir()} - there <= {"aborted.mcap", ".count"}
    told = [entry.content["text"] for entry in read(folder / "aborted.mcap").of("/event")]
    assert told == ["armed", "running", "stopped early"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_terminated_stops_the_robot(number: signal.Signals, built: Path) -> None:
    """A second signal, right after the first, does not get in the way."""
    folder = built / "suspended_mass"
    (folder / "aborted.mcap").unlink(missing_ok=True)
    there = {path.name for path in folder.iterdir()}
    with started(heeding(command(built, "--mode", "realtime"))) as made:
        settled(lambda: under_way(folder / PROGRAM))
        made.process.send_signal(number)
        time.sleep(0.02)
        made.process.send_signal(number)
        code, _, complaints = made.end(30.0)
        settled(lambda: made.family() == [])
    assert (code, "Traceback" in complaints) == (1, False), complaints
    assert complaints.splitlines()[-1].startswith("stepmap: error: terminated")
    assert "aborted.mcap" in complaints
    check_left(folder, there)


def test_a_terminal_that_closes_stops_the_robot(built: Path) -> None:
    folder = built / "suspended_mass"
    (folder / "aborted.mcap").unlink(missing_ok=True)
    there = {path.name for path in folder.iterdir()}
    child, terminal = pty.fork()
    if child == 0:
        words = command(built, "--mode", "realtime")
        os.chdir(ROOT)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execv(words[0], words)
    try:
        deadline = time.monotonic() + 60
        while not under_way(folder / PROGRAM):
            assert time.monotonic() < deadline
            os.set_blocking(terminal, False)
            try:
                os.read(terminal, 65536)
            except BlockingIOError:
                time.sleep(0.02)
        os.close(terminal)
        ended: list[int] = []
        settled(lambda: ended.append(os.waitpid(child, os.WNOHANG)[1]) or Path(f"/proc/{child}").exists() is False)  # type: ignore[func-returns-value]
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    assert os.waitstatus_to_exitcode(ended[-1]) == 1
    check_left(folder, there)


def left(made: Started) -> list[Path]:
    """What a robot has in memory."""
    return list(MEMORY.glob(f"stepmap-robot-{made.process.pid}-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_robot_leaves_nothing_in_memory(number: signal.Signals, built: Path) -> None:
    """However it ends; one that is killed leaves it to its camera."""
    options = ["--build", str(built), "--rig", str(built / "rig.toml")]
    with started(heeding([sys.executable, "-m", "stepmap.cli", "robot", str(JOB), *options])) as made:
        assert made.process.stdout is not None
        assert "a robot is at" in made.process.stdout.readline()
        assert left(made)
        made.process.send_signal(number)
        code, _, complaints = made.end(30.0)
        settled(lambda: made.family() == [])
    settled(lambda: not left(made))
    assert "Traceback" not in complaints
    assert code == (-number if number == signal.SIGKILL else 0), complaints  # a kill is how it is meant to end


def test_nohup_goes_on(built: Path) -> None:
    """Where SIGHUP is ignored it stays so."""
    with started(["nohup", *command(built, "--no-open-loop", "--seconds", "20")]) as made:
        settled(lambda: under_way(built / "suspended_mass" / PROGRAM) or made.process.poll() is not None)
        assert made.process.poll() is None
        made.process.send_signal(signal.SIGHUP)
        code, _, complaints = made.end(120.0)
    assert code == 0, complaints
