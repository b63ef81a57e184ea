"""``stepmap report``: summary, pictures and page of a recording, two laid over each other, or a bag of ROS 2."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Annotated

import typer

from stepmap.cli.output import console, figures, working
from stepmap.errors import ModelError
from stepmap.extras import require
from stepmap.files import write_whole
from stepmap.report.explore import explore
from stepmap_hil.commands.bench.finish import verdict_line, verdict_on
from stepmap_hil.commands.bench.origin import recorded_origin
from stepmap_hil.commands.options import RunArgument, SystemFileOption
from stepmap_hil.commands.stage_list import StageList, print_memory
from stepmap_hil.report import write as results
from stepmap_hil.report.page.overlay import overlay
from stepmap_hil.report.sentences import table
from stepmap_hil.ros import bag
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.recording import RecordedRun, blaming, read_run
from stepmap_hil.runs.stage_times import StageTime

WRITTEN = (".html", ".json", ".png", ".svg")  # how names of a report's files end


def report(
    run: RunArgument,
    other: Annotated[
        Path | None, typer.Argument(metavar="OTHER", help="A second run, laid over the first in overlay.html.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write. [default: the folder of the recording]")
    ] = None,
    rosbag: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="In place of a report, write a bag of ROS 2 to this new folder."),
    ] = None,
    system_file: SystemFileOption = None,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders are.")] = Path("build"),
) -> None:
    """Write summary.json, plots and one HTML report of a recording, with the verdict that follows from it."""
    if out is not None:
        runs.require_place(out, "--out")
    if rosbag is not None:
        _require_bag(rosbag, alone=other is None and out is None)
    with working("reading the recording"):
        file = runs.find(run, build)
        recorded = read_run(file, system_file)
    if rosbag is not None:
        _write_bag(rosbag, file, recorded)
        return
    folder = out or file.parent
    if other is not None:
        _compare((file, recorded), other, folder, system_file, build)
        return
    folder.mkdir(parents=True, exist_ok=True)
    _require_files(folder)
    with working("drawing"), blaming(file):
        evaluated = results.evaluate(
            recorded.controller, recorded.closed, recorded.opened, recorded.facts, recorded_origin(recorded, file)
        )
        summary = evaluated.summary
        verdict = verdict_on(recorded.closed, summary)[0] if recorded.concluded else runs.ABORTED
        results.save(folder, evaluated, summary, verdict)
        rows = table(summary)
    stages = [StageTime(**stage) for stage in summary.get("stages") or []]  # older versions recorded none
    if stages:
        StageList(stages)
        console().print()
    console().print(figures(rows, title=recorded.job.name))
    print_memory(summary)
    console().print()
    console().print(verdict_line(verdict, summary), soft_wrap=not console().is_terminal)
    console().print(f"report  {folder / 'report.html'}", soft_wrap=True)


def _require_bag(folder: Path, *, alone: bool) -> None:
    """Raises where no bag can be written: said before any work."""
    require("ros", "--rosbag", "rosbags")
    if not alone:
        raise ModelError(
            "--rosbag: a bag is made of one recording, in place of its report",
            hint="Leave OTHER and --out out, or run stepmap report twice.",
        )
    bag.require_free(folder)
    runs.require_writable(folder.absolute().parent, "--rosbag")


def _write_bag(folder: Path, file: Path, recorded: RecordedRun) -> None:
    with working("writing the bag"), blaming(file):
        counts = bag.write_bag(folder, file, recorded)
    console().print(figures([(name, f"{count} messages") for name, count in counts.items()], title=recorded.job.name))
    console().print()
    console().print(f"bag  {folder}", soft_wrap=True)


def _compare(first: tuple[Path, RecordedRun], name: Path, folder: Path, system_file: Path | None, build: Path) -> None:
    """Writes both runs as one page; their own reports stay as they are."""
    with working("reading the other recording"):
        file = runs.find(name, build)
        pairs = [first, (file, read_run(file, system_file))]
    folder.mkdir(parents=True, exist_ok=True)
    _require_files(folder)
    evaluated, verdicts = [], []
    with working("comparing"):
        for path, recorded in pairs:
            with blaming(path):
                origin = recorded_origin(recorded, path)
                found = results.evaluate(recorded.controller, recorded.closed, recorded.opened, recorded.facts, origin)
            evaluated.append(found)
            verdicts.append(verdict_on(recorded.closed, found.summary)[0] if recorded.concluded else runs.ABORTED)
        names = [path.parent.name if path.name == "run.mcap" else path.name for path, _ in pairs]
        page = overlay(evaluated[0].view, evaluated[1].view, (verdicts[0], verdicts[1]), (names[0], names[1]))
        write_whole(folder / "overlay.html", explore(page), links=False)
    console().print(f"overlay {folder / 'overlay.html'}", soft_wrap=True)


def _require_files(folder: Path) -> None:
    """Raises where a file of a report would take the place of anything but a file: the folder may have come with the
    recording."""
    for path in sorted(folder.iterdir()):
        if path.suffix not in WRITTEN or stat.S_ISREG(path.lstat().st_mode):
            continue
        if path.is_symlink():
            raise ModelError(f"{path} is a link, and a report is not written through it: remove it, or give --out")
        raise ModelError(f"{path} is not a file, and a report does not take its place: remove it, or give --out")
