"""``stepmap runs``: the runs of the bench that are kept, and how old ones are removed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from stepmap.cli.output import console, grid
from stepmap.errors import ModelError
from stepmap.jobs.read import job_name, require_name
from stepmap_hil.runs import folders as kept
from stepmap_hil.runs.folders import Known

USUAL = Path("build")
HEADINGS = ("run", "verdict", "ticks", "size", "")


def runs(
    job: Annotated[
        str | None, typer.Argument(metavar="JOB", help="A job file or its name. [default: all jobs]")
    ] = None,
    prune: Annotated[
        int | None, typer.Option(metavar="KEEP", min=0, help="Remove all but the newest KEEP runs of each job.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before runs are removed.")] = False,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders are.")] = USUAL,
) -> None:
    """List the runs of the bench, oldest first: name, verdict, ticks, size, and why it ended.

    With --prune old ones are removed, after a question. The latest run and those that go on stay.
    """
    _require_build(build)
    places = _places(job, build)
    if prune is not None:
        _prune([run for place in places for run in kept.prunable(place, prune)], yes)
        return
    for place in places:
        last, found = kept.latest(place), kept.known(place)
        rows = [_row(run, run.path == last) for run in found]
        console().print(f"{place.parent.name}: {_count(found)}", style="bold")
        console().print(grid(HEADINGS, rows))
    if not places:
        console().print(f"no runs in {build}", soft_wrap=True)


def _require_build(build: Path) -> None:
    """Raises where there is no build folder; that of this project may not be there yet."""
    if not build.is_dir() and (build.exists() or build != USUAL):
        raise ModelError(f"--build: {build} is not a folder")


def _places(job: str | None, build: Path) -> list[Path]:
    if job is None:
        return sorted(path for path in build.glob(f"*/{kept.RUNS}") if kept.holds_runs(path))
    place = kept.folder(build, job_name(Path(job)) if job.endswith(".toml") else require_name(Path(job).name, job))
    if not kept.holds_runs(place):
        raise ModelError(f"{job}: has no runs in {build}; stepmap bench makes one")
    return [place]


def _prune(old: Sequence[Known], yes: bool) -> None:
    if not old:
        console().print("nothing to remove")
        return
    console().print(grid(HEADINGS, [_row(run, False) for run in old]))
    if not yes:
        if not sys.stdin.isatty():
            raise ModelError(f"--prune: would remove {_count(old)}; without a terminal to ask at, say --yes")
        typer.confirm(f"Remove {_count(old)}?", abort=True)
    for run in old:
        kept.remove(run)
    console().print(f"removed {_count(old)}")


def _row(run: Known, last: bool) -> tuple[str, ...]:
    name = run.path.name + (" (latest)" if last else "")
    return name, run.verdict, str(run.ticks), size(run.size), run.reason


def _count(found: Sequence[Known]) -> str:
    return f"{len(found)} run{'s' * (len(found) != 1)}, {size(sum(run.size for run in found))}"


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
