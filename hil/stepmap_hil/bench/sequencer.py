"""Leads a board through a run, simulated or real, writes it down, and stops the robot however the run ends."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from stepmap.errors import StepmapError
from stepmap_hil.bench.setup import Setup
from stepmap_hil.runs.listener import Onlooker
from stepmap_hil.runs.log import Logbook, Run
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.raw_values import Words
from stepmap_hil.wire.session import Sent, Session
from stepmap_hil.wire.upload import NAME

STOPPING = 3.0  # s for the answer to a stop; a board that hears nobody stops by itself after one


class Conductor(ABC):
    """One board, one run. As a context manager it stops a robot whose run was left early."""

    def __init__(
        self,
        setup: Setup,
        link: Link,
        run: Run,
        *,
        options: Sequence[str],
        recorder: Recorder | None,
        onlooker: Onlooker | None,
    ) -> None:
        job, controller = setup.job, setup.controller
        self.job, self.controller, self.run, self.recorder = job, controller, run, recorder
        self.onlooker = onlooker or Onlooker()
        self.words = Words.parse(controller.description())
        schedule = hashlib.sha256(controller.schedule.pack()).digest()[:NAME]
        self.session = Session(link, self.words, options=options, schedule=schedule, log=self._sent)
        run.board_id = link.board_id.hex() if link.signed else ""
        if recorder is not None:
            recorder.add("board", {"id": run.board_id})
        self.period = controller.program.period
        self.log = Logbook(job, self.words, run, recorder, self.onlooker)
        self.moved = False  # the robot may move, or has

    @property
    @abstractmethod
    def time(self) -> float:
        """Seconds since the begin of the run's story."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A board that is gone cannot be stopped."""
        if self.moved:
            self.run.ended = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error or "left")
            with suppress(StepmapError, OSError):
                self.clear_the_line()
                self.session.stop(timeout=STOPPING)
                self.event("stopped early")

    def clear_the_line(self) -> None:  # noqa: B027  (usually nothing was)
        """Nothing that was made to go wrong keeps a robot from being stopped."""

    def event(self, text: str) -> None:
        self.log.event(self.time, text)

    def _sent(self, sent: Sent) -> None:
        self.log.sent(self.time, sent)

    def recording_ended(self) -> str:
        """Why the recording could not go on; empty where it does."""
        failed = None if self.recorder is None else self.recorder.failed
        return "" if failed is None else f"the recording could not go on: {failed.strerror}"
