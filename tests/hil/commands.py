"""``stepmap bench`` as users start it, and what it leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hil.rigs import rig
from tests.pil.built import JOB, KEY_FILE, OUT, ROOT
from tests.processes import heed_interrupts

MARK = "STEPMAP_TEST_MARK"


def build_folder(folder: Path, board: str = "native") -> Path:
    """A build folder in which everything is done already."""
    rig(board)
    shutil.copytree(OUT / "suspended_mass", folder / "suspended_mass")
    return folder


def command(build: Path, *more: str, job: Path = JOB, sensor: str = "gaussian", key: Path = KEY_FILE) -> list[str]:
    options = ["--sensor", sensor, "--build", str(build), "--key", str(key), *more]
    return [sys.executable, "-m", "stepmap.cli", "bench", str(job), *options]


class Started:
    """A command that runs; everything it starts carries its mark."""

    def __init__(self, words: list[str]) -> None:
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=os.environ | {MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=heed_interrupts,
        )

    def end(self, timeout: float = 120.0) -> tuple[int, str, str]:
        """Exit code, output and complaints."""
        told, complaints = self.process.communicate(timeout=timeout)
        return self.process.returncode, told, complaints

    def family(self) -> list[str]:
        """Command lines of all that still runs of it, itself left out."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                marked = f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if marked and words and int(folder.name) != self.process.pid:
                found.append(words)
        return found


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
    """Exit code, output and complaints; no process may be left."""
    with started(words) as made:
        ended = made.end()
        assert made.family() == []
    return ended
