"""A run with a robot at a port and a Kinect: an emulated one, which the command cannot tell from a real one."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from stepmap_hil.bench import replay as replaying
from stepmap_hil.boards import NativeBoard
from stepmap_hil.runs.mcap import read
from stepmap_hil.runs.recording import read_run
from tests.hil.commands import NewRuns, build_folder, call
from tests.pil.built import JOB, KEY, ROOT, firmware
from tests.processes import PATIENCE, heed_signals, wait_for
from tests.realtime import real_time
from tests.undrawn import STEPMAP

TICKS = 90  # of a run to its end
MOVES = 150_000  # bytes of a recording whose robot has moved for some ticks
pytestmark = pytest.mark.realtime  # all of them: the robot keeps time from the first to the last
SHARE, PROCESSES = 0.35, 1  # what a run needs beside the robot, which goes on while the probe runs


def command(name: str, *words: object) -> list[str]:
    return [*STEPMAP, name, str(JOB), *map(str, words)]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_folder(tmp_path_factory.mktemp("build"))


@dataclass
class Robot:
    """``stepmap robot`` in another process."""

    process: subprocess.Popen[str]
    rig: Path
    build: Path

    @property
    def folder(self) -> Path:
        return self.build / "suspended_mass"

    def bench(self, *words: object) -> list[str]:
        return command("bench", "--rig", self.rig, "--build", self.build, *words)


@pytest.fixture(scope="module")
def robot(build: Path) -> Iterator[Robot]:
    file = build / "rig.toml"
    line = command("robot", "--build", build, "--rig", file)
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=heed_signals) as process:
        try:
            assert process.stdout is not None
            assert "a robot is at /dev/" in process.stdout.readline()
            file.write_text(file.read_text().replace('board = "native"', 'board = "native"\ncountdown = 1'))
            yield Robot(process, file, build)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)


@contextmanager
def typing(line: list[str]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A command at a terminal, and the keyboard of it."""
    ours, theirs = pty.openpty()
    options = {"stdin": theirs, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(line, cwd=ROOT, text=True, preexec_fn=heed_signals, **options) as process:  # type: ignore[call-overload]
        os.close(theirs)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


def wait(process: subprocess.Popen[str], words: str) -> None:
    """Reads what a process says until it says these words."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return
    raise AssertionError(f"never said {words!r}, but:\n{said}")


def events(recording: Path) -> list[str]:
    return [entry.content["text"] for entry in read(recording).of("/event")]


@dataclass
class Ran:
    """A whole run with nobody there."""

    said: str
    folder: Path


@pytest.fixture(scope="module")
def ran(robot: Robot) -> Ran:
    with real_time(SHARE, PROCESSES):
        line = robot.bench("--unattended", "--seconds", TICKS / 30)
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        folder = (robot.folder / "bench").resolve()
        # The board ticks on until it is told to stop: whatever it has reported by then is part of the run.
        assert TICKS <= json.loads((folder / "summary.json").read_text())["ticks"] < TICKS + 30
    return Ran(done.stdout, folder)


def test_a_run_with_nobody_there(ran: Ran) -> None:
    summary = json.loads((ran.folder / "summary.json").read_text())
    assert (summary["plant"], summary["mode"]) == ("real", "realtime")
    assert summary["ended"] == "done"
    assert summary["bit_exact_with_host"] is True
    assert summary["tracking_rms_m"] < 0.02
    assert (summary["estimate_rms_m"], summary["raw_measurement_rms_m"]) == (None, None)
    assert events(ran.folder / "run.mcap") == ["armed", "running", "stopped"]
    assert re.search(r"tracking +\d+\.\d+ mm", ran.said)


def test_its_recording_is_replayed_bit_for_bit(ran: Ran) -> None:
    """All ticks, those too that the board did by its own clock where no measurement came; one other bit is noticed."""
    told = read_run(ran.folder / "run.mcap")
    rows = told.closed.rows
    found = replaying.replay(told, NativeBoard(firmware("native").program), KEY)
    assert found.first == ""
    assert found.equal == found.compared > 30
    assert found.compared == found.ticks or found.why
    number = next(row.sequence for row in rows if row.running and row.measured)
    sent = [
        {**one, "words": [one["words"][0] ^ 1 << 14, *one["words"][1:]]}
        if one["kind"] == "measurement" and one["sequence"] == number
        else one
        for one in told.sent
    ]
    found = replaying.replay(replace(told, sent=sent), NativeBoard(firmware("native").program), KEY)
    assert 0 < found.equal < found.compared
    assert "estimate was" in found.first


def test_any_key_stops_the_robot(robot: Robot) -> None:
    new = NewRuns(robot.build)
    with real_time(SHARE, PROCESSES):
        with typing(robot.bench()) as (process, keyboard):
            wait(process, "Press Enter to go on")
            os.write(keyboard, b"\n")
            wait(process, "running")
            wait_for(lambda: new.recorded() > MOVES, "the robot moves")
            os.write(keyboard, b"x")
            out, told = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, told
        assert "stopped by the user" in out
        assert json.loads((robot.folder / "bench" / "summary.json").read_text())["ticks"] < 150
        assert events(robot.folder / "bench" / "run.mcap") == ["armed", "running", "stopped"]


def test_a_key_during_the_countdown(robot: Robot) -> None:
    with real_time(SHARE, PROCESSES):
        with typing(robot.bench()) as (process, keyboard):
            wait(process, "Press Enter to go on")
            os.write(keyboard, b"\n")
            wait(process, "armed")
            os.write(keyboard, b" ")
            _, told = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert "before the run began" in told
        assert events(robot.folder / "aborted.mcap") == ["armed", "stopped"]


def test_leaving_before_anything_moves(robot: Robot) -> None:
    new = NewRuns(robot.build)
    with real_time(SHARE, PROCESSES):
        with typing(robot.bench()) as (process, keyboard):
            wait(process, "Press Enter to go on")
            os.write(keyboard, b"q")
            _, told = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert "nothing has moved" in told
        assert new.recorded() == 0


def test_a_robot_without_a_keyboard(robot: Robot) -> None:
    code, _, complaints = call(robot.bench())
    assert code == 2
    assert "no keyboard" in complaints


def test_a_room_that_is_too_small(robot: Robot) -> None:
    small = robot.rig.with_name("small.toml")
    small.write_text(robot.rig.read_text() + "\n[limits]\nxm = [-0.1, 0.1]\n")
    code, _, complaints = call(replace(robot, rig=small).bench("--unattended"))
    assert code == 2
    assert "limits.xm: the plan goes to" in complaints


def test_faults_are_for_simulated_plants(robot: Robot) -> None:
    faults = ROOT / "examples" / "faults" / "cut.toml"
    code, _, complaints = call(robot.bench("--unattended", "--faults", faults))
    assert code == 2
    assert "--faults: faults are injected into a simulated plant" in complaints


def test_a_robot_and_its_camera_that_go_away(robot: Robot) -> None:
    with real_time(SHARE, PROCESSES):
        with typing(robot.bench("--unattended")) as (process, _):
            wait(process, "running")
            robot.process.kill()
            _, told = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert "Traceback" not in told
        assert events(robot.folder / "aborted.mcap")[:2] == ["armed", "running"]
