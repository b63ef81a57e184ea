"""The run listener of the live page: shows each tick, and passes its buttons to the run."""

from __future__ import annotations

import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from stepmap.arrays import Array
from stepmap.jobs.system import source_of
from stepmap_codegen import Controller
from stepmap_hil.bench.setup import Setup
from stepmap_hil.faults.spec import Fault, operator_fault
from stepmap_hil.live.signals import Signals
from stepmap_hil.runs.followed import Followed
from stepmap_hil.runs.listener import RunListener
from stepmap_hil.runs.log import STOPPED, Row, Run
from stepmap_hil.runs.pace import Pace
from stepmap_hil.wire.dialect import Message

if TYPE_CHECKING:
    from stepmap_hil.live import LivePage, RemotePage

ENDED = "ran to its end"
LINGER = 0.5  # s, so that the browser shows why a run failed
POINTS = 2000  # of a depth camera, at most


@runtime_checkable
class Depth(Protocol):
    """A sensor that sees points."""

    def points(self, most: int) -> Array: ...


class LiveRun(RunListener):
    """Shows a run; stops it and injects faults as the user of the page requests.

    ``paced``: a run in lock-step, which would be over before anybody has seen it, goes no faster than its own time.
    """

    injects_faults = True

    def __init__(self, page: LivePage | RemotePage, signals: Signals, *, paced: bool = False) -> None:
        self.page, self.signals = page, signals
        self._pace = Pace(signals.controller.program.period) if paced else None
        self._camera: Depth | None = None
        self._points: Array | None = None
        page.offer(False)

    def on_start(self, sensor: object) -> None:
        if isinstance(sensor, Depth):
            self._camera = sensor
            self.page.offer_points()

    def on_progress(self, text: str) -> None:
        self.page.wait(text)

    def on_tick(self, row: Row, message: Message) -> None:
        if self._camera is not None and self.page.wants_points:
            self._points = self._camera.points(POINTS).astype(np.float32) if row.valid else None
        self.page.update(replace(self.signals.frame(row), points=self._points))
        if self._pace is not None:
            self._pace.keep()

    def on_followed(self, told: Followed) -> None:
        self.signals.followed = {told.tick: told}

    def on_event(self, at: float, text: str) -> None:
        running = text == "running"  # is said before its first tick
        self.page.note(text, 0.0 if running else self.signals.since_begin(at))
        if running:
            self.page.injected()  # requests from before the run do not count
            self.page.offer(True)

    def stop_requested(self) -> bool:
        return self.page.stop_requested

    def requested_faults(self) -> Sequence[Fault]:
        return [operator_fault(name) for name in self.page.injected()]

    def on_end(self, run: Run) -> None:
        self.page.finish(*outcome(run))

    def on_saved(self, folder: Path) -> None:
        self.page.saved(folder.resolve())


def outcome(run: Run) -> tuple[str, str]:
    """State and reason in which a run ended."""
    state, _, reason = (run.ended or "done").partition(": ")
    return ("stopped", "by the user") if run.ended == STOPPED else (state, reason if run.ended else ENDED)


def given(controller: Controller, signals: Signals, around: Array, planned: float) -> dict[str, Any]:
    """What a page of a run has besides its title and system."""
    step = controller.plant.step
    plan = step.layout.pose(controller.schedule.values()[:, : step.nx])
    return {"reference": plan, "charts": signals.charts(), "around": around, "planned": planned}


@contextmanager
def live(title: str, setup: Setup, faults: Sequence[str] = (), *, clock: bool = True) -> Iterator[LiveRun]:
    """A page on localhost while the block runs; ``faults`` are names of `faults.OPERATOR_FAULTS`.

    Before it closes, a user at a terminal may look at the run again.
    """
    from stepmap_hil.live import RemotePage

    controller = setup.controller
    signals = Signals(controller, setup.settings.angles, clock=clock, hurries=clock)
    planned = setup.planned * controller.program.period
    more = given(controller, signals, setup.start_pose()[None], planned)
    with RemotePage(title, source_of(setup.job), faults=tuple(faults), **more) as page:
        print(f"live page: {page.url}", file=sys.stderr, flush=True)
        if interactive():
            print("open it to begin; Enter begins without it", file=sys.stderr)
            wait_for(page.opened)
        try:
            yield LiveRun(page, signals, paced=not clock)
        except BaseException as error:
            page.finish("ended early", str(error))
            time.sleep(LINGER)
            raise
        if interactive():
            print("the page shows the run again; Ctrl-C or Enter closes it", file=sys.stderr)
            with suppress(KeyboardInterrupt):
                sys.stdin.readline()


def interactive() -> bool:
    """Whether a user is at a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def wait_for(opened: threading.Event) -> None:
    """Until a browser has opened the page, or the user has pressed Enter."""
    if not hasattr(signal, "SIGHUP"):  # on Windows a terminal cannot be selected
        return
    while not opened.wait(0.1):
        if select.select([sys.stdin], [], [], 0.0)[0]:
            sys.stdin.readline()
            return
