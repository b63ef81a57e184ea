"""Stages of a job for commands that go on with them: its controller and its firmware, made where they have changed."""

from __future__ import annotations

from pathlib import Path

from stepmap.cli.output import working
from stepmap.jobs import Job, Stage
from stepmap.jobs import optimize as optimum
from stepmap.lock import alone
from stepmap_codegen import Controller
from stepmap_codegen import generate as generation
from stepmap_codegen.commands import solution
from stepmap_hil.bench.setup import Source
from stepmap_hil.firmware import build as building
from stepmap_hil.runs.stage_times import StageClock
from stepmap_hil.wire import key as keys


def controller_of(job: Job, build: Path, clock: StageClock | None = None) -> tuple[Controller, Stage, Source]:
    """The controller of a job, its code written if it has changed."""
    clock = clock or StageClock()
    choices = generation.choices_in(job.root)
    generation.require(job, choices)
    clock.begin("optimize")
    solved = optimum.stage(job, build)
    clock.mark_reused(solved.unchanged())
    plan = solution(job, solved)
    clock.begin("generate")
    stage = generation.stage(job, solved, choices, build)
    with stage.making() as needed:
        clock.mark_reused(not needed)
        if needed:
            with working("measuring ranges, choosing formats"):
                made: Controller = generation.controller(job, plan, choices)
                generation.write(stage, made)
        else:
            made = generation.load(stage, job, choices)
    clock.end()
    files = {**job.files, **choices.files}
    judged = optimum.saved_verdict(solved)
    source = Source(job.root.source, files, plan.trajectory, plan.gains, judged, plan.acts)
    return made, stage, source


def firmware(
    job: Job, generated: Stage, choices: building.Choices, build: Path, clock: StageClock | None = None
) -> tuple[Stage, building.Firmware]:
    """The firmware of a job with the key of `choices`, built if it has changed."""
    clock = clock or StageClock()
    clock.begin(f"build {choices.board}")
    made = building.stage(job, generated, choices, keys.read(choices.key) if choices.key else None, build)
    with made.making() as needed:
        clock.mark_reused(not needed)
        if needed:
            with working(f"building the firmware for {choices.board}"):
                building.build(made, generated.folder, choices)
    clock.end()
    return made, building.Firmware(made.folder, choices.board)


def own_key(folder: Path) -> Path:
    """A key for emulated boards, made once per build folder."""
    path = folder / "key"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder / ".key.lock", f"makes {path}"):
            if not path.exists():
                keys.create(path)
    return path
