"""The run itself: closed loop, recorded, then the open loop to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from stepmap.cli.output import complain, working
from stepmap.errors import LinkError
from stepmap_codegen import boards
from stepmap_hil.bench import execute as running
from stepmap_hil.bench.facts import early_facts, facts
from stepmap_hil.bench.operator import Terminal, Unattended
from stepmap_hil.bench.priority import keeping_time
from stepmap_hil.bench.setup import Setup
from stepmap_hil.commands.bench.finish import finish
from stepmap_hil.commands.bench.origin import origin_of
from stepmap_hil.commands.bench.prepare import Prepared, prepare
from stepmap_hil.commands.bench.progress import progress, steps_shown
from stepmap_hil.commands.bench.request import Request, read
from stepmap_hil.commands.stage_list import StageList
from stepmap_hil.faults.spec import offered as operator_faults
from stepmap_hil.report import write as results
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.foxglove.confidence import write_confidence
from stepmap_hil.runs.listener import Listeners, RunListener
from stepmap_hil.runs.log import Run
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.runs.stage_times import StageClock, process_age

STAGES = {
    "starting the board": "boot",
    "uploading the schedule": "upload",
    "calibrating and arming": "arm",
    "running": "closed loop",
}
"""Stages by what a run says when it begins them."""


def run(request: Request) -> None:
    """Does what was asked for; raises LinkError where the verdict is that the run failed."""
    clock = StageClock()
    with clock.stage("read job"), working("reading the job"):
        task = read(request)
    clock.on_end = StageList(clock.done)  # not before: a mistake in the job is all there is to say then
    prepared = prepare(request, task, clock)
    other = prepared.with_uploads(clock) if prepared.compares and task.port is None else None
    priority = keeping_time() if task.mode == "realtime" else nullcontext()
    with priority, _listening(prepared) as listener, _kept(prepared) as kept:
        setup = prepared.flashed(kept.scratch, clock)
        bench = _BenchRun(prepared, setup, other, listener, clock)
        about = setup.about()
        with Recorder(kept.recording, about, prepared.source.attachments()) as recorder, recorder.telling_why():
            closed, opened, known = bench.record(recorder, kept)
        _require_recorded(recorder)
        verdict, reason = finish(
            kept, setup.controller, (closed, opened, known), clock, origin_of(setup, about["begun"])
        )
        if request.runs is None:
            runs.lead(request.build, setup.job.name)
        listener.on_saved(kept.path)
    if verdict == runs.FAILED:
        raise LinkError(reason)


@dataclass
class _BenchRun:
    """Both runs of the bench, with what they are timed, shown and stopped by."""

    prepared: Prepared
    setup: Setup
    other: Setup | None  # of the open loop, where that is known before the run
    listener: RunListener
    clock: StageClock
    board_started: float | None = None

    def record(self, recorder: Recorder, kept: runs.OpenRun) -> tuple[Run, Run | None, dict[str, Any]]:
        """The closed loop, the open loop and the facts of both; all of it is in the recording."""
        closed = self._closed_loop(recorder)
        self.clock.end()
        results.conclude(recorder, closed, early_facts(self.setup) | self._timing())
        _require_recorded(recorder)
        opened = None
        if self.prepared.compares and not closed.broken:
            other = self.other or self.prepared.with_uploads(self.clock, port=closed.took_upload)
            with self.clock.stage("open loop"), working("open loop"):
                opened = running.open_loop(other, lambda text: None)
        write_confidence(recorder, self.setup.controller, closed)
        known = self._facts(kept) | self._timing()
        results.complete(recorder, opened, known)
        return closed, opened, known

    def _facts(self, kept: runs.OpenRun) -> dict[str, Any]:
        if boards.find(self.setup.firmware.board).bare_chip is None:  # nothing is counted then
            return facts(self.setup, kept.scratch / "count")
        with self.clock.stage("instruction count"), working("counting instructions"):
            return facts(self.setup, kept.scratch / "count")

    def _timing(self) -> dict[str, Any]:
        """Facts that depend on the computer's clock."""
        return {"board_started_after_seconds": self.board_started, "stages": self.clock.document()}

    def _closed_loop(self, recorder: Recorder) -> Run:
        setup = self.setup
        with progress("closed loop", setup.planned, setup.controller, setup.settings.angles) as watch:
            if setup.rig.real:
                self._begin("starting the board")
                self.clock.begin("closed loop")
                with Unattended() if self.prepared.request.unattended else Terminal() as operator:
                    return running.real_robot(setup, operator, recorder, watch, self.listener)
            self.clock.begin("sensor")
            with steps_shown("starting the sensor") as shown:

                def report(text: str) -> None:
                    shown("")  # nothing else writes to the terminal while a stage is listed
                    self._begin(text)
                    shown("" if text == "running" else text)

                return running.closed_loop(setup, recorder, report, watch, self.listener)

    def _begin(self, text: str) -> None:
        self.listener.on_progress(text)
        if text in STAGES:
            self.clock.begin(STAGES[text])
        if STAGES.get(text) == "boot":
            self.board_started = round(process_age(), 3)


def _require_recorded(recorder: Recorder) -> None:
    if recorder.failed is not None:
        raise LinkError(
            f"the run ended early: the recording could not go on: {recorder.failed.strerror} ({recorder.path})"
        )


@contextmanager
def _listening(prepared: Prepared) -> Iterator[RunListener]:
    """The live page and the bridge to ROS 2 where they are asked for; their modules take a while to import."""
    setup, request = prepared.setup, prepared.request
    found: list[RunListener] = []
    with ExitStack() as stack:
        if request.ros:
            from stepmap_hil.ros.listener import bridged

            found.append(stack.enter_context(bridged(setup, request.router)))
        if request.live:
            from stepmap_hil.live.listener import live

            job, board = setup.job, setup.firmware.board
            motors, reset = bool(job.system.kinematic), setup.port is None
            offered = [] if setup.rig.real else operator_faults(motors=motors, reset=reset)
            page = live(f"{job.name} on {board}", setup, offered, clock=setup.mode == "realtime")
            found.append(stack.enter_context(page))
        yield Listeners(found)


@contextmanager
def _kept(prepared: Prepared) -> Iterator[runs.OpenRun]:
    """The folder of the run. What was recorded of one that is cut off stays there; says where.

    Links lead to the runs of the build folder, not to those in a place of the user's.
    """
    build, place, job = prepared.request.build, prepared.request.runs, prepared.setup.job.name
    kept = None
    try:
        with runs.begin(place or runs.folder(build, job), prepared.setup.firmware.board, prepared.about()) as kept:
            yield kept
    except BaseException:
        if kept is not None and not kept.ended and kept.recording.exists():
            leads = place is None and runs.lead_aborted(build, job, kept.path)
            complain(f"what was recorded is in {kept.recording}{'; aborted.mcap leads there' * leads}", kind="note")
        raise
