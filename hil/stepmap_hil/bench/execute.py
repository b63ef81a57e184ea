"""A run on the bench: the board is started, its schedule uploaded, and the job run with or without feedback."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import numpy as np

from stepmap_codegen import boards
from stepmap_hil.bench.operator import Operator
from stepmap_hil.bench.setup import Opened, Setup, watching
from stepmap_hil.bench.simulated import Bench
from stepmap_hil.bench.upload_faults import bring_schedule, require_uploads, takes_uploads
from stepmap_hil.boards.base import Board
from stepmap_hil.faults.injector import Injector
from stepmap_hil.faults.port import FaultyPort
from stepmap_hil.faults.spec import Result
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.runs.diagnosis import diagnose
from stepmap_hil.runs.listener import Onlooker
from stepmap_hil.runs.log import Run, Watch
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.sensors.base import Sensor
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.raw_values import Words
from stepmap_hil.wire.session import Session
from stepmap_hil.wire.upload import upload

Say = Callable[[str], None]


def closed_loop(
    setup: Setup, recorder: Recorder | None, say: Say, watch: Watch | None = None, onlooker: Onlooker | None = None
) -> Run:
    """The job on the board, with its schedule uploaded first where the board takes uploads."""
    onlooker = onlooker or Onlooker()
    run = _run(setup, recorder, say, watch, onlooker)
    onlooker.over(run)
    return run


def real_robot(
    setup: Setup,
    operator: Operator,
    recorder: Recorder | None,
    watch: Watch | None = None,
    onlooker: Onlooker | None = None,
) -> Run:
    """The job on the board of a real robot, which a Kinect watches and someone can stop."""
    from stepmap_hil.bench.real import RobotRun
    from stepmap_hil.sensors.kinect_live import KinectEye

    onlooker = onlooker or Onlooker()
    setup.room().require(setup.controller)
    with closing(KinectEye(setup.rig, setup.job)) as eye, setup.board() as board:
        onlooker.meet(eye)
        link = Link(board.open(), setup.key, board_id=setup.rig.board_id)
        session = Session(link, Words.parse(setup.controller.description()), options=())
        beat = session.connect()
        session.ready(beat)
        if takes_uploads(beat):
            operator.tell("uploading the schedule")
            upload(link, setup.controller.schedule.pack(), setup.key)
        with RobotRun(setup, link, eye, operator, recorder=recorder, onlooker=onlooker) as run:
            run.run.took_upload = takes_uploads(beat)
            run.prepare(setup.rig.countdown)
            made = run.go(setup.planned, watch)
    diagnose(setup.controller, made, setup.circumstances())
    onlooker.over(made)
    return made


def open_loop(setup: Setup, say: Say) -> Run:
    """The same in lock-step with gains of zero: the commands are those of the plan, whatever is measured."""
    rows = setup.controller.schedule.rows.copy()
    step = setup.controller.plant.step
    rows[:, step.nx + step.nu :] = 0
    schedule = replace(setup.controller.schedule, rows=rows)
    plant = replace(setup.controller.plant, gains=np.zeros_like(setup.controller.plant.gains))
    controller = replace(setup.controller, schedule=schedule, plant=plant)
    return _run(replace(setup, controller=controller, mode="lockstep", faults=()), None, say, None, Onlooker())


def _run(setup: Setup, recorder: Recorder | None, say: Say, watch: Watch | None, onlooker: Onlooker) -> Run:
    plant = Plant(setup.job, setup.controller.axes, setup.settings.plant)
    if setup.port is None:
        require_uploads(setup, takes=boards.find(setup.firmware.board).bank_bytes > 0)
    with watching(setup) as sensor, setup.board() as board:
        onlooker.meet(sensor)
        say("starting the board")
        opened = _open(setup, board, plant, sensor, onlooker)
        takes = takes_uploads(opened.link.connect())
        require_uploads(setup, takes=takes)
        results: list[Result] = []
        if takes:
            say("uploading the schedule")
            results = bring_schedule(setup.faults, board, opened.link, setup.controller.schedule.pack(), setup.key)
        with Bench(setup, opened, recorder=recorder, onlooker=onlooker) as bench:
            bench.run.results += results
            bench.run.took_upload = takes
            say("calibrating and arming")
            bench.prepare()
            say("running")
            run = bench.go(setup.planned, watch)
    injector = opened.injector
    diagnose(setup.controller, run, setup.circumstances(() if injector is None else injector.acted()))
    return run


def _open(setup: Setup, board: Board, plant: Plant, sensor: Sensor, onlooker: Onlooker) -> Opened:
    """With a link to the board, whose port can be disturbed where faults are injected."""
    port = board.open()
    injector = None
    if setup.faults or onlooker.injects:
        channels = Words.parse(setup.controller.description()).names("measurement")
        faulty = port = FaultyPort(port)
        injector = Injector(setup.faults, channels, len(plant.motors), faulty, setup.seed, onlooker.faults)
    return Opened(Link(port, setup.key, board_id=setup.rig.board_id), plant, sensor, board, injector)
