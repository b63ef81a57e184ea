"""``stepmap campaign``: trials by the thousand, from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from stepmap.cli.output import Screen, complain, console, figures, working
from stepmap.extras import require


def campaign(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A campaign file (TOML); docs/campaigns.md describes it.")
    ],
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, metavar="N", help="Processes of this computer. [default: one per processor]"),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler", metavar="ADDRESS", help="Workers of a Dask scheduler, such as tcp://10.0.0.7:8786."
        ),
    ] = None,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders go.")] = Path("build"),
    trial: Annotated[
        int | None, typer.Option("--trial", min=0, metavar="N", help="Make trial N alone, here, and print its row.")
    ] = None,
) -> None:
    """Make all trials of a campaign; leave a table (Parquet), its manifest and a report in FOLDER/<campaign>/campaigns.

    Trials go to processes of this computer, or to workers of a Dask cluster. A campaign that was cut off goes on where
    it was when it is called again, and its table is the same to the byte. A trial that fails is a row with its reason.
    """
    require("campaign", "stepmap campaign", "pyarrow")
    from stepmap import campaigns

    with working("reading the campaign"):
        given = campaigns.load(file)
    if trial is not None:
        with working(f"trial {trial}"):
            row = given.trial(trial, build)
        rows = [(name, _shown(value)) for name, value in {**given.varied.trial(trial).values, **row}.items()]
        console().print(figures([("trial", str(trial)), *rows], title=given.name))
        return
    folder = given.folder(build)
    if folder.complete:
        console().print(f"unchanged, skipped: {folder.path}", soft_wrap=True)
        return
    try:
        with _shown_progress(given.name, len(given)) as (watch, stage):
            finished = given.run(build=build, jobs=jobs, scheduler=scheduler, watch=watch, stage=stage)
    except KeyboardInterrupt:
        _tell_kept(folder)
        raise
    except Exception:
        _tell_kept(folder)
        raise
    _print(given, finished)


def _print(given: Any, finished: Any) -> None:
    from stepmap.campaigns.table import columns_of

    columns = columns_of(finished.table)
    ok = columns["ok"].astype(bool)
    told = given.study.tells({name: values[ok] for name, values in columns.items()}) if ok.any() else []
    kept = f", {len(ok) - finished.fresh} of them made before" if finished.fresh < len(ok) else ""
    rows = [("trials", f"{len(ok)}, {int((~ok).sum())} failed{kept}"), *told]
    for c in given.study.columns if ok.any() else ():
        if c.shown:
            values = columns[c.name][ok]
            rows.append((f"mean {c.name}", f"{float(values.mean()):.5g} {c.unit}".strip()))
    if finished.lost_workers:
        rows.append(("lost workers", f"{finished.lost_workers}; their trials were made again"))
    screen = console()
    screen.print(figures(rows, title=given.name))
    screen.print(f"table   {finished.folder.table}", soft_wrap=True)
    screen.print(f"report  {finished.folder.report}", soft_wrap=True)


def _tell_kept(folder: Any) -> None:
    """What is done stays: says so where something is."""
    if any((folder.path / "parts").glob("*.parquet")):
        complain(f"what is done is kept in {folder.path}; the same command goes on there", kind="note")


@contextmanager
def _shown_progress(name: str, total: int) -> Iterator[tuple[Callable[[int, int, float], None], Callable[[str], None]]]:
    """Something to call after every chunk, and with what begins: on a terminal, a bar with the time that is left."""
    screen = Screen(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left", markup=False),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )
    with bar:
        task = bar.add_task(name, total=None)

        def watch(done: int, fresh: int, cpu_s: float) -> None:
            bar.update(task, description=name, total=total, completed=done)

        yield watch, lambda text: bar.update(task, description=f"{name}: {text}")


def _shown(value: object) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
