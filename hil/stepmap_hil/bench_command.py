"""``stepmap bench``: a board controls the simulated plant of a job."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

import stepmap
from stepmap import jobs
from stepmap.cli.output import complain, console, figures, working
from stepmap.errors import LinkError, ModelError
from stepmap.jobs import Job, Stage
from stepmap.jobs import optimize as optimum
from stepmap.jobs.stage import digest_data, digest_sources
from stepmap_codegen import Controller
from stepmap_codegen import generate as generation
from stepmap_codegen.commands import solution
from stepmap_hil import build as building
from stepmap_hil import key as keys
from stepmap_hil import results, sensors
from stepmap_hil import run as running
from stepmap_hil.bench_progress import part_done, progress
from stepmap_hil.faults import offered as by_hand_faults
from stepmap_hil.faults import read_faults, require_known
from stepmap_hil.flash import flash_emulated
from stepmap_hil.live_watch import live as live_page
from stepmap_hil.logbook import STOPPED, Run
from stepmap_hil.onlooker import Onlooker
from stepmap_hil.operators import Terminal, Unattended
from stepmap_hil.priority import keep_time
from stepmap_hil.record import Recorder
from stepmap_hil.rig import RigFile, read_rig
from stepmap_hil.settings import read_settings

NAME = "bench"
MOST_SECONDS = 3600.0
MISSED = 0.03  # of all ticks; more in real time says that the computer is too slow
TOO_SLOW = "this computer is too busy for that in real time. Try --sensor gaussian, --board native or lock-step"


class BoardName(Enum):
    NATIVE = "native"
    STM32F405 = "stm32f405"
    STM32F100 = "stm32f100"


class Mode(Enum):
    LOCKSTEP = "lockstep"
    REALTIME = "realtime"


SensorName = Enum("SensorName", {name: name for name in sensors.names()}, type=str)  # type: ignore[misc]


def bench(
    file: Annotated[Path, typer.Argument(metavar="JOB", help="A job file (TOML); docs/jobs.md describes it.")],
    board: Annotated[
        BoardName | None, typer.Option(help="The board: a process (as without this option), or an emulated chip.")
    ] = None,
    port: Annotated[str | None, typer.Option(help="Serial port of a real board, flashed with this job.")] = None,
    sensor: Annotated[SensorName | None, typer.Option(help="What sees the plant. Usually as the job says.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all noise.")] = 1,
    mode: Annotated[Mode, typer.Option(help="As fast as the board goes, or by the clock.")] = Mode.LOCKSTEP,
    seconds: Annotated[
        float | None, typer.Option(help="How long it runs. Longer than the plan: the end of the plan is held.")
    ] = None,
    faults: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What goes wrong (TOML); docs/bench.md describes it.")
    ] = None,
    open_loop: Annotated[bool, typer.Option("--open-loop/--no-open-loop", help="Compare with gains of zero.")] = True,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Key of the board; emulated ones get their own.")
    ] = None,
    rig_file: Annotated[
        Path | None,
        typer.Option("--rig", metavar="FILE", help="Port, camera, limits (TOML); docs/rigs.md describes it."),
    ] = None,
    unattended: Annotated[
        bool, typer.Option("--unattended", help="With a real robot: do not ask, and do not heed keys.")
    ] = False,
    live: Annotated[bool, typer.Option("--live", help="Show the run in a browser, on this computer only.")] = False,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders go.")] = Path("build"),
) -> None:
    """Run a job on a board that controls a simulated plant; leave FOLDER/<job>/bench.

    Optimizes, generates and builds what has changed, boots the board, uploads the schedule, runs, and writes a
    recording (MCAP), pictures, summary.json and one HTML report.
    """
    with working("reading the job"):
        job = jobs.load(file)
        settings = read_settings(file)
        if sensor is not None:
            settings = replace(settings, sensor=sensor.value)
        wrong = read_faults(faults) if faults is not None else ()
        place = read_rig(rig_file) if rig_file is not None else RigFile()
        _require_possible(place, faults)
        require_known(wrong, [name for name, _ in job.system.sensor_channels], len(job.system.kinematic))
        board_name = board.value if board is not None else place.board or "native"
        port, key = port or place.port, key or place.key
        timing = "realtime" if place.real else mode.value
        ticks = job.steps if seconds is None else _ticks(seconds, job.dt)
    controller, generated, source = controller_of(job, file, build)
    secret_file = key or (own_key(build / job.name) if port is None else keys.default_path())
    secret = keys.read(secret_file)
    made, program = firmware(job, generated, building.Choices(board_name, secret_file), secret, build)
    rig = running.Rig(job, controller, program, settings, secret, seed, port, timing, wrong, ticks, place)
    if timing == "realtime":
        keep_time()
    inputs = {
        "build": made.digest,
        "settings": digest_data(repr((settings, seed, port, timing, wrong, ticks, place))),
        "hil": digest_sources("stepmap_hil", ["."]),
    }
    stage = Stage(NAME, job.name, build, inputs, {"stepmap": stepmap.__version__})
    stage.prepare()
    other = _with_banks(rig, generated, secret_file, build) if open_loop and not place.real else None
    offered = [] if place.real else by_hand_faults(motors=bool(job.system.kinematic), reset=port is None)
    with (
        live_page(f"{job.name} on {board_name}", job, controller, offered)
        if live
        else nullcontext(Onlooker()) as onlooker,
        tempfile.TemporaryDirectory(dir=stage.folder.parent) as temporary,
        _kept(stage, Path(temporary)) as recording,
    ):
        rig = _flashed(rig, Path(temporary))
        with Recorder(recording, rig.about(), source.attachments()) as recorder:
            with progress("closed loop", ticks, controller) as told:
                if place.real:
                    with Unattended() if unattended else Terminal() as operator:
                        closed = running.real_robot(rig, operator, recorder, told, onlooker)
                else:
                    closed = running.closed_loop(rig, recorder, onlooker.say, told, onlooker)
            _require_recorded(recorder)
            opened = None
            if other is not None and not closed.broken:
                with working("open loop"):
                    opened = running.open_loop(other, lambda text: None)
            known = results.facts(rig, stage.folder.parent / ".count")
            results.complete(recorder, closed, opened, known)
        _require_recorded(recorder)
        with working("drawing"):
            summary = results.leave(stage, controller, closed, opened, known, recording)
        rows = [*results.table(summary), ("report", str(stage.folder / "report.html"))]
        console().print(figures(rows, title=job.name))
    _require(closed, summary)


def _require_possible(rig: RigFile, faults: Path | None) -> None:
    """Raises where a real robot is to do what only a simulated one can."""
    if rig.real and faults is not None:
        raise ModelError("--faults: a real robot has its own; faults are for a plant that is simulated")


def _ticks(seconds: float, dt: float) -> int:
    """Ticks of a run; raises where there would be too few to say anything about, or no end."""
    if not MOST_SECONDS >= seconds >= 3 * dt:
        raise ModelError(f"--seconds: from {3 * dt:.3g}, three ticks, to {MOST_SECONDS:g}, an hour; got {seconds:g}")
    return round(seconds / dt)


def _flashed(rig: running.Rig, folder: Path) -> running.Rig:
    """An emulated chip gets its firmware as a real one does; QEMU then boots what is in its flash."""
    board = rig.firmware.board
    if rig.port is not None or board == "native":
        return rig
    with part_done(f"flashing {board}") as told:
        return replace(rig, flashed=flash_emulated(board, rig.firmware.image, folder, told))


def _require_recorded(recorder: Recorder) -> None:
    if recorder.failed is not None:
        raise LinkError(f"the run ended early: the recording could not go on: {recorder.failed.strerror}")


def _require(closed: Run, summary: Mapping[str, Any]) -> None:
    """Ends with exit code 1 where the run was not as it should be."""
    bad = [result for result in summary["fault_results"] if not result["ok"]]
    if bad:
        raise LinkError(f"{len(bad)} of {len(summary['fault_results'])} faults were not taken as expected")
    if closed.broken or (closed.ended not in ("", STOPPED) and not closed.results):
        slow = closed.mode == "realtime" and summary["deadline_misses"] > MISSED * summary["ticks"]
        why = f" {summary['deadline_misses']} deadlines were missed: {TOO_SLOW}" if slow else ""
        raise LinkError(f"the run ended early: {closed.ended}{'.' * slow}{why}")


@contextmanager
def _kept(stage: Stage, folder: Path) -> Iterator[Path]:
    """A place for the recording; what is there when a run fails stays as aborted.mcap beside the stage's folder."""
    recording = folder / "run.mcap"
    try:
        yield recording
    except BaseException:
        if recording.exists():
            kept = stage.folder.parent / "aborted.mcap"
            recording.replace(kept)
            complain(f"what was recorded is in {kept}", kind="note")
        raise


def controller_of(job: Job, file: Path, build: Path) -> tuple[Controller, Stage, running.Source]:
    """The controller of a job, its code written if it has changed."""
    solved = optimum.stage(job, build)
    choices = generation.read_choices(file)
    trajectory, gains = solution(job, solved)
    with working("measuring ranges, choosing formats"):
        made = generation.controller(job, trajectory, gains, choices)
        stage = generation.stage(job, solved, choices, build)
        if not stage.unchanged():
            generation.write(stage, made)
    return made, stage, running.Source(file.read_bytes(), {**job.files, **choices.files}, trajectory, gains)


def firmware(
    job: Job, generated: Stage, choices: building.Choices, secret: keys.Key, build: Path
) -> tuple[Stage, building.Firmware]:
    """The firmware of a job, built if it has changed."""
    made = building.stage(job, generated, choices, secret, build)
    if made.unchanged():
        return made, building.Firmware(made.folder, choices.board)
    with working(f"building the firmware for {choices.board}"):
        return made, building.build(made, generated.folder, choices)


def _with_banks(rig: running.Rig, generated: Stage, secret: Path, build: Path) -> running.Rig:
    """A rig with a board that takes uploads: for an emulated one a process, which gives the same bits sooner."""
    if rig.port is not None or rig.firmware.board == "native":
        return rig
    _, other = firmware(rig.job, generated, building.Choices("native", secret), rig.key, build)
    return replace(rig, firmware=other)


def own_key(folder: Path) -> Path:
    """A key for emulated boards, made once a build folder."""
    path = folder / "key"
    if not path.exists():
        keys.create(path)
    return path
