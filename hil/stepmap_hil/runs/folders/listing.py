"""Runs that are there: listed, found by name, removed."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from stepmap.errors import ModelError
from stepmap_hil.runs.folders.layout import (
    GONE,
    LATEST,
    RECORDING,
    REMOVED,
    RUNNING,
    RUNS,
    UNKNOWN,
    alone_in,
    folder,
    inside,
    is_name,
    is_run,
    read_about,
)
from stepmap_hil.runs.folders.links import latest
from stepmap_hil.runs.folders.open_run import sweep


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
    with alone_in(place):
        sweep(place)
    found = [path for path in inside(place) if is_run(path)]
    return sorted((_known(path) for path in found), key=lambda run: (run.begun, run.path.name))


def holds_runs(place: Path) -> bool:
    """Whether there are runs in a folder, or what is left of one."""
    return any(is_run(path) or REMOVED.fullmatch(path.name) for path in inside(place))


def _known(path: Path) -> Known:
    about = read_about(path)
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
    if len(parts) == 1 and is_name(parts[0]):
        places = sorted(path for path in build.glob(f"*/{RUNS}") if path.is_dir())
    elif len(parts) == 2 and all(map(is_name, parts)):
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
    return _recording(max(found, key=lambda path: str(read_about(path).get("begun", ""))), given)


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
