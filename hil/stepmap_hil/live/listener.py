"""The run listener of the live page: shows each tick, and passes its buttons to the run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from stepmap.arrays import Array
from stepmap.estimate.measurement import measurement_model
from stepmap.jobs.system import source_of
from stepmap.mechanics.system import System
from stepmap.units import small
from stepmap_codegen import Controller
from stepmap_hil.bench.setup import Setup
from stepmap_hil.faults.spec import Fault, operator_fault
from stepmap_hil.report.off import apart, groups, label
from stepmap_hil.runs.followed import Followed
from stepmap_hil.runs.listener import RunListener
from stepmap_hil.runs.log import STOPPED, Row, Run, reference
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.reasons import explain

if TYPE_CHECKING:
    from stepmap_hil.live import Chart, LivePage, RemotePage

LINGER = 0.5  # s, so that the browser shows why a run failed
POINTS = 2000  # of a depth camera, at most


@runtime_checkable
class Depth(Protocol):
    """A sensor that sees points."""

    def points(self, most: int) -> Array: ...


class LiveRun(RunListener):
    """Shows a run; stops it and injects faults as the user of the page requests."""

    injects_faults = True

    def __init__(self, page: LivePage | RemotePage, controller: Controller, angles: str = "rad") -> None:
        self.page, self.controller, self.angles = page, controller, angles
        self.codec = SignalCodec.parse(controller.description())
        self._step = controller.plant.step
        self.channels = [(name, small(unit, angles).factor) for name, unit in self._step.system.sensor_channels]
        self._sensors = measurement_model(self._step)
        self._plan = controller.schedule.values()[:, : self._step.nx]
        self._camera: Depth | None = None
        self._points: Array | None = None
        self._followed: dict[int, Followed] = {}  # the last one
        page.offer(False)

    def on_start(self, sensor: object) -> None:
        self._camera = sensor if isinstance(sensor, Depth) else None

    def on_progress(self, text: str) -> None:
        self.page.wait(text)

    def on_tick(self, row: Row, message: Message) -> None:
        from stepmap_hil.live import LiveFrame

        pose = self._step.layout.pose
        estimate, goal = self.codec.decode("estimate", row.estimate), self._goal(row)
        truth = np.array(row.coordinates)
        numbers = self._errors(truth, goal, estimate)
        if row.measured:
            numbers |= self._innovation(row, message, estimate)
            if row.latency_ms > 0:  # in lock-step nothing waits for the clock
                numbers |= {"latency": row.latency_ms, "late": row.jitter_ms}
        if self._camera is not None and self.page.wants_points:
            self._points = self._camera.points(POINTS).astype(np.float32) if row.valid else None
        state = dialect.word("STEPMAP_STATE", row.state)
        self.page.update(
            LiveFrame(row.time, truth, pose(estimate), pose(goal), numbers, state, explain(row.reason), self._points)
        )

    def on_followed(self, told: Followed) -> None:
        self._followed = {told.tick: told}

    def _goal(self, row: Row) -> Array:
        """The reference state of a tick."""
        planned: Array = self._plan[min(row.tick, len(self._plan) - 1)]
        if row.tick not in self._followed:
            return planned
        streamed: Array = reference(self.controller, [row], self._followed)[0]
        return streamed

    def _errors(self, truth: Array, goal: Array, estimate: Array) -> dict[str, float]:
        """Of the plant from the reference, and of the estimate from the plant, each unit apart."""
        system, found = self._step.system, {}
        for kind, one, other in (("tracking", truth, goal), ("estimate", estimate, truth)):
            for unit, value in apart(system, one, other).items():
                found[line(system, kind, unit)] = small(unit, self.angles).factor * value
        return found

    def _innovation(self, row: Row, message: Message, estimate: Array) -> dict[str, float]:
        """Measured minus expected, of each channel that was seen; minus the estimate where the board did not use it."""
        expected = self._sensors.readings(estimate)
        made = np.array(row.z) - np.asarray(expected, dtype=float)
        used = [bool(row.taken >> k & 1) for k in range(len(made))]
        made = np.where(used, self.codec.decode("innovation", message.innovation), made)
        return {name: factor * float(made[k]) for k, (name, factor) in enumerate(self.channels) if row.valid >> k & 1}

    def on_event(self, at: float, text: str) -> None:
        self.page.note(text, at)
        if text == "running":
            self.page.injected()  # requests from before the run do not count
            self.page.offer(True)

    def stop_requested(self) -> bool:
        return self.page.stop_requested

    def requested_faults(self) -> Sequence[Fault]:
        return [operator_fault(name) for name in self.page.injected()]

    def on_end(self, run: Run) -> None:
        state, _, reason = (run.ended or "done").partition(": ")
        self.page.finish(*(("stopped", "by the user") if run.ended == STOPPED else (state, reason)))


def line(system: System, kind: str, unit: str) -> str:
    """Name of a curve, with the coordinates it is of where there are several units."""
    return kind if len(groups(system)) == 1 else f"{label(system, unit)} {kind}"


def charts(controller: Controller, *, clock: bool = True, angles: str = "rad") -> list[Chart]:
    """Tracking error of each unit, innovation of each channel, and timing where a clock is kept."""
    from stepmap_hil.live import Chart

    system = controller.plant.step.system
    found = []
    for unit in groups(system):
        title = "tracking error" if len(groups(system)) == 1 else f"error of {label(system, unit)}"
        lines = tuple(line(system, kind, unit) for kind in ("tracking", "estimate"))
        found.append(Chart(title, small(unit, angles).symbol or "1", lines))
    grouped: dict[str, list[str]] = {}
    for name, of in system.sensor_channels:
        grouped.setdefault(small(of, angles).symbol or "1", []).append(name)
    return [
        *found,
        *(Chart("innovation", of, tuple(names)) for of, names in grouped.items()),
        *([Chart("timing", "ms", ("latency", "late"))] if clock else []),
    ]


@contextmanager
def live(title: str, setup: Setup, faults: Sequence[str] = (), *, clock: bool = True) -> Iterator[LiveRun]:
    """A page on localhost while the block runs; ``faults`` are names of `faults.OPERATOR_FAULTS`.

    Before it closes, a user at a terminal may look at it.
    """
    from stepmap_hil.live import RemotePage

    controller, angles = setup.controller, setup.settings.angles
    step = controller.plant.step
    plan = step.layout.pose(controller.schedule.values()[:, : step.nx])
    system, shown = source_of(setup.job), charts(controller, clock=clock, angles=angles)
    given = {"faults": tuple(faults), "reference": plan, "charts": shown, "around": setup.start_pose()[None]}
    with RemotePage(title, system, **given) as page:
        print(f"live page: {page.url}", file=sys.stderr, flush=True)
        try:
            yield LiveRun(page, controller, angles)
        except BaseException as error:
            page.finish("ended early", str(error))
            time.sleep(LINGER)
            raise
        if sys.stdin is not None and sys.stdin.isatty():
            print("press Enter to close the page", file=sys.stderr)
            sys.stdin.readline()
