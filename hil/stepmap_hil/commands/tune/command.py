"""``stepmap tune``: factors on the weights of a job's feedback, tried on simulated runs, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from stepmap import jobs
from stepmap.cli.output import console, grid, working
from stepmap.errors import ModelError
from stepmap.jobs import Job, TrackingJob
from stepmap.jobs import optimize as optimum
from stepmap.jobs.system import source_of
from stepmap.jobs.tuning import Plant, Point, choose, sweep
from stepmap.jobs.tuning.sweep import tuned, tuned_plan
from stepmap.optimal import Plan
from stepmap.units import size
from stepmap_codegen import generate as generation
from stepmap_codegen.commands import solution
from stepmap_codegen.tuning import FACTOR
from stepmap_hil.bench.settings import settings_in
from stepmap_hil.commands.options import Build, JobFile
from stepmap_hil.commands.tune.picture import write

POINTS = 5
HEADINGS = ("", "state_factor", "speed_factor", "tracking", "effort", "roughness", "margin", "at a limit", "lost")


def tune(
    file: JobFile,
    at: Annotated[
        str | None,
        typer.Option(metavar="STATE,SPEED", help="Take these factors. [default: those that the sweep speaks for]"),
    ] = None,
    factor: Annotated[
        float | None,
        typer.Option(
            metavar="F",
            min=1.01,
            max=1000.0,
            help=f"Sweep from 1/F to F times the weights. [default: tuning in [codegen] of the job, or {FACTOR:g}]",
        ),
    ] = None,
    points: Annotated[int, typer.Option(metavar="N", min=2, max=15, help="Factors per axis.")] = POINTS,
    runs: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Simulated runs per pair of factors.")] = 8,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the noise.")] = 1,
    build: Build = Path("build"),
) -> None:
    """Tune the feedback of a job: sweep two factors on its weights and show what each pair would do.

    state_factor multiplies all weights of the state, speed_factor those of momenta and velocities on top of that. Every
    pair is simulated along the plan, with the noise of the job and the parameters and start of [bench.plant]: tracking,
    effort, roughness of the commands, and the stability margin at the plan's end. Leaves a picture and the numbers in
    FOLDER/<job>/tune, and says how to take the factors over: without a new firmware where its formats hold them.
    """
    wanted = None if at is None else _factors(at)
    with working("reading the job"):
        job = _tracking(jobs.load(file))
        choices = generation.choices_in(job.root)
        generation.require(job, choices)
        plant = _plant(job)
    plan = solution(job, optimum.stage(job, build))
    most = factor or (choices.tuning if choices.tuning > 1 else FACTOR)
    factors = [float(f"{value:.4g}") for value in np.geomspace(1 / most, most, points)]
    with working(f"simulating {points * points} pairs of factors"):
        found = sweep(job, plan, factors, factors, plant, runs, seed)
        chosen = choose(found) if wanted is None else sweep(job, plan, *wanted, plant, runs, seed).points[0][0]
    folder = build / job.name / "tune"
    with working("drawing"):
        write(folder, found, chosen, factors)
    rows = [_row("now", found.present, found.unit), _row("chosen", chosen, found.unit)]
    screen = console()
    screen.print(grid(HEADINGS, rows))
    screen.print()
    screen.print(f"picture  {folder / 'tune.png'}", soft_wrap=True)
    _take_over(file, job, plan, chosen, found.present, choices)


def _factors(text: str) -> tuple[list[float], list[float]]:
    try:
        state, speed = (float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not two numbers such as 2,0.5", param_hint="--at") from None
    if not (0 < state < np.inf and 0 < speed < np.inf):
        raise typer.BadParameter(f"factors are positive numbers, got {text}", param_hint="--at")
    return [state], [speed]


def _tracking(job: Job) -> TrackingJob:
    if not isinstance(job, TrackingJob):
        raise ModelError(
            f"jobs of kind {job.kind!r} have no weights of their feedback to tune",
            hint='Tune a job of kind "track", with a reference or a goal.',
        )
    return job


def _plant(job: TrackingJob) -> Plant | None:
    """The bench's plant with its parameters and its start; None where these are the model's."""
    errors = settings_in(job.root).plant
    if not errors.system and not errors.start:
        return None
    system = source_of(job).make(**errors.system)
    pose = dict(zip([c.name for c in system.coordinates], job.pose, strict=True))
    for name, value in errors.start.items():
        pose[name] += value
    robot = [c.name for c in system.kinematic]
    return Plant(system, system.satisfy_constraints(system.configuration(pose), robot))


def _row(name: str, point: Point, unit: str) -> tuple[str, ...]:
    return (
        name,
        f"{point.state_factor:.4g}",
        f"{point.speed_factor:.4g}",
        f"{size(point.tracking, unit)} RMS",
        f"{100 * point.effort:.2g} %",
        f"{1000 * point.roughness:.2g} ‰",
        f"{point.margin:.2f}",
        f"{100 * point.limited:.2g} %",
        f"{100 * point.lost:.2g} %",
    )


def _take_over(
    file: Path, job: TrackingJob, plan: Plan, chosen: Point, present: Point, choices: generation.Choices
) -> None:
    """Says what to write into the job, and whether the firmware stays."""
    screen = console()
    if chosen.factors == present.factors:
        screen.print("\nThe job has the factors that the sweep speaks for.")
        return
    with working("comparing formats"):
        after = tuned(job, *chosen.factors)
        same = generation.controller(after, tuned_plan(after, plan), choices).digest
        stays = same == generation.controller(job, plan, choices).digest
    screen.print(f"\nTo take them over, write into {file}:", soft_wrap=True, markup=False)
    screen.print("\n    [weights.controller]", markup=False, highlight=False)
    for name, value in zip(("state_factor", "speed_factor"), chosen.factors, strict=True):
        screen.print(f"    {name} = {value:.4g}", highlight=False)
    if stays:
        screen.print(f"\nthen: stepmap upload {file} --port ... The firmware stays as it is.", soft_wrap=True)
    else:
        screen.print(
            f"\nthen build and flash: its formats do not hold these gains. Or raise tuning in [codegen] of {file} "
            "once, before the firmware is flashed.",
            soft_wrap=True,
            markup=False,
        )
