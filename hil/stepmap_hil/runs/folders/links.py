"""Links to runs: ``runs/latest``, ``<build>/<job>/bench`` and ``aborted.mcap``."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from stepmap.files import read_file, write_whole
from stepmap_hil.runs.folders.layout import (
    DATE,
    FORMAT,
    LATEST,
    MOST,
    PASSED,
    RECORDING,
    RUNS,
    SUMMARY,
    UNKNOWN,
    alone_in,
    folder,
    is_name,
    new_folder,
    read_json,
    write_about,
)


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
    with alone_in(place):
        if link.is_dir() and not link.is_symlink() and read_json(link / SUMMARY):
            _adopt(place, link)
        if link.is_symlink() or not link.exists():
            with suppress(OSError):  # no links here
                _link(link, f"{RUNS}/{LATEST}")


def lead_aborted(build: Path, job: str, run: Path) -> bool:
    """Whether ``<build>/<job>/aborted.mcap`` leads to the recording of this run, which was cut off, from now on."""
    try:
        _link(build / job / "aborted.mcap", f"{RUNS}/{run.name}/{RECORDING}")
    except OSError:  # no links here
        return False
    return True


def _adopt(place: Path, old: Path) -> None:
    """Makes a run of a folder that held the last one before every run had its own."""
    found = read_json(old / SUMMARY)
    date = datetime.fromtimestamp(old.stat().st_mtime, UTC).strftime(DATE)
    board = re.sub(r"[^a-z0-9]", "", str(found.get("board", ""))) or "board"
    path = new_folder(place, f"{date}-{board}")
    os.replace(old, path)
    verdict = PASSED if found.get("ended") == "done" else UNKNOWN
    about = {"format": FORMAT, "begun": date, "board": board, "job": found.get("job", place.parent.name)}
    write_about(path, about | {"verdict": verdict, "reason": found.get("ended", ""), "ticks": found.get("ticks", 0)})


def latest(place: Path) -> Path | None:
    """The latest run in a folder of runs."""
    link = place / LATEST
    try:
        name = os.readlink(link) if link.is_symlink() else read_file(link, MOST).decode().strip()
    except (OSError, ValueError):
        return None
    return place / name if is_name(name) and (place / name).is_dir() else None
