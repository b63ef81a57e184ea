"""Runs and robots that are told to end: by kill, by a terminal that closes. Nothing is left and the robot stands."""

from __future__ import annotations

import os
import pty
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.mcap import read
from tests.hil.commands import LONG, NewRuns, Started, build_folder, command, started
from tests.pil.built import JOB, ROOT
from tests.processes import ended, heed_signals, wait_for

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_folder(tmp_path_factory.mktemp("build"))


def check_left(folder: Path, there: set[str]) -> None:
    """The record ends with the command to stop, and there is nothing else."""
    assert {path.name for path in folder.iterdir()} - there <= {"aborted.mcap", "runs"}
    told = [entry.content["text"] for entry in read(folder / "aborted.mcap").of("/event")]
    assert told == ["armed", "running", "stopped early"]
    assert {run.verdict for run in runs.known(folder / "runs")} == {runs.ABORTED}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_terminated_stops_the_robot(number: signal.Signals, built: Path) -> None:
    """A second signal, right after the first, does not get in the way."""
    folder, new = built / "suspended_mass", NewRuns(built)
    (folder / "aborted.mcap").unlink(missing_ok=True)
    there = {path.name for path in folder.iterdir()}
    with started(command(built, *LONG)) as made:
        wait_for(lambda: new.under_way() or made.process.poll() is not None, "the robot moves")
        made.process.send_signal(number)
        time.sleep(0.02)
        made.process.send_signal(number)
        code, _, complaints = made.end()
        wait_for(lambda: made.family() == [], "nothing of it is left")
    assert (code, "Traceback" in complaints) == (1, False), complaints
    assert complaints.splitlines()[-1].startswith("error: terminated")
    assert "aborted.mcap" in complaints
    check_left(folder, there)


def test_a_terminal_that_closes_stops_the_robot(built: Path) -> None:
    folder, new = built / "suspended_mass", NewRuns(built)
    (folder / "aborted.mcap").unlink(missing_ok=True)
    there = {path.name for path in folder.iterdir()}
    child, terminal = pty.fork()
    if child == 0:
        words = command(built, *LONG)
        os.chdir(ROOT)
        heed_signals()
        os.execv(words[0], words)
    os.set_blocking(terminal, False)

    def moves() -> bool:
        with suppress(BlockingIOError):
            os.read(terminal, 65536)  # else what it shows would fill the line, and it would wait
        return new.under_way()

    try:
        wait_for(moves, "the robot moves")
        os.close(terminal)
        wait_for(lambda: ended(child), "the command has ended")
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    check_left(folder, there)


def left(made: Started) -> list[Path]:
    """What a robot has in memory."""
    return list(MEMORY.glob(f"stepmap-robot-{made.process.pid}-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_robot_leaves_nothing_in_memory(number: signal.Signals, built: Path) -> None:
    """However it ends; one that is killed leaves it to its camera."""
    options = ["--build", str(built), "--rig", str(built / "rig.toml")]
    with started([sys.executable, "-m", "stepmap.cli", "robot", str(JOB), *options]) as made:
        assert made.process.stdout is not None
        assert "a robot is at" in made.process.stdout.readline()
        assert left(made)
        made.process.send_signal(number)
        code, _, complaints = made.end()
        wait_for(lambda: made.family() == [], "nothing of it is left")
    wait_for(lambda: not left(made), "its memory is given back")
    assert "Traceback" not in complaints
    assert code == (-number if number == signal.SIGKILL else 0), complaints  # a kill is how it is meant to end


def test_nohup_goes_on(built: Path) -> None:
    """Where SIGHUP is ignored it stays so."""
    new = NewRuns(built)
    with started(["nohup", *command(built, "--seconds", "5", "--no-open-loop")]) as made:
        wait_for(lambda: new.under_way() or made.process.poll() is not None, "the robot moves")
        assert made.process.poll() is None
        made.process.send_signal(signal.SIGHUP)
        code, _, complaints = made.end()
    assert code == 0, complaints
