"""A run on the bench: the board is started, its schedule uploaded, and the job run with or without feedback."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import numpy as np

from stepmap_codegen import Controller, boards
from stepmap_hil.bench.operator import Operator
from stepmap_hil.bench.setup import Rig, watching
from stepmap_hil.bench.simulated import Bench
from stepmap_hil.bench.upload_faults import bring_schedule, require_uploads, takes_uploads
from stepmap_hil.faults.injector import Injector
from stepmap_hil.faults.port import FaultyPort
from stepmap_hil.faults.spec import Result
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.rig.file import Room
from stepmap_hil.runs.diagnosis import diagnose
from stepmap_hil.runs.listener import Onlooker
from stepmap_hil.runs.log import Run, Watch
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.raw_values import Words
from stepmap_hil.wire.session import Session
from stepmap_hil.wire.upload import upload

Say = Callable[[str], None]


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
    from stepmap_hil.bench.real import RobotRun
    from stepmap_hil.sensors.kinect_live import KinectEye

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
        require_uploads(rig, takes=boards.find(rig.firmware.board).bank_bytes > 0)
    with watching(rig) as sensor, rig.board() as board:
        onlooker.meet(sensor)
        say("starting the board")
        port = FaultyPort(board.open())
        injector = None
        if rig.faults or onlooker.injects:
            injector = Injector(rig.faults, channels, len(plant.motors), port, rig.seed, onlooker.faults)
        link = Link(port if injector is not None else port.inner, rig.key, board_id=rig.file.board_id)
        takes = takes_uploads(link.connect())
        require_uploads(rig, takes=takes)
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
