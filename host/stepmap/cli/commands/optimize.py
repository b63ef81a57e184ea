"""``stepmap optimize``: the optimal trajectory and gains of a job."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from stepmap import jobs
from stepmap.cli.commands.options import renamed
from stepmap.cli.output import console, figures, working
from stepmap.cli.progress import iterations
from stepmap.jobs import optimize as optimum


def optimize(
    file: Annotated[Path, typer.Argument(metavar="JOB", help="A job file (TOML); docs/jobs.md describes it.")],
    build: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where build folders go. [default: build]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Do it again even if nothing has changed.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Begin at the trajectory an earlier run left, whatever [solver] says.")
    ] = False,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Draw path, coordinates, inputs, forces and convergence as files, too.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", hidden=True)] = None,
) -> None:
    """Optimize the trajectory of a job; leave numbers, gains and a report in FOLDER/<job>/optimize.

    Nothing is done if the result of the same job is there. A search that ends early, or is stopped with Ctrl-C, leaves
    the best trajectory it found and fails; --resume goes on from it.
    """
    folder = renamed("--out", out, "--build", build) or Path("build")
    with working("reading the job"):
        job = jobs.load(file)
        stage = optimum.stage(job, folder)
        drawn = not pictures or (stage.folder / "convergence.png").exists()
        skip = not force and drawn and stage.unchanged()
    if skip:
        console().print(f"unchanged, skipped: {stage.folder}", soft_wrap=True)
        return
    stage.prepare()
    guess = optimum.earlier(stage, job) if resume else None
    with working(f"building {job.system.name}"):
        job.build()
    begin = time.process_time()
    with iterations() as monitor:
        solution = job.solve(monitor, guess)
    seconds = time.process_time() - begin
    with working("drawing"):
        optimum.write(stage, job, solution, seconds, pictures=pictures)
    rows = [*optimum.key_figures(job, solution, seconds), ("written", str(stage.folder))]
    console().print(figures(rows, title=job.name))
    console().print(figures(optimum.judged(job, solution).rows(), title="will it work?"))
    solution.require()
