"""What a folder of runs holds: names of files, what is a run, and run.json."""

from __future__ import annotations

import json
import re
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from stepmap.errors import ModelError
from stepmap.files import overwrite, read_file, write_whole
from stepmap.lock import alone

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
        raise ModelError(f"{option}: {place} is not a folder", hint="Name a folder; one that is not there is made.")


def require_writable(place: Path, option: str) -> None:
    """Raises where no file can be written in a folder, or no such folder be made; leaves nothing there."""
    require_place(place, option)
    there = next(parent for parent in (place, *place.absolute().parents) if parent.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".stepmap-", suffix=".trial", dir=there):
            pass
    except OSError as error:
        raise ModelError(
            f"{option}: no files can be written to {place}: {error.strerror}", hint="Name a folder of your own."
        ) from None


def alone_in(place: Path) -> Any:
    """While the block runs, no other process begins, lists or clears runs there."""
    return alone(place / LOCK, f"begins a run in {place}", patience=60.0)


def new_folder(place: Path, name: str) -> Path:
    """A folder that was not there: making one succeeds for one process only."""
    for n in count(1):
        path = place / f"{name}-{n}"
        with suppress(FileExistsError):
            path.mkdir()
            return path
    raise AssertionError("count ends")


def is_run(path: Path) -> bool:
    """Whether a folder is that of a run, and not one of somebody else among them.

    It says so in run.json. One that says nothing was killed as it began, or had no room left on the disk, and holds
    nothing but what is there then: no recording before run.json.
    """
    if not NAME.fullmatch(path.name) or path.is_symlink() or not path.is_dir():
        return False
    if not all(_is_file_or_none(path / name) for name in (LOCK, ABOUT)):
        return False
    about = read_about(path)
    if about:
        return about.get("format") == FORMAT
    names = {inner.name for inner in inside(path)}
    return all(map(BEGUN.fullmatch, names)) and (RECORDING not in names or ABOUT in names)


def _is_file_or_none(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError as error:
        return isinstance(error, FileNotFoundError)


def inside(path: Path) -> list[Path]:
    """What is in a folder; nothing where it is none, or not to be looked into."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def is_name(text: str) -> bool:
    """Whether a text can name a run or a job, and nothing outside their folder."""
    return bool(re.fullmatch(r"[\w][\w.-]*", text))


def write_about(path: Path, about: Mapping[str, Any]) -> None:
    text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    try:
        write_whole(path / ABOUT, text, links=False)
    except OSError:
        if not (path / ABOUT).exists():
            raise
        # A full disk has room where the file already is.
        overwrite(path / ABOUT, text.encode())


def read_about(path: Path) -> dict[str, Any]:
    return read_json(path / ABOUT)


def read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_file(path, MOST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
