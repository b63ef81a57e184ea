"""``stepmap robot``: a robot to rehearse with."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from stepmap import jobs
from stepmap.cli.output import console, working
from stepmap_codegen import generate as generation
from stepmap_codegen.boards import NATIVE
from stepmap_codegen.emit.encoders import measures_itself
from stepmap_hil.bench.priority import keeping_time
from stepmap_hil.bench.settings import settings_in
from stepmap_hil.commands.prepare import controller_of, firmware, own_key
from stepmap_hil.depth import Camera, Scene
from stepmap_hil.firmware import build as building
from stepmap_hil.firmware.tools import require_tools
from stepmap_hil.runs.log import MOST_SEED
from stepmap_hil.sensors.staging import stage
from stepmap_hil.sensors.targets import all_seen


def robot(
    file: Annotated[Path, typer.Argument(metavar="JOB", help="A job file (TOML); docs/jobs.md describes it.")],
    rig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where its rig file goes. [default: FOLDER/<job>/rig.toml]")
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, max=MOST_SEED, help="Seed of the camera's noise, 0 to 2⁵³ − 1.")
    ] = 1,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders go.")] = Path("build"),
) -> None:
    """Run an emulated robot until Ctrl-C: a board at a pseudo terminal, motors and mechanism in real time, a Kinect.

    A board that measures with its own encoders (measure in [board] of the job) has no Kinect.

    Leaves a rig file, FOLDER/<job>/rig.toml, with which `stepmap bench JOB --rig FILE` finds it as it would a real one.
    """
    from stepmap_hil.bench.emulated_robot import EmulatedRobot

    with working("reading the job"):
        job = jobs.for_board(jobs.load(file))
        settings = settings_in(job.root)
        generation.require_board(job, NATIVE.name)
        generation.require(job, generation.choices_in(job.root))
        require_tools(NATIVE.name)
        if not measures_itself(job.root.table("board")):
            stage(job, all_seen(job.system), Camera(), Scene())  # raises where a camera would not see it all
    controller, generated, _ = controller_of(job, build)
    key = own_key(build / job.name)
    _, program = firmware(job, generated, building.Choices(NATIVE.name, key), build)
    place = rig or build / job.name / "rig.toml"
    robot = EmulatedRobot(job, controller, program, settings, key, seed)
    with keeping_time(), robot as made, suppress(KeyboardInterrupt):
        made.write_rig(place)
        console().print(f"a robot is at {made.port}, its rig is {place}; in another terminal:", soft_wrap=True)
        console().print(f"\n    stepmap bench {file} --rig {place}\n\nCtrl-C ends it.", soft_wrap=True)
        made.run(lambda: True)
    console().print("the robot is gone")
