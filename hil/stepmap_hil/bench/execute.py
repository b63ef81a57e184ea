"""A run on the bench: the board is started, its schedule uploaded, and the job run with or without feedback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np

from stepmap_codegen import Role, boards
from stepmap_hil.bench.operator import Operator
from stepmap_hil.bench.setup import Opened, Setup, watching
from stepmap_hil.bench.simulated import Bench
from stepmap_hil.bench.upload_faults import bring_schedule, require_uploads, takes_uploads
from stepmap_hil.boards.base import Board
from stepmap_hil.faults.injector import Injector
from stepmap_hil.faults.port import FaultyPort
from stepmap_hil.faults.spec import FaultVerdict
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.plant.walking import plant_of
from stepmap_hil.runs.diagnosis import diagnose
from stepmap_hil.runs.listener import RunListener
from stepmap_hil.runs.log import Run, Watch
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.sensors import live
from stepmap_hil.sensors.base import Sensor
from stepmap_hil.sensors.live import LiveSensor
from stepmap_hil.sensors.own_encoders import HostOfOwnEncoders, OwnEncoders
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.session import Session
from stepmap_hil.wire.upload import upload

ReportProgress = Callable[[str], None]


def closed_loop(
    setup: Setup,
    recorder: Recorder | None,
    report: ReportProgress,
    watch: Watch | None = None,
    listener: RunListener | None = None,
) -> Run:
    """The job on the board, with its schedule uploaded first where the board takes uploads."""
    listener = listener or RunListener()
    run = _run(setup, recorder, report, watch, listener)
    listener.on_end(run)
    return run


def real_robot(
    setup: Setup,
    operator: Operator,
    recorder: Recorder | None,
    watch: Watch | None = None,
    listener: RunListener | None = None,
) -> Run:
    """The job on the board of a real robot, which the rig's sensor or the board measures and the operator can stop."""
    from stepmap_hil.bench.real import RobotRun

    listener = listener or RunListener()
    setup.workspace().require(setup.controller)
    with _camera(setup) as camera, setup.board() as board:
        listener.on_start(camera)
        link = Link(board.open(), setup.key, board_id=setup.rig.board_id)
        session = Session(link, SignalCodec.parse(setup.controller.description()), options=())
        heartbeat = session.connect()
        session.ready(heartbeat)
        if takes_uploads(heartbeat):
            operator.report("uploading the schedule")
            upload(link, setup.controller.schedule.pack(), setup.key)
        frames = HostOfOwnEncoders(link) if isinstance(camera, OwnEncoders) else camera
        with RobotRun(setup, link, frames, operator, recorder=recorder, listener=listener) as run:
            run.log.watch(camera, setup.settings.points)
            run.run.took_upload = takes_uploads(heartbeat)
            run.prepare(setup.rig.countdown)
            made = run.go(setup.planned, watch)
    diagnose(setup.controller, made, setup.circumstances())
    listener.on_end(made)
    return made


@contextmanager
def _camera(setup: Setup) -> Iterator[LiveSensor | OwnEncoders]:
    """What measures a real robot: the sensor of its rig, or the board itself."""
    if setup.controller.encoders:
        yield OwnEncoders()
        return
    with closing(live.make(setup.rig, setup.job)) as sensor:
        yield sensor


def open_loop(setup: Setup, report: ReportProgress) -> Run:
    """The same in lock-step, feedforward only: commands are those of the nominal trajectory."""
    rows = setup.controller.schedule.rows.copy()
    step = setup.controller.plant.step
    rows[:, step.nx + step.nu :] = 0
    schedule = replace(setup.controller.schedule, rows=rows)
    plant = replace(setup.controller.plant, gains=np.zeros_like(setup.controller.plant.gains))
    controller = replace(setup.controller, schedule=schedule, plant=plant)
    return _run(replace(setup, controller=controller, mode="lockstep", faults=()), None, report, None, RunListener())


def _run(
    setup: Setup, recorder: Recorder | None, report: ReportProgress, watch: Watch | None, listener: RunListener
) -> Run:
    controller = setup.controller
    start = controller.output.start[controller.program.of(Role.STATE)]
    plant = plant_of(setup.job, controller.axes, start, setup.settings.plant, controller.encoders, setup.settings.steps)
    if setup.port is None:
        require_uploads(setup, takes=boards.find(setup.firmware.board).bank_bytes > 0)
    with watching(setup) as sensor, setup.board() as board:
        listener.on_start(sensor)
        report("starting the board")
        opened = _open(setup, board, plant, sensor, listener)
        takes = takes_uploads(opened.link.connect())
        require_uploads(setup, takes=takes)
        results: list[FaultVerdict] = []
        if takes:
            report("uploading the schedule")
            results = bring_schedule(setup.faults, board, opened.link, setup.controller.schedule.pack(), setup.key)
        with Bench(setup, opened, recorder=recorder, listener=listener) as bench:
            bench.log.watch(sensor, setup.settings.points)
            bench.run.results += results
            bench.run.took_upload = takes
            report("calibrating and arming")
            bench.prepare()
            report("running")
            run = bench.go(setup.planned, watch)
    injector = opened.injector
    diagnose(setup.controller, run, setup.circumstances(() if injector is None else injector.acted()))
    return run


def _open(setup: Setup, board: Board, plant: Plant, sensor: Sensor, listener: RunListener) -> Opened:
    """With a link to the board, whose port can be disturbed where faults are injected."""
    port = board.open()
    injector = None
    if setup.faults or listener.injects_faults:
        channels = SignalCodec.parse(setup.controller.description()).names("measurement")
        faulty = port = FaultyPort(port)
        asked, gaps = listener.requested_faults, plant.system.gap_names
        injector = Injector(setup.faults, channels, len(plant.motors), faulty, setup.seed, asked, gaps)
    return Opened(Link(port, setup.key, board_id=setup.rig.board_id), plant, sensor, board, injector)
