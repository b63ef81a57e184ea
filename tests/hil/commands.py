"""``stepmap bench`` as users start it, and what it leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stepmap.cli import app
from tests.hil.rigs import rig
from tests.pil.built import JOB, KEY_FILE, OUT, ROOT
from tests.processes import PATIENCE, TIED, heed_signals
from tests.undrawn import DRAWING, STEPMAP

MARK = "STEPMAP_TEST_MARK"


def build_folder(folder: Path, board: str = "native") -> Path:
    """A build folder in which everything is done already."""
    rig(board)
    shutil.copytree(OUT / "suspended_mass", folder / "suspended_mass")
    return folder


def command(build: Path, *more: str, job: Path = JOB, sensor: str = "gaussian", key: Path = KEY_FILE) -> list[str]:
    """Words of a process that runs the bench; what it leaves has no pictures."""
    options = ["--sensor", sensor, "--build", str(build), "--key", str(key), *more]
    return [*STEPMAP, "bench", str(job), *options]


class Started:
    """A command that runs; everything it starts carries its mark."""

    def __init__(self, words: list[str]) -> None:
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [*TIED, *words],
            cwd=ROOT,
            env=os.environ | {MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=heed_signals,
        )

    def end(self, timeout: float = PATIENCE) -> tuple[int, str, str]:
        """Exit code, output and complaints."""
        told, complaints = self.process.communicate(timeout=timeout)
        return self.process.returncode, told, without_waiting(complaints)

    def family(self) -> list[str]:
        """Command lines of all that still runs of it, itself left out."""
        return family(self.mark, self.process.pid)

    def owns(self, pid: int) -> bool:
        """Whether a process is this one, or one that it has started."""
        return carries(pid, self.mark)


def without_waiting(complaints: str) -> str:
    """What a command complained of; that it waited for a library another test builds is no complaint."""
    return "".join(
        line for line in complaints.splitlines(keepends=True) if not line.startswith("note: waiting for process ")
    )


def family(mark: str, without: int | None = None) -> list[str]:
    """Command lines of all processes with a mark, one left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if words and carries(int(folder.name), mark) and int(folder.name) != without:
            found.append(words)
    return found


def carries(pid: int, mark: str) -> bool:
    """Whether a process was started with a mark."""
    try:
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


UNDER_WAY = 200_000  # bytes of a recording: job, plan and calibration come first, then four kilobytes per tick
LONG = ("--seconds", "600", "--no-open-loop")  # for whoever is to end it: longer than anybody waits


def running(program: str) -> bool:
    """Whether a process runs this program."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if program.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


class NewRuns:
    """Runs of a build folder that begin after this object was made."""

    def __init__(self, build: Path, job: str = "suspended_mass") -> None:
        self.build = build
        self._place = build / job / "runs"
        self._before = set(self._place.glob("*"))

    def recorded(self) -> int:
        """Bytes that were recorded."""
        return sum(path.stat().st_size for path in self._place.glob("*-*/run.mcap") if path.parent not in self._before)

    def under_way(self) -> bool:
        """Whether one is recorded that moves by now."""
        return self.recorded() > UNDER_WAY


@contextmanager
def started(words: list[str]) -> Iterator[Started]:
    made = Started(words)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.communicate()


def run(words: list[str]) -> tuple[int, str, str]:
    """Exit code, output and complaints of a process; no process may be left."""
    with started(words) as made:
        ended = made.end()
        assert made.family() == []
    return ended


def call(words: list[str], folder: Path = ROOT) -> tuple[int, str, str]:
    """The same within this process, which has everything imported: for what does not end by a signal or a limit."""
    assert words[:3] == STEPMAP
    mark = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patch, chdir(folder):
        for name in DRAWING:
            patch.setattr(name, lambda *_: {})
        patch.setenv(MARK, mark)
        done = CliRunner().invoke(app, words[3:])
    assert family(mark) == []
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, without_waiting(done.stderr)
