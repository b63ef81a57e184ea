"""What ``stepmap bench`` was asked for, and what that means for its job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from stepmap import jobs
from stepmap.errors import ModelError
from stepmap.extras import require
from stepmap.jobs import Job
from stepmap.jobs import optimize as optimum
from stepmap_codegen import boards
from stepmap_codegen import generate as generation
from stepmap_codegen.boards import NATIVE
from stepmap_codegen.emit.encoders import measures_itself
from stepmap_codegen.forecast import require_room
from stepmap_codegen.stream.settings import read_stream
from stepmap_hil.bench.settings import BenchSettings, settings_in
from stepmap_hil.faults.spec import Fault, read_faults
from stepmap_hil.firmware.tools import require_tools
from stepmap_hil.rig.file import KINECT, RigFile, read_rig
from stepmap_hil.ros import keys as keys_of_ros
from stepmap_hil.runs import folders as runs
from stepmap_hil.sensors import live
from stepmap_hil.sensors.staging import require_visible
from stepmap_hil.setpoints.base import Reference, read_reference
from stepmap_hil.wire import key as keys
from stepmap_hil.wire.ports import require_port

MOST_SECONDS = 3600.0


@dataclass(frozen=True)
class Request:
    """The options of the command."""

    file: Path
    board: str | None
    port: str | None
    sensor: str | None
    seed: int
    mode: str
    seconds: float | None
    reference: str | None  # of set-points
    faults: Path | None
    open_loop: bool
    key: Path | None
    rig: Path | None
    unattended: bool
    live: bool
    build: Path
    runs: Path | None  # where runs go, if not in the build folder
    ros: bool = False
    router: str | None = None  # of Zenoh


@dataclass(frozen=True)
class Task:
    """A job as it is to be run: the options with the job file, the rig file and the fault file behind them."""

    job: Job
    settings: BenchSettings
    rig: RigFile
    faults: tuple[Fault, ...]
    board: str
    port: str | None
    key: Path | None
    mode: str
    ticks: int | None  # as many as the plan has where None
    reference: Reference | None  # of set-points that are streamed


def read(request: Request) -> Task:
    """The task of a request; raises what can be known before anything is made."""
    runs.require_writable(request.build, "--build")
    if request.live:
        require("live", "--live", "viser")
    _require_ros(request)
    job = jobs.for_board(jobs.load(request.file))
    settings = settings_in(job.root)
    own = measures_itself(job.root.table("board"))
    if own and request.sensor is not None:
        raise ModelError(
            f"--sensor: the board of job {job.name!r} measures with its own encoders",
            hint='Leave --sensor out, or measure = "encoders" in [board] of the job.',
        )
    if request.sensor is not None:
        settings = replace(settings, sensor=request.sensor)
    if request.runs is not None:
        runs.require_writable(request.runs, "--runs")
    channels = [name for name, _ in job.system.sensor_channels]
    axes = [c.name for c in job.system.kinematic]
    gaps = job.system.gap_names
    faults = read_faults(request.faults, channels, axes, gaps) if request.faults is not None else ()
    rig = read_rig(request.rig, calibrated=not own) if request.rig is not None else RigFile()
    if rig.real and not own:
        live.require(rig, job)
    elif settings.sensor == KINECT and not own:
        require_visible(job, rig.camera, rig.scene)
    if rig.real and request.faults is not None:
        raise ModelError("--faults: faults are injected into a simulated plant, and this rig has a real robot")
    board = request.board or rig.board or NATIVE.name
    generation.require_board(job, board)
    generation.require(job, generation.choices_in(job.root))
    reference = _reference(request, job)
    require_tools(board, runs=(request.port or rig.port) is None)
    port = request.port or rig.port
    if not optimum.stage(job, request.build).unchanged():  # else it is known already
        require_room(job, generation.choices_in(job.root), boards.find(board), emulated=port is None)
    if port is not None:
        require_port(port)
    key = request.key or rig.key
    if key is not None or port is not None:
        keys.read(key or keys.default_path())
    mode = "realtime" if rig.real else request.mode
    ticks = None if request.seconds is None else _ticks(request.seconds, job.dt)
    return Task(job, settings, rig, faults, board, port, key, mode, ticks, reference)


def _require_ros(request: Request) -> None:
    """Raises where the run cannot be published as it is asked for."""
    if request.router is not None and not request.ros:
        raise ModelError("--ros-connect: nothing is published", hint="Add --ros.")
    if request.ros:
        require("ros", "--ros", "zenoh", "rosbags", "xxhash")
        keys_of_ros.domain()
        if request.router is not None:
            keys_of_ros.require_endpoint(request.router)


def _reference(request: Request, job: Job) -> Reference | None:
    if request.reference is None:
        return None
    return read_reference(request.reference, read_stream(job.root, job.system), job.name)


def _ticks(seconds: float, dt: float) -> int:
    """Ticks of a run; raises where there would be too few to say anything about, or no end."""
    if not MOST_SECONDS >= seconds >= 3 * dt:
        raise ModelError(
            f"--seconds: {seconds:g} s is no length of a run",
            hint=f"Give {3 * dt:.3g} s (three ticks) to {MOST_SECONDS:g} s (one hour).",
        )
    return round(seconds / dt)
