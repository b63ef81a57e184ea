"""Run sequencer: takes a board through a run, simulated or real, logs it, and stops the robot however it ends."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from stepmap.errors import StepmapError
from stepmap_hil.bench.setup import Setup
from stepmap_hil.bench.streaming import Streaming
from stepmap_hil.runs.acts import Begins
from stepmap_hil.runs.foxglove import SceneWriter
from stepmap_hil.runs.listener import RunListener
from stepmap_hil.runs.log import Run, RunLog
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.session import Sent, Session
from stepmap_hil.wire.upload import NAME

STOP_TIMEOUT_S = 3.0  # for the answer; a board without a host stops by itself after one second


class RunSequencer(ABC):
    """One board, one run. As a context manager it stops a robot whose run was left early."""

    def __init__(
        self,
        setup: Setup,
        link: Link,
        run: Run,
        *,
        options: Sequence[str],
        recorder: Recorder | None,
        listener: RunListener | None,
    ) -> None:
        job, controller = setup.job, setup.controller
        self.job, self.controller, self.run, self.recorder = job, controller, run, recorder
        self.listener = listener or RunListener()
        self.codec = SignalCodec.parse(controller.description())
        schedule = hashlib.sha256(controller.schedule.pack()).digest()[:NAME]
        self.session = Session(link, self.codec, options=options, schedule=schedule, log=self._sent)
        run.board_id = link.board_id.hex() if link.signed else ""
        if recorder is not None:
            recorder.add("board", {"id": run.board_id})
        self.period = controller.program.period
        simulated = run.plant == "simulated"
        scene = None if recorder is None else SceneWriter(recorder, controller, simulated=simulated)
        self.log = RunLog(job, self.codec, run, recorder, self.listener, scene, Begins(setup.named_acts, self.period))
        self.streaming = Streaming(controller, setup.reference, self.session, self.log)
        self.moved = False  # whether the robot may move, or has moved

    @property
    @abstractmethod
    def time(self) -> float:
        """Seconds since the begin of the recording."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A board that is gone cannot be stopped."""
        self.streaming.close()
        if self.moved:
            self.run.ended = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error or "left")
            with suppress(StepmapError, OSError):
                self.clear_injected_faults()
                self.session.stop(timeout=STOP_TIMEOUT_S)
                self.event("stopped early")

    def clear_injected_faults(self) -> None:  # noqa: B027  (a real robot has none)
        """Called before a stop, so that no injected fault keeps the robot from being stopped."""

    def event(self, text: str) -> None:
        self.log.event(self.time, text)

    def _sent(self, sent: Sent) -> None:
        self.log.sent(self.time, sent)

    def recording_ended(self) -> str:
        """Why the recording had to end; empty while it goes on."""
        failed = None if self.recorder is None else self.recorder.failed
        return "" if failed is None else f"the recording could not go on: {failed.strerror}"
