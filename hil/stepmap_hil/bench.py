"""The bench: a board controls a simulated plant that a sensor watches, in lock-step with the board.

Every tick: the sensor looks, the measurement goes to the board, its command comes back, and the motors turn while
encoder counts and efforts go back and forth. Time is the bench's, so a run gives the same numbers on every machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.jobs import Job
from stepmap_codegen import Controller
from stepmap_hil import dialect
from stepmap_hil.dialect import Message
from stepmap_hil.link import Link
from stepmap_hil.plant import Plant
from stepmap_hil.record import Recorder
from stepmap_hil.sensors import Seen, Sensor
from stepmap_hil.session import Session
from stepmap_hil.words import Words

SUBSTEPS = 4
SETTLE = 10  # ticks at rest between arming and running


@dataclass
class Row:
    """One tick of a run."""

    time: float
    tick: int
    state: int
    reason: int
    running: bool
    valid: int
    taken: int
    z: list[float]
    words: list[int]
    estimate: list[int]
    command: list[int]
    coordinates: list[float]
    truth: list[float]
    latency_ms: float
    saturations: int
    gated: int
    faults: int


@dataclass
class Run:
    """What happened."""

    job: str
    board: str
    mode: str
    rows: list[Row] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    ended: str = ""


Watch = Callable[[Row], bool]  # after each tick; False ends the run


class Bench:
    """One board, one plant, one sensor."""

    def __init__(
        self,
        job: Job,
        controller: Controller,
        link: Link,
        plant: Plant,
        sensor: Sensor,
        *,
        board: str,
        substeps: int = SUBSTEPS,
        recorder: Recorder | None = None,
    ) -> None:
        self.job, self.controller, self.plant, self.sensor = job, controller, plant, sensor
        self.words = Words.parse(controller.description())
        self.session = Session(link, self.words)
        self.period = controller.program.period
        self.substeps, self.recorder = substeps, recorder
        self.run = Run(job.name, board, "lockstep")
        self.time = 0.0
        self._last: list[int] = [0] * len(self.words.fields["measurement"])

    def prepare(self) -> None:
        """Connects, calibrates and arms; the filter then settles at rest."""
        self.session.connect()
        self.session.calibrate(self._look, self._counts())
        self.session.arm()
        self.event("armed")
        for _ in range(SETTLE):
            self.tick(running=False)

    def _look(self) -> tuple[list[int], int]:
        seen = self.sensor.look(self.plant, self.time)
        return self.words.encode("measurement", seen.z), seen.valid

    def go(self, ticks: int, watch: Watch | None = None) -> Run:
        """Runs the schedule for some ticks, then stops."""
        self.session.run()
        self.event("running")
        for _ in range(ticks):
            row = self.tick(running=True)
            if watch is not None and not watch(row):
                self.run.ended = "stopped by the user"
                break
            if row.state == dialect.value("STEPMAP_STATE_FAULT"):
                self.run.ended = "fault"
                break
        self.session.stop()
        self.event("stopped")
        return self.run

    def tick(self, *, running: bool) -> Row:
        seen = self.sensor.look(self.plant, self.time)
        truth, coordinates = self.plant.readings(), self.plant.coordinates.copy()
        words = self.words.encode("measurement", seen.z)
        begun = time.perf_counter()
        heard = self.session.tick(words, seen.valid)
        latency = 1e3 * (time.perf_counter() - begun)
        for message in heard[:-1]:  # done without a measurement
            self._keep(message, Seen(seen.z, 0), self._last, truth, coordinates, running, 0.0)
        self._last = words
        row = self._keep(heard[-1], seen, words, truth, coordinates, running, latency)
        self._move()
        return row

    def _move(self) -> None:
        """Lets the motors turn for a period."""
        for _ in range(self.substeps):
            seconds = self.period / self.substeps
            self.session.pass_time(seconds)
            actuators = self.session.encoders(self._counts())
            self.plant.advance(actuators.effort, actuators.enabled, seconds)
            self.time += seconds

    def _counts(self) -> list[int]:
        return self.plant.counts[:2]

    def _keep(
        self,
        message: Message,
        seen: Seen,
        words: list[int],
        truth: Array,
        coordinates: Array,
        running: bool,
        latency: float,
    ) -> Row:
        nx, nu = len(self.words.fields["estimate"]), len(self.words.fields.get("command", []))
        row = Row(
            time=self.time,
            tick=message.tick,
            state=message.state,
            reason=message.reason,
            running=running,
            valid=seen.valid,
            taken=message.taken,
            z=[float(v) for v in seen.z],
            words=list(words),
            estimate=list(message.estimate[:nx]),
            command=list(message.command[:nu]),
            coordinates=[float(v) for v in coordinates],
            truth=[float(v) for v in truth],
            latency_ms=latency,
            saturations=message.saturations,
            gated=message.gated,
            faults=message.faults,
        )
        self.run.rows.append(row)
        if self.recorder is not None:
            self.recorder.write("/tick", self.time, **vars(row))
            self.recorder.write(
                "/estimate",
                self.time,
                **_named(self.words.names("estimate"), self.words.decode("estimate", row.estimate)),
            )
            self.recorder.write(
                "/plant", self.time, **_named([c.name for c in self.job.system.coordinates], coordinates)
            )
        return row

    def event(self, text: str) -> None:
        self.run.events.append((self.time, text))
        if self.recorder is not None:
            self.recorder.write("/event", self.time, text=text)


def _named(names: Sequence[str], values: Array) -> dict[str, Any]:
    return {name: float(value) for name, value in zip(names, values, strict=True)}


@dataclass(frozen=True)
class Paths:
    """Where a run leaves its files."""

    folder: Path

    @property
    def recording(self) -> Path:
        return self.folder / "run.mcap"


def reference(controller: Controller, rows: Sequence[Row]) -> Array:
    """Reference states of the ticks of a run."""
    values = controller.schedule.values()
    nx = controller.plant.step.nx
    return np.array([values[min(row.tick, len(values) - 1), :nx] for row in rows])
