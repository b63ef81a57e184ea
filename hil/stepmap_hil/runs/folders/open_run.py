"""The folder of a run that goes on: begun, ended or cut off, and cleared up after a process that was killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stepmap.errors import DamagedError, ModelError
from stepmap.lock import try_alone
from stepmap_hil.runs.folders.layout import (
    ABORTED,
    DATE,
    FORMAT,
    KILLED,
    LOCK,
    LONGEST,
    RECORDING,
    REMOVED,
    RUNNING,
    SCRATCH,
    alone_in,
    is_run,
    new_folder,
    read_about,
    write_about,
)
from stepmap_hil.runs.folders.links import point
from stepmap_hil.runs.mcap import read


@dataclass
class OpenRun:
    """The folder of a run while it goes on."""

    path: Path
    about: dict[str, Any]
    ended: bool = False
    made: os.stat_result = field(init=False)

    def __post_init__(self) -> None:
        self.made = self.path.lstat()

    @property
    def recording(self) -> Path:
        return self.path / RECORDING

    @property
    def scratch(self) -> Path:
        """For files that nobody needs afterwards."""
        return self.path / SCRATCH

    @property
    def is_there(self) -> bool:
        """Whether its folder is still the one that was made; it may have been moved, removed, or replaced by a link."""
        try:
            return os.path.samestat(self.made, self.path.lstat())
        except OSError:
            return False

    def require_there(self) -> None:
        """Raises where its folder is another one by now: nothing is written to that, and nothing removed there."""
        if not self.is_there:
            raise ModelError(
                f"the folder of the run, {self.path}, was moved, removed or replaced while the run went on",
                hint="The robot has stopped; what was recorded is where the folder is now. Run it again.",
            )

    def end(self, verdict: str, reason: str, ticks: int) -> None:
        """Writes the verdict, and makes this the latest run."""
        self.require_there()
        self._write(verdict, reason, ticks)
        point(self.path.parent, self.path.name)
        self.ended = True

    def abort(self, reason: str) -> bool:
        """What was recorded stays, with its verdict; a run of which nothing was recorded leaves nothing."""
        if not self.is_there:
            return False
        ticks = _ticks(self.recording)
        if ticks is None:
            shutil.rmtree(self.path, ignore_errors=True)
            return False
        self._write(ABORTED, reason, ticks)
        return True

    def _write(self, verdict: str, reason: str, ticks: int) -> None:
        self.about |= {"verdict": verdict, "reason": reason[:LONGEST], "ticks": ticks}
        write_about(self.path, self.about)


@contextmanager
def begin(place: Path, board: str, about: Mapping[str, Any]) -> Iterator[OpenRun]:
    """A new folder for a run, in `place`. A run that is left by an error keeps what was recorded."""
    place.mkdir(parents=True, exist_ok=True)
    with alone_in(place):
        sweep(place)
        date = datetime.now(UTC).strftime(DATE)
        made = OpenRun(new_folder(place, f"{date}-{board}"), {"format": FORMAT, "begun": date, "board": board, **about})
        handle = _hold(made.path)
    try:
        made._write(RUNNING, "", 0)
        made.scratch.mkdir()
        yield made
    except BaseException as error:
        if not made.ended:
            made.abort(why(error))
        raise
    finally:
        if made.is_there:
            shutil.rmtree(made.scratch, ignore_errors=True)
            (made.path / LOCK).unlink(missing_ok=True)
        os.close(handle)


def _hold(path: Path) -> int:
    """The lock of a new folder, which goes where there can be none."""
    try:
        handle = try_alone(path / LOCK)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    assert handle is not None  # nobody knows of it yet
    return handle


def why(error: BaseException) -> str:
    """An error, or a signal, as the reason of a run that was cut off."""
    return str(error) or ("interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__)


def _ticks(recording: Path) -> int | None:
    """Ticks of a run that were recorded, until the board ended it; None where nothing was."""
    from stepmap_hil.runs.fault_verdict import MOVING  # takes a while, and lists of runs do without

    try:
        found = read(recording)
    except (ModelError, DamagedError):
        return None
    if not found.entries:
        return None
    ticks = [entry.content for entry in found.of("/tick")]
    return sum(tick.get("running") is True and tick.get("state") in MOVING for tick in ticks)


def sweep(place: Path) -> None:
    """Clears up after processes that were killed: verdicts for what they recorded, nothing else stays."""
    for path in place.iterdir():
        if REMOVED.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)  # a link is left alone
    for path in place.iterdir():
        if not is_run(path) or read_about(path).get("verdict", RUNNING) != RUNNING:
            continue
        try:
            handle = try_alone(path / LOCK)
        except OSError:  # in a folder of somebody else
            continue
        if handle is None:
            continue  # it goes on
        try:
            _clear(path)
        finally:
            (path / LOCK).unlink(missing_ok=True)
            os.close(handle)


def _clear(path: Path) -> None:
    """Ends what a killed process began. The lock is held: now, and not before, is it known that nobody works here."""
    about = read_about(path)
    if about.get("verdict", RUNNING) != RUNNING:  # it has ended since it was looked at
        return
    ticks = _ticks(path / RECORDING)
    if ticks is None:
        shutil.rmtree(path, ignore_errors=True)
        return
    told = {"verdict": KILLED, "reason": "its process was killed", "ticks": ticks}
    write_about(path, {"format": FORMAT, **about, **told})
    shutil.rmtree(path / SCRATCH, ignore_errors=True)
