"""``stepmap bench``: a board controls the simulated plant of a job."""

from __future__ import annotations

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
from stepmap.lock import alone
from stepmap_codegen import Controller, boards
from stepmap_codegen import generate as generation
from stepmap_codegen.boards import NATIVE, Runs
from stepmap_codegen.commands import solution
from stepmap_codegen.emit.size import require_counts
from stepmap_hil.bench import execute as running
from stepmap_hil.bench.facts import early_facts, facts
from stepmap_hil.bench.operator import Terminal, Unattended
from stepmap_hil.bench.priority import keep_time
from stepmap_hil.bench.settings import settings_in
from stepmap_hil.bench.setup import Setup, Source
from stepmap_hil.commands.progress import part_done, progress
from stepmap_hil.faults.spec import offered as operator_faults
from stepmap_hil.faults.spec import read_faults
from stepmap_hil.firmware import build as building
from stepmap_hil.firmware.flash import flash_emulated
from stepmap_hil.report import write as results
from stepmap_hil.report.sentences import table
from stepmap_hil.rig.file import RigFile, read_rig
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.listener import RunListener
from stepmap_hil.runs.log import MOST_SEED, STOPPED, Run
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.sensors import base as sensors
from stepmap_hil.wire import key as keys
from stepmap_hil.wire.ports import require_port

MOST_SECONDS = 3600.0


class Mode(Enum):
    LOCKSTEP = "lockstep"
    REALTIME = "realtime"


RUNNING = [board.name for board in boards.catalog().values() if board.runs is not Runs.SERIAL]
BoardName = Enum("BoardName", {name: name for name in RUNNING}, type=str)  # type: ignore[misc]
SensorName = Enum("SensorName", {name: name for name in sensors.names()}, type=str)  # type: ignore[misc]


def bench(
    file: Annotated[Path, typer.Argument(metavar="JOB", help="A job file (TOML); docs/jobs.md describes it.")],
    board: Annotated[
        BoardName | None,
        typer.Option(
            help="The board: a process of this computer, or an emulated chip. An ESP32 is not emulated. "
            "[default: native, or the rig's]"
        ),
    ] = None,
    port: Annotated[
        str | None, typer.Option(metavar="PORT", help="Serial port of a real board, flashed with this job.")
    ] = None,
    sensor: Annotated[
        SensorName | None, typer.Option(help="What sees the plant. [default: the sensor in [bench] of the job]")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=MOST_SEED, help="Seed of all noise.")] = 1,
    mode: Annotated[Mode, typer.Option(help="As fast as the board goes, or by the clock.")] = Mode.LOCKSTEP,
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Length of the run; beyond the trajectory its end is held. [default: the length of the trajectory]",
        ),
    ] = None,
    faults: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What goes wrong (TOML); docs/bench.md describes it.")
    ] = None,
    open_loop: Annotated[
        bool, typer.Option("--open-loop/--no-open-loop", help="Compare with a run of feedforward only.")
    ] = True,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Key of the board; an emulated one has its own.")
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
    place_of_runs: Annotated[
        Path | None, typer.Option("--runs", metavar="FOLDER", help="Where runs go. [default: FOLDER/<job>/runs]")
    ] = None,
) -> None:
    """Run a job on a board that controls a simulated plant; leave a folder in FOLDER/<job>/runs.

    Optimizes, generates and builds what has changed, boots the board, uploads the schedule, runs, and writes a
    recording (MCAP), pictures, summary.json and one HTML report. No run replaces another; FOLDER/<job>/bench leads to
    the latest.
    """
    from stepmap_hil.live.listener import live as live_page  # draws, which takes a while to import

    with working("reading the job"):
        job = jobs.load(file)
        settings = settings_in(job.root)
        if sensor is not None:
            settings = replace(settings, sensor=sensor.value)
        if place_of_runs is not None:
            runs.require_place(place_of_runs, "--runs")
        channels = [name for name, _ in job.system.sensor_channels]
        wrong = read_faults(faults, channels, len(job.system.kinematic)) if faults is not None else ()
        place = read_rig(rig_file) if rig_file is not None else RigFile()
        _require_possible(place, faults)
        board_name = board.value if board is not None else place.board or NATIVE.name
        require_counts(job.system, board_name)
        port, key = port or place.port, key or place.key
        if port is not None:
            require_port(port)
        timing = "realtime" if place.real else mode.value
        ticks = job.steps if seconds is None else _ticks(seconds, job.dt)
    controller, generated, source = controller_of(job, build)
    secret_file = key or (own_key(build / job.name) if port is None else keys.default_path())
    secret = keys.read(secret_file)
    made, program = firmware(job, generated, building.Choices(board_name, secret_file), secret, build)
    setup = Setup(job, controller, program, settings, secret, seed, port, timing, wrong, ticks, place)
    if timing == "realtime":
        keep_time()
    inputs = {
        "build": made.digest,
        "settings": digest_data(repr((settings, seed, port, timing, wrong, ticks, place))),
        "hil": digest_sources("stepmap_hil", ["."]),
    }
    about = {"job": job.name, "mode": timing, "sensor": settings.sensor, "seed": seed, "inputs": inputs}
    about["stepmap"] = stepmap.__version__
    compare = open_loop and not place.real
    if compare and port is None:
        _with_banks(setup, generated, secret_file, build)  # built now rather than after the run
    offered = [] if place.real else operator_faults(motors=bool(job.system.kinematic), reset=port is None)
    with (
        live_page(f"{job.name} on {board_name}", job, controller, offered, clock=timing == "realtime")
        if live
        else nullcontext(RunListener()) as listener,
        _kept(build, place_of_runs, board_name, about) as kept,
    ):
        setup = _flashed(setup, kept.scratch)
        with Recorder(kept.recording, setup.about(), source.attachments()) as recorder, recorder.telling_why():
            with progress("closed loop", ticks, controller) as told:
                if place.real:
                    with Unattended() if unattended else Terminal() as operator:
                        closed = running.real_robot(setup, operator, recorder, told, listener)
                else:
                    closed = running.closed_loop(setup, recorder, listener.on_progress, told, listener)
            results.conclude(recorder, closed, early_facts(setup))
            _require_recorded(recorder)
            opened = None
            if compare and not closed.broken:
                other = _with_banks(setup, generated, secret_file, build, port=closed.took_upload)
                with working("open loop"):
                    opened = running.open_loop(other, lambda text: None)
            known = facts(setup, kept.scratch / "count")
            results.complete(recorder, opened, known)
        _require_recorded(recorder)
        with working("drawing"):
            summary = results.write(kept.path, controller, closed, opened, known)
        verdict, wrong_with_it = _verdict(closed, summary)
        kept.end(verdict, wrong_with_it or summary["ended"], summary["ticks"])
        if place_of_runs is None:
            runs.lead(build, job.name)
        rows = [*table(summary), ("report", str(kept.path / "report.html"))]
        console().print(figures(rows, title=job.name))
    if verdict == runs.FAILED:
        raise LinkError(wrong_with_it)


def _require_possible(rig: RigFile, faults: Path | None) -> None:
    """Raises where a real robot is to do what only a simulated one can."""
    if rig.real and faults is not None:
        raise ModelError("--faults: a real robot has its own; faults are for a plant that is simulated")


def _ticks(seconds: float, dt: float) -> int:
    """Ticks of a run; raises where there would be too few to say anything about, or no end."""
    if not MOST_SECONDS >= seconds >= 3 * dt:
        raise ModelError(f"--seconds: from {3 * dt:.3g}, three ticks, to {MOST_SECONDS:g}, an hour; got {seconds:g}")
    return round(seconds / dt)


def _flashed(setup: Setup, folder: Path) -> Setup:
    """An emulated chip gets its firmware as a real one does; QEMU then boots what is in its flash."""
    board = setup.firmware.board
    if setup.port is not None or boards.find(board).runs is not Runs.QEMU:
        return setup
    with part_done(f"flashing {board}") as told:
        return replace(setup, flashed=flash_emulated(board, setup.firmware.image, folder, told))


def _require_recorded(recorder: Recorder) -> None:
    if recorder.failed is not None:
        raise LinkError(f"the run ended early: the recording could not go on: {recorder.failed.strerror}")


def _verdict(closed: Run, summary: Mapping[str, Any]) -> tuple[str, str]:
    """The verdict on a run, and what was not as it should be."""
    bad = [result for result in summary["fault_results"] if not result["ok"]]
    if bad:
        return runs.FAILED, f"{len(bad)} of {len(summary['fault_results'])} faults were not taken as expected"
    if closed.broken or (closed.ended not in ("", STOPPED) and not closed.results):
        why = f". Most likely: {closed.suspects[0]}" if closed.suspects else ""
        return runs.FAILED, f"the run ended early: {closed.ended}{why}"
    return (runs.STOPPED if closed.ended == STOPPED else runs.PASSED), ""


@contextmanager
def _kept(build: Path, place: Path | None, board: str, about: Mapping[str, Any]) -> Iterator[runs.OpenRun]:
    """The folder of the run. What was recorded of one that is cut off stays there; says where.

    Links lead to the runs of the build folder, not to those in a place of the user's.
    """
    kept = None
    try:
        with runs.begin(place or runs.folder(build, about["job"]), board, about) as kept:
            yield kept
    except BaseException:
        if kept is not None and not kept.ended and kept.recording.exists():
            leads = place is None and runs.lead_aborted(build, about["job"], kept)
            complain(f"what was recorded is in {kept.recording}{'; aborted.mcap leads there' * leads}", kind="note")
        raise


def controller_of(job: Job, build: Path) -> tuple[Controller, Stage, Source]:
    """The controller of a job, its code written if it has changed."""
    solved = optimum.stage(job, build)
    choices = generation.choices_in(job.root)
    plan = solution(job, solved)
    stage = generation.stage(job, solved, choices, build)
    with stage.making() as needed:
        if needed:
            with working("measuring ranges, choosing formats"):
                made: Controller = generation.controller(job, plan, choices)
                generation.write(stage, made)
        else:
            made = generation.load(stage, job, choices)
    return made, stage, Source(job.root.source, {**job.files, **choices.files}, plan.trajectory, plan.gains)


def firmware(
    job: Job, generated: Stage, choices: building.Choices, secret: keys.Key, build: Path
) -> tuple[Stage, building.Firmware]:
    """The firmware of a job, built if it has changed."""
    made = building.stage(job, generated, choices, secret, build)
    with made.making() as needed:
        if not needed:
            return made, building.Firmware(made.folder, choices.board)
        with working(f"building the firmware for {choices.board}"):
            return made, building.build(made, generated.folder, choices)


def _with_banks(setup: Setup, generated: Stage, secret: Path, build: Path, *, port: bool = True) -> Setup:
    """A setup with a board that takes uploads: for an emulated one a process, which gives the same bits sooner.

    ``port``: whether the one at the port does, where there is one.
    """
    if (setup.port is not None and port) or (setup.port is None and setup.firmware.board == NATIVE.name):
        return setup
    _, other = firmware(setup.job, generated, building.Choices(NATIVE.name, secret), setup.key, build)
    rig = replace(setup.rig, board_id=None)
    return replace(setup, firmware=other, flashed=None, port=None, rig=rig)


def own_key(folder: Path) -> Path:
    """A key for emulated boards, made once a build folder."""
    path = folder / "key"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder / ".key.lock", f"makes {path}"):
            if not path.exists():
                keys.create(path)
    return path
