"""A run on the bench: the board is started, its schedule uploaded, and the job run with or without feedback."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

import stepmap
from stepmap.arrays import Array
from stepmap.errors import LinkError, ModelError
from stepmap.jobs import Job
from stepmap.steps.protocol import Trajectory
from stepmap_codegen import Controller
from stepmap_codegen.size import BOARDS
from stepmap_hil import dialect, sensors
from stepmap_hil.arrivals import Arrivals
from stepmap_hil.bench import Bench
from stepmap_hil.board import Board, BoardError
from stepmap_hil.boards import NativeBoard, QemuBoard, SerialBoard
from stepmap_hil.boards.native import EXIT_POWER_CUT
from stepmap_hil.build import Firmware
from stepmap_hil.diagnosis import Circumstances, diagnose
from stepmap_hil.dialect import Message
from stepmap_hil.faults import UPLOADS, Fault, Result
from stepmap_hil.faulty_port import FaultyPort
from stepmap_hil.flash import Flashed
from stepmap_hil.injector import Injector
from stepmap_hil.key import Key
from stepmap_hil.link import Link
from stepmap_hil.logbook import Run, Watch
from stepmap_hil.onlooker import Onlooker
from stepmap_hil.operators import Operator
from stepmap_hil.plant import Plant
from stepmap_hil.record import Recorder, name_of
from stepmap_hil.rig import RigFile, Room
from stepmap_hil.sensors import Sensor
from stepmap_hil.session import Session
from stepmap_hil.settings import BenchSettings
from stepmap_hil.upload import CHUNK, NAME, upload
from stepmap_hil.words import Words

Say = Callable[[str], None]
MODES = ("lockstep", "realtime")
MOST_SEED = 2**53 - 1  # numbers of JSON are exact up to there


@dataclass(frozen=True)
class Source:
    """What a controller follows from; a recording holds it, so that it can be looked at alone."""

    job: bytes  # the job file
    files: dict[str, bytes]
    trajectory: Trajectory
    gains: Array

    def attachments(self) -> dict[str, bytes]:
        packed = io.BytesIO()
        t = self.trajectory
        np.savez_compressed(packed, t=t.t, x=t.x, u=t.u, gains=self.gains)
        files = {f"files/{name}": content for name, content in self.files.items()}
        return {"job.toml": self.job, "solution.npz": packed.getvalue(), **files}


@dataclass(frozen=True)
class Rig:
    """What a job is tried out with."""

    job: Job
    controller: Controller
    firmware: Firmware
    settings: BenchSettings
    key: Key
    seed: int = 1
    port: str | None = None
    mode: str = "lockstep"
    faults: tuple[Fault, ...] = field(default=())
    ticks: int | None = None  # as many as the job has where None
    file: RigFile = field(default_factory=RigFile)
    flashed: Flashed | None = None

    def board(self) -> Board:
        if self.port is not None:
            return SerialBoard(self.port, baud=self.file.baud)
        if self.firmware.board == "native":
            return NativeBoard(self.firmware.program)
        image = self.firmware.program if self.flashed is None else self.flashed.content
        return QemuBoard(self.firmware.board, image)

    def arrivals(self) -> Arrivals | None:
        """How late frames come; in real time they come when they come."""
        period = self.controller.program.period
        simulated = self.mode == "lockstep" and self.settings.jitter > 0
        return Arrivals(self.settings.jitter, period / self.settings.substeps, period, self.seed) if simulated else None

    @property
    def latency(self) -> float:
        """How late all frames come [s]."""
        return self.controller.late if self.settings.latency is None else self.settings.latency

    @property
    def planned(self) -> int:
        """Ticks of a run that nothing ends."""
        return self.job.steps if self.ticks is None else self.ticks

    def circumstances(self, faults: Sequence[Fault] = ()) -> Circumstances:
        """What a diagnosis has to know; `faults` are those that happened, with those by hand."""
        return Circumstances(
            mode=self.mode,
            plant=self.file.plant,
            sensor=self.settings.sensor,
            board=self.firmware.board,
            port=self.port is not None,
            believed_late=self.controller.late,
            late=self.controller.late if self.file.real else self.latency,
            faults=faults,
            errors=self.settings.plant,
        )

    def about(self) -> dict[str, str]:
        """For the recording."""
        return {
            "job": name_of(self.job.name),
            "board": self.firmware.board,
            "model": self.controller.digest,
            "seed": str(self.seed),
            "sensor": self.settings.sensor,
            "mode": self.mode,
            "plant": self.file.plant,
            "stepmap": stepmap.__version__,
        }

    def sensor(self) -> Sensor:
        return sensors.make(self.settings.sensor, self.job, self.seed, self.file)


@contextmanager
def watching(rig: Rig) -> Iterator[Sensor]:
    sensor = rig.sensor()
    try:
        yield sensor
    finally:
        sensor.close()


def closed_loop(
    rig: Rig, recorder: Recorder | None, say: Say, watch: Watch | None = None, onlooker: Onlooker | None = None
) -> Run:
    """The job on the board, with its schedule uploaded first where the board takes uploads."""
    onlooker = onlooker or Onlooker()
    run = _run(rig, rig.controller, recorder, say, watch, onlooker)
    onlooker.over(run)
    return run


def real_robot(
    rig: Rig,
    operator: Operator,
    recorder: Recorder | None,
    watch: Watch | None = None,
    onlooker: Onlooker | None = None,
) -> Run:
    """The job on the board of a real robot, which a Kinect watches and someone can stop."""
    from stepmap_hil.kinect_eye import KinectEye
    from stepmap_hil.robot_run import RobotRun

    onlooker = onlooker or Onlooker()
    room = Room(rig.file, [c.name for c in rig.job.system.coordinates])
    room.require(rig.controller)
    with closing(KinectEye(rig.file, rig.job)) as eye, rig.board() as board:
        onlooker.meet(eye)
        link = Link(board.open(), rig.key, board_id=rig.file.board_id)
        session = Session(link, Words.parse(rig.controller.description()), options=())
        beat = session.connect()
        session.ready(beat)
        if takes_uploads(beat):
            operator.tell("uploading the schedule")
            upload(link, rig.controller.schedule.pack(), rig.key)
        parts = (rig.job, rig.controller, link, eye, operator, room)
        with RobotRun(*parts, board=rig.firmware.board, recorder=recorder, onlooker=onlooker) as run:
            run.run.took_upload = takes_uploads(beat)
            run.prepare(rig.file.countdown)
            made = run.go(rig.planned, watch)
    diagnose(rig.controller, made, rig.circumstances())
    onlooker.over(made)
    return made


def open_loop(rig: Rig, say: Say) -> Run:
    """The same in lock-step with gains of zero: the commands are those of the plan, whatever is measured."""
    rows = rig.controller.schedule.rows.copy()
    step = rig.controller.plant.step
    rows[:, step.nx + step.nu :] = 0
    schedule = replace(rig.controller.schedule, rows=rows)
    plant = replace(rig.controller.plant, gains=np.zeros_like(rig.controller.plant.gains))
    controller = replace(rig.controller, schedule=schedule, plant=plant)
    return _run(replace(rig, mode="lockstep", faults=()), controller, None, say, None, Onlooker())


def _run(
    rig: Rig, controller: Controller, recorder: Recorder | None, say: Say, watch: Watch | None, onlooker: Onlooker
) -> Run:
    plant = Plant(rig.job, controller.axes, rig.settings.plant)
    channels = Words.parse(controller.description()).names("measurement")
    if rig.port is None:
        _require_uploads(rig, takes=BOARDS[rig.firmware.board].bank > 0)
    with watching(rig) as sensor, rig.board() as board:
        onlooker.meet(sensor)
        say("starting the board")
        port = FaultyPort(board.open())
        injector = None
        if rig.faults or onlooker.injects:
            injector = Injector(rig.faults, channels, len(plant.motors), port, rig.seed, onlooker.faults)
        link = Link(port if injector is not None else port.inner, rig.key, board_id=rig.file.board_id)
        takes = takes_uploads(link.connect())
        _require_uploads(rig, takes=takes)
        results: list[Result] = []
        if takes:
            say("uploading the schedule")
            results = bring_schedule(rig.faults, board, link, controller.schedule.pack(), rig.key)
        with Bench(
            rig.job,
            controller,
            link,
            plant,
            sensor,
            board=rig.firmware.board,
            substeps=rig.settings.substeps,
            mode=rig.mode,
            recorder=recorder,
            injector=injector,
            hardware=board,
            arrivals=rig.arrivals(),
            latency=rig.latency,
            onlooker=onlooker,
        ) as bench:
            bench.run.results += results
            bench.run.took_upload = takes
            say("calibrating and arming")
            bench.prepare()
            say("running")
            run = bench.go(rig.planned, watch)
    diagnose(controller, run, rig.circumstances(() if injector is None else injector.acted()))
    return run


# Uploads


def takes_uploads(beat: Message) -> bool:
    """Whether a board has memory for a schedule; one without runs that of its image."""
    return bool(beat.flags & dialect.value("STEPMAP_FLAG_TAKES_UPLOADS"))


def _require_uploads(rig: Rig, *, takes: bool) -> None:
    uploads = [fault.kind for fault in rig.faults if fault.kind in UPLOADS]
    if uploads and not takes:
        raise ModelError(f"faults: {uploads[0]} happens to an upload, and {rig.firmware.board} takes none")


def bring_schedule(faults: tuple[Fault, ...], board: Board, link: Link, blob: bytes, key: Key) -> list[Result]:
    """Uploads the schedule; what goes wrong on the way, as told, must not matter in the end."""
    results = []
    for fault in faults:
        if fault.kind == "wrong_schedule":
            results.append(_wrong_schedule(fault, link, blob, key))
        elif fault.kind == "brown_out":
            results.append(_brown_out(fault, board, link, blob, key))
    if not any(fault.kind == "brown_out" for fault in faults):
        upload(link, blob, key)
    return results


def _wrong_schedule(fault: Fault, link: Link, blob: bytes, key: Key) -> Result:
    """One of another model; the board must refuse it."""
    other = blob[:8] + bytes(255 - b for b in blob[8:16]) + blob[16:]
    try:
        upload(link, other, key)
        seen, ok = "taken", False
    except LinkError as error:
        ok = dialect.meaning("STEPMAP_RESULT", dialect.value("STEPMAP_RESULT_MODEL")) in str(error)
        seen = "refused, model" if ok else str(error)
    return Result(fault.kind, fault.at, str(fault.expect), seen, ok and fault.expect.state == "refused")


def _brown_out(fault: Fault, board: Board, link: Link, blob: bytes, key: Key) -> Result:
    """Power goes in the middle; afterwards the same upload must go through."""
    cut = _cut_power if isinstance(board, NativeBoard) else _reset_midway
    happened = cut(fault.amount, board, link, blob, key)
    beat = link.connect()
    right = bytes(beat.schedule) == hashlib.sha256(blob).digest()[:NAME]
    running = fault.expect.state == "running"  # no other end is foreseen
    words = ("interrupted" if happened else "not interrupted", "then uploaded" if right else "then not in use")
    return Result(fault.kind, fault.at, str(fault.expect), ", ".join(words), happened and right and running)


def _cut_power(part: float, board: Board, link: Link, blob: bytes, key: Key) -> bool:
    """In the middle of a write, and back on."""
    if not isinstance(board, NativeBoard):
        raise TypeError("only a native board can lose its power")
    board.power_cut = f"{max(2, round(part * len(blob) / CHUNK))}:7"
    board.reset("power")
    link.connect()
    try:
        upload(link, blob, key)
        happened = False
    except (LinkError, BoardError):
        happened = board.wait() == EXIT_POWER_CUT
    board.power_cut = None
    board.reset("power")
    link.connect()
    upload(link, blob, key)
    return happened


def _reset_midway(part: float, board: Board, link: Link, blob: bytes, key: Key) -> bool:
    happened = False

    def progress(done: int, total: int) -> None:
        nonlocal happened
        if not happened and done >= part * total:
            happened = True
            board.reset()

    upload(link, blob, key, progress=progress)
    return happened
