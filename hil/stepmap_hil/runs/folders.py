"""Folders of runs: every run has one of its own, ``<build>/<job>/runs/<UTC date>-<board>-<n>/``; none replaces another.

A folder holds the recording, pictures, summary.json, the report, and ``run.json`` with the verdict. ``runs/latest``
leads to the last run that left a report, ``<build>/<job>/bench`` leads there too, and ``<build>/<job>/aborted.mcap`` to
the recording of the last run that was cut off. A run that goes on holds a lock, and one that was killed does not.

Folders may be among them that are somebody else's, or came from elsewhere: only what is a run is listed or removed, and
nothing is written through links.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from stepmap.errors import DamagedError, ModelError
from stepmap.files import overwrite, read_file, write_whole
from stepmap.lock import alone, try_alone
from stepmap_hil.runs.mcap import read

RUNS, LATEST, ABOUT, RECORDING = "runs", "latest", "run.json", "run.mcap"
SUMMARY, LOCK, SCRATCH, GONE = "summary.json", ".lock", ".scratch", ".pruned-"
FORMAT = "stepmap-run-1"
DATE = "%Y%m%dT%H%M%SZ"
NAME = re.compile(r"\d{8}T\d{6}Z-[a-z0-9]+-\d+")
REMOVED = re.compile(rf"{re.escape(GONE)}\d+-{NAME.pattern}")
BEGUN = re.compile(rf"{re.escape(LOCK)}|{re.escape(SCRATCH)}|{re.escape(RECORDING)}|\.?{re.escape(ABOUT)}(\..*)?")
"""What there is in the folder of a run that was killed before it could say what it is, or whose disk was full."""
MOST = 64 * 1024  # bytes of run.json and of other small files
LONGEST = 4000  # characters of a reason: that of a build that failed has a log in it
RUNNING, PASSED, FAILED, STOPPED = "running", "passed", "failed", "stopped"
ABORTED, KILLED, UNKNOWN = "aborted", "killed", "unknown"


def folder(build: Path, job: str) -> Path:
    """Where the runs of a job are."""
    return build / job / RUNS


def require_place(place: Path, option: str) -> None:
    """Raises where something is in the place of a folder."""
    if place.exists() and not place.is_dir():
        raise ModelError(f"{option}: {place} is not a folder")


# A run that is being made


@dataclass
class OpenRun:
    """The folder of a run while it goes on."""

    path: Path
    about: dict[str, Any]
    ended: bool = False

    @property
    def recording(self) -> Path:
        return self.path / RECORDING

    @property
    def scratch(self) -> Path:
        """For files that nobody needs afterwards."""
        return self.path / SCRATCH

    def end(self, verdict: str, reason: str, ticks: int) -> None:
        """Writes the verdict, and makes this the latest run."""
        self._write(verdict, reason, ticks)
        point(self.path.parent, self.path.name)
        self.ended = True

    def abort(self, reason: str) -> bool:
        """What was recorded stays, with its verdict; a run of which nothing was recorded leaves nothing."""
        ticks = _ticks(self.recording)
        if ticks is None:
            shutil.rmtree(self.path, ignore_errors=True)
            return False
        self._write(ABORTED, reason, ticks)
        return True

    def _write(self, verdict: str, reason: str, ticks: int) -> None:
        self.about |= {"verdict": verdict, "reason": reason[:LONGEST], "ticks": ticks}
        _write_about(self.path, self.about)


@contextmanager
def begin(place: Path, board: str, about: Mapping[str, Any]) -> Iterator[OpenRun]:
    """A new folder for a run, in `place`. A run that is left by an error keeps what was recorded."""
    place.mkdir(parents=True, exist_ok=True)
    with _alone(place):
        sweep(place)
        date = datetime.now(UTC).strftime(DATE)
        made = OpenRun(_fresh(place, f"{date}-{board}"), {"format": FORMAT, "begun": date, "board": board, **about})
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


def _fresh(place: Path, name: str) -> Path:
    """A folder that was not there: making one succeeds for one process only."""
    for n in count(1):
        path = place / f"{name}-{n}"
        with suppress(FileExistsError):
            path.mkdir()
            return path
    raise AssertionError("count ends")


def _alone(place: Path) -> Any:
    return alone(place / LOCK, f"begins a run in {place}", patience=60.0)


def _write_about(path: Path, about: Mapping[str, Any]) -> None:
    text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    try:
        write_whole(path / ABOUT, text, links=False)
    except OSError:
        if not (path / ABOUT).exists():
            raise
        # A full disk has room where the file already is.
        overwrite(path / ABOUT, text.encode())


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
        if not _is_run(path) or _about(path).get("verdict", RUNNING) != RUNNING:
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
    about = _about(path)
    if about.get("verdict", RUNNING) != RUNNING:  # it has ended since it was looked at
        return
    ticks = _ticks(path / RECORDING)
    if ticks is None:
        shutil.rmtree(path, ignore_errors=True)
        return
    told = {"verdict": KILLED, "reason": "its process was killed", "ticks": ticks}
    _write_about(path, {"format": FORMAT, **about, **told})
    shutil.rmtree(path / SCRATCH, ignore_errors=True)


# Links


def point(place: Path, name: str) -> None:
    """Makes a run the latest one. Where there are no links, a file holds its name."""
    try:
        _link(place / LATEST, name)
    except OSError:
        write_whole(place / LATEST, f"{name}\n", links=False)


def _link(link: Path, target: str) -> None:
    """Makes or replaces a link, at once."""
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    os.symlink(target, fresh)
    try:
        os.replace(fresh, link)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def lead(build: Path, job: str) -> None:
    """Lets ``<build>/<job>/bench`` lead to the latest run. A folder that an older version left becomes a run."""
    place, link = folder(build, job), build / job / "bench"
    with _alone(place):
        if link.is_dir() and not link.is_symlink() and _json(link / SUMMARY):
            _adopt(place, link)
        if link.is_symlink() or not link.exists():
            with suppress(OSError):  # no links here
                _link(link, f"{RUNS}/{LATEST}")


def lead_aborted(build: Path, job: str, run: OpenRun) -> bool:
    """Whether ``<build>/<job>/aborted.mcap`` leads to the recording of this run, which was cut off, from now on."""
    try:
        _link(build / job / "aborted.mcap", f"{RUNS}/{run.path.name}/{RECORDING}")
    except OSError:  # no links here
        return False
    return True


def _adopt(place: Path, old: Path) -> None:
    """Makes a run of a folder that held the last one before every run had its own."""
    found = _json(old / SUMMARY)
    date = datetime.fromtimestamp(old.stat().st_mtime, UTC).strftime(DATE)
    board = re.sub(r"[^a-z0-9]", "", str(found.get("board", ""))) or "board"
    path = _fresh(place, f"{date}-{board}")
    os.replace(old, path)
    verdict = PASSED if found.get("ended") == "done" else UNKNOWN
    about = {"format": FORMAT, "begun": date, "board": board, "job": found.get("job", place.parent.name)}
    _write_about(path, about | {"verdict": verdict, "reason": found.get("ended", ""), "ticks": found.get("ticks", 0)})


def latest(place: Path) -> Path | None:
    """The latest run in a folder of runs."""
    link = place / LATEST
    try:
        name = os.readlink(link) if link.is_symlink() else read_file(link, MOST).decode().strip()
    except (OSError, ValueError):
        return None
    return place / name if _is_name(name) and (place / name).is_dir() else None


# Runs that are there


@dataclass(frozen=True)
class Known:
    """A run in a list."""

    path: Path
    begun: str
    verdict: str
    reason: str
    ticks: int
    size: int  # bytes


def known(place: Path) -> list[Known]:
    """The runs of a folder, oldest first; those of processes that were killed have their verdict then."""
    if not holds_runs(place):
        return []
    with _alone(place):
        sweep(place)
    found = [path for path in _inside(place) if _is_run(path)]
    return sorted((_known(path) for path in found), key=lambda run: (run.begun, run.path.name))


def holds_runs(place: Path) -> bool:
    """Whether there are runs in a folder, or what is left of one."""
    return any(_is_run(path) or REMOVED.fullmatch(path.name) for path in _inside(place))


def _is_run(path: Path) -> bool:
    """Whether a folder is that of a run, and not one of somebody else among them.

    It says so in run.json. One that says nothing was killed as it began, or had no room left on the disk, and holds
    nothing but what is there then: no recording before run.json.
    """
    if not NAME.fullmatch(path.name) or path.is_symlink() or not path.is_dir():
        return False
    if not all(_is_file_or_none(path / name) for name in (LOCK, ABOUT)):
        return False
    about = _about(path)
    if about:
        return about.get("format") == FORMAT
    names = {inner.name for inner in _inside(path)}
    return all(map(BEGUN.fullmatch, names)) and (RECORDING not in names or ABOUT in names)


def _is_file_or_none(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError as error:
        return isinstance(error, FileNotFoundError)


def _inside(path: Path) -> list[Path]:
    """What is in a folder; nothing where it is none, or not to be looked into."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def _known(path: Path) -> Known:
    about = _about(path)
    size = sum(file.lstat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    ticks = about.get("ticks")
    return Known(
        path,
        str(about.get("begun", path.name)),
        str(about.get("verdict", UNKNOWN if about else RUNNING)),  # one that has just begun says nothing yet
        str(about.get("reason", "")),
        ticks if isinstance(ticks, int) else 0,
        size,
    )


def prunable(place: Path, keep: int) -> list[Known]:
    """All runs but the newest `keep`; one that goes on stays, and so does the latest."""
    last = latest(place)
    old = known(place)
    return [run for run in old[: max(len(old) - keep, 0)] if run.verdict != RUNNING and run.path != last]


def remove(run: Known) -> None:
    """Under another name first, so that nobody finds half a run."""
    gone = run.path.with_name(f"{GONE}{os.getpid()}-{run.path.name}")
    os.replace(run.path, gone)
    shutil.rmtree(gone, ignore_errors=True)


def find(given: Path, build: Path) -> Path:
    """The recording that is meant: an .mcap file, a folder, a run's name, ``latest``, or ``JOB/latest``."""
    if (given.is_file() and given.name != LATEST) or given.suffix == ".mcap":
        return given
    if given.is_dir():
        return _recording(given, given)
    parts = given.parts
    if len(parts) == 1 and _is_name(parts[0]):
        places = sorted(path for path in build.glob(f"*/{RUNS}") if path.is_dir())
    elif len(parts) == 2 and all(map(_is_name, parts)):
        places = [folder(build, parts[0])]
    else:
        places = []
    found = [path for place in places if (path := _named(place, parts[-1])) is not None]
    if not found:
        raise ModelError(
            f"{given}: is neither a recording nor a run in {build}; `stepmap runs --build {build}` lists the runs"
        )
    if len(found) > 1 and parts[0] != LATEST:
        raise ModelError(f"{given}: is a run of {', '.join(p.parents[1].name for p in found)}; give JOB/{given}")
    return _recording(max(found, key=lambda path: str(_about(path).get("begun", ""))), given)


def _named(place: Path, name: str) -> Path | None:
    if name == LATEST:
        return latest(place)
    return place / name if (place / name).is_dir() else None


def _recording(path: Path, given: Path) -> Path:
    inner = latest(path) if (path / LATEST).exists() else path
    file = (inner or path) / RECORDING
    if not file.is_file():
        raise ModelError(f"{given}: there is no {RECORDING} in it")
    return file


def _is_name(text: str) -> bool:
    """Whether a text can name a run or a job, and nothing outside their folder."""
    return bool(re.fullmatch(r"[\w][\w.-]*", text))


def _about(path: Path) -> dict[str, Any]:
    return _json(path / ABOUT)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_file(path, MOST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
