"""``stepmap bench``: a board controls the simulated plant of a job."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

import stepmap
from stepmap import jobs
from stepmap.cli.output import console, figures, working
from stepmap.jobs import Job, Stage
from stepmap.jobs import optimize as optimum
from stepmap.jobs.stage import digest_data, digest_sources
from stepmap_codegen import Controller
from stepmap_codegen import generate as generation
from stepmap_codegen.commands import _solution as solution
from stepmap_hil import build as building
from stepmap_hil import key as keys
from stepmap_hil import run as running
from stepmap_hil.settings import read_settings

NAME = "bench"


class BoardName(Enum):
    NATIVE = "native"
    STM32F405 = "stm32f405"
    STM32F100 = "stm32f100"


class SensorName(Enum):
    KINECT = "kinect"
    GAUSSIAN = "gaussian"


def bench(
    file: Annotated[Path, typer.Argument(metavar="JOB", help="A job file (TOML); docs/jobs.md describes it.")],
    board: Annotated[BoardName, typer.Option(help="The board: a process, or an emulated chip.")] = BoardName.NATIVE,
    port: Annotated[str | None, typer.Option(help="Serial port of a real board, flashed with this job.")] = None,
    sensor: Annotated[SensorName | None, typer.Option(help="What sees the plant. Usually as the job says.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all noise.")] = 1,
    open_loop: Annotated[bool, typer.Option("--open-loop/--no-open-loop", help="Compare with gains of zero.")] = True,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Key of the board; emulated ones get their own.")
    ] = None,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders go.")] = Path("build"),
) -> None:
    """Run a job on a board that controls a simulated plant, in lock-step; leave FOLDER/<job>/bench.

    Optimizes, generates and builds what has changed, boots the board, uploads the schedule, runs, and writes a
    recording (MCAP), pictures, summary.json and one HTML report.
    """
    with working("reading the job"):
        job = jobs.load(file)
        settings = read_settings(file)
        if sensor is not None:
            settings = replace(settings, sensor=sensor.value)
    controller, generated = _controller(job, file, build)
    secret_file = key or _own_key(build / job.name)
    secret = keys.read(secret_file)
    choices = building.Choices(board.value, secret_file)
    made = building.stage(job, generated, choices, secret, build)
    if made.unchanged():
        firmware = building.Firmware(made.folder, board.value)
    else:
        with working(f"building the firmware for {board.value}"):
            firmware = building.build(made, generated.folder, choices)
    rig = running.Rig(job, controller, firmware, settings, secret, seed, port)
    inputs = {"build": made.digest, "settings": digest_data(repr((settings, seed, port))), "hil": _hil()}
    stage = Stage(NAME, job.name, build, inputs, {"stepmap": stepmap.__version__})
    stage.prepare()
    with tempfile.TemporaryDirectory(dir=stage.folder.parent) as temporary:
        recording = Path(temporary) / "run.mcap"
        with working("closed loop") as _:
            closed = running.closed_loop(rig, recording, lambda text: None)
        opened = None
        if open_loop:
            with working("open loop"):
                opened = running.open_loop(_with_banks(rig, job, generated, secret_file, build), lambda text: None)
        with working("drawing"):
            summary = running.leave(stage, rig, closed, opened, recording)
    rows = [*running.table(summary), ("report", str(stage.folder / "report.html"))]
    console().print(figures(rows, title=job.name))


def _controller(job: Job, file: Path, build: Path) -> tuple[Controller, Stage]:
    """The controller of a job, its code written if it has changed."""
    solved = optimum.stage(job, build)
    choices = generation.read_choices(file)
    trajectory, gains = solution(job, solved)
    with working("measuring ranges, choosing formats"):
        made = generation.controller(job, trajectory, gains, choices)
        stage = generation.stage(job, solved, choices, build)
        if not stage.unchanged():
            generation.write(stage, made)
    return made, stage


def _with_banks(rig: running.Rig, job: Job, generated: Stage, secret: Path, build: Path) -> running.Rig:
    """The rig, or one with a board that takes uploads where this one does not."""
    if rig.firmware.board in running.BANKS or rig.port is not None:
        return rig
    choices = building.Choices("native", secret)
    made = building.stage(job, generated, choices, rig.key, build)
    firmware = building.Firmware(made.folder, "native")
    if not made.unchanged():
        firmware = building.build(made, generated.folder, choices)
    return replace(rig, firmware=firmware)


def _own_key(folder: Path) -> Path:
    """A key for emulated boards, made once a build folder."""
    path = folder / "key"
    if not path.exists():
        keys.create(path)
    return path


def _hil() -> str:
    return digest_sources("stepmap_hil", ["."])
