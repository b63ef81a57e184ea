"""The run log: what happened tick by tick, kept in memory, recorded, and passed to the run listener."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.jobs import Job
from stepmap.steps.protocol import Event
from stepmap_codegen import Controller
from stepmap_hil.faults.spec import FaultVerdict
from stepmap_hil.plant.mechanism import WalkedStep
from stepmap_hil.runs.acts import WORD, Begins
from stepmap_hil.runs.followed import Followed, references
from stepmap_hil.runs.foxglove import SceneWriter
from stepmap_hil.runs.listener import RunListener
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.sensors.measurement import Measurement
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.session import Sent

STOPPED = "stopped by the user"
MODES = ("lockstep", "realtime")
MOST_SEED = 2**53 - 1  # numbers of JSON are exact up to there


@dataclass
class Row:
    """One tick of a run, as it is recorded in /tick."""

    time: float
    tick: int
    state: int
    reason: int
    running: bool
    measured: bool
    valid: int  # bit per channel
    taken: int  # bit per channel that the filter accepted
    z: list[float]
    words: list[int]  # raw values of z, as they were sent
    estimate: list[int]  # raw values
    command: list[int]
    coordinates: list[float]
    truth: list[float]
    latency_ms: float  # from the frame to the command; 0 where nothing was measured
    jitter_ms: float  # by which the frame was late
    saturations: int
    gated: int
    faults: int
    sequence: int
    stamp_us: int
    modes: list[int] = field(default_factory=list)  # raw values, of a controller with gaps


@dataclass(frozen=True)
class Stop:
    """How a board ended a run."""

    state: str
    reason: str  # a name of `reasons.Reason`, in lower case
    time: float  # when that was noticed, as in rows


@dataclass
class Run:
    """What happened in a run."""

    job: str
    board: str
    mode: str
    plant: str = "simulated"
    rows: list[Row] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    gaps: list[Event] = field(default_factory=list)  # of the plant: opened and closed
    walked: list[WalkedStep] = field(default_factory=list)  # of a robot that walks
    results: list[FaultVerdict] = field(default_factory=list)
    misses: int = 0
    ended: str = ""
    stop: Stop | None = None  # how the board ended it
    suspects: list[str] = field(default_factory=list)  # what may be behind that, most likely first
    broken: bool = False  # it ended because the bench itself could not go on
    board_id: str = ""  # in hexadecimal digits
    took_upload: bool = True  # the schedule was uploaded, and is not that of the image
    set_points: dict[int, list[int]] = field(default_factory=dict)  # sent, raw values by sequence
    followed: dict[int, Followed] = field(default_factory=dict)  # by tick

    @property
    def lockstep(self) -> bool:
        """Whether time passed with messages; else it was the computer's."""
        return self.mode == "lockstep"

    def digest(self) -> str:
        """A hash of all that does not depend on the computer's clock: the same for one seed on every board."""
        total = hashlib.sha256()
        for row in self.rows:
            content = asdict(row)
            for name in ("latency_ms", "jitter_ms"):
                del content[name]
            if not row.modes:
                del content["modes"]
            total.update(json.dumps(content).encode())
        for told in self.followed.values():
            total.update(json.dumps(asdict(told)).encode())
        for event in self.gaps:
            total.update(json.dumps(event).encode())
        for step in self.walked:
            total.update(json.dumps(step).encode())
        rest = [self.events, [result.document() for result in self.results], self.ended]
        total.update(json.dumps(rest).encode())
        return total.hexdigest()


Watch = Callable[[Row], bool]  # after each tick; False ends the run


def reference(controller: Controller, rows: Sequence[Row], followed: Mapping[int, Followed] | None = None) -> Array:
    """Reference states of the ticks of a run; ``followed`` are the set-points that came meanwhile."""
    nx = controller.plant.step.nx
    states: Array = references(controller, rows, followed or {}).reshape(len(rows), -1)[:, :nx]
    return states


def errors(controller: Controller, coordinates: Array, goal: Array) -> Array:
    """Tracking error: RMS distance of the bodies from their reference positions [m], one value per tick."""
    system, pose = controller.plant.step.system, controller.plant.step.layout.pose
    bodies = [body.frame.index for body in system.bodies]
    if not len(coordinates):
        return np.zeros(0)
    apart = system.positions(pose(coordinates))[:, bodies] - system.positions(pose(goal))[:, bodies]
    far: Array = np.sqrt(np.mean(np.sum(apart**2, axis=-1), axis=-1))
    return far


@dataclass
class RunLog:
    """Logs a run: adds to its rows and events, records them, and calls its listener."""

    job: Job
    codec: SignalCodec
    run: Run
    recorder: Recorder | None
    listener: RunListener
    scene: SceneWriter | None = None  # what viewers draw, beside what this package reads
    acts: Begins | None = None  # of a play

    def tick(self, time: float, message: Message, seen: Measurement, *, running: bool, measured: bool) -> Row:
        """Logs a tick and the measurement it followed; one not ``measured`` is a sample of the plant at the tick."""
        nx, nu = len(self.codec.fields["estimate"]), len(self.codec.fields.get("command", []))
        row = Row(
            time=time,
            tick=message.tick,
            state=message.state,
            reason=message.reason,
            running=running,
            measured=measured,
            valid=seen.valid,
            taken=message.taken,
            z=[float(v) for v in seen.z],
            words=list(seen.raw),
            estimate=list(message.estimate[:nx]),
            command=list(message.command[:nu]),
            coordinates=[float(v) for v in seen.coordinates],
            truth=[float(v) for v in seen.truth],
            latency_ms=seen.latency_ms,
            jitter_ms=seen.jitter_ms,
            saturations=message.saturations,
            gated=message.gated,
            faults=message.faults,
            sequence=message.sequence,
            stamp_us=message.stamp_us if self.run.lockstep else 0,
            modes=list(message.modes[: len(self.codec.fields.get("mode", []))]),
        )
        self._modes(row)
        for name in () if self.acts is None else self.acts.passed(row):
            self.event(time, f"{WORD}{name}")
        self.run.rows.append(row)
        self.listener.on_tick(row, message)
        if self.recorder is not None:
            self.recorder.write("/tick", time, **vars(row))
            estimate = self.codec.decode("estimate", row.estimate)
            self.recorder.write("/estimate", time, **_named(self.codec.names("estimate"), estimate))
            if self.run.plant == "simulated":
                names = [c.name for c in self.job.system.coordinates]
                self.recorder.write("/plant", time, **_named(names, seen.coordinates))
            if self.scene is not None:
                self.scene.tick(row, estimate, self.codec.decode("command", row.command), seen.time)
        return row

    def watch(self, sensor: object, rate: float) -> None:
        """Records what a depth camera sees, so many times per second."""
        if self.scene is not None:
            self.scene.watch(sensor, rate)

    def followed(self, time: float, message: Message) -> None:
        """Logs what a board said of set-points in a tick."""
        count = len(self.codec.fields.get("set_point", []))
        told = Followed(
            message.tick, message.sequence, message.state, list(message.value[:count]), list(message.next[:count])
        )
        self.run.followed[told.tick] = told
        self.listener.on_followed(told)
        if self.recorder is not None:
            self.recorder.write("/set_point", time, **vars(told))

    def event(self, time: float, text: str) -> None:
        self.run.events.append((time, text))
        self.listener.on_event(time, text)
        if self.recorder is not None:
            self.recorder.write("/event", time, at=time, text=text)
            if self.scene is not None:
                self.scene.log(time, text)

    def _modes(self, row: Row) -> None:
        """Records which gaps the board's filter takes for closed, and logs where it changes its mind."""
        last = self.run.rows[-1].modes if self.run.rows else []
        now, before = self.codec.closed(row.modes), self.codec.closed(last)
        for name, closed in now.items():
            if closed != before.get(name, True):
                self.event(row.time, f"the filter takes {name} for {'closed' if closed else 'open'}")
        if self.recorder is not None and now:
            self.recorder.write("/mode", row.time, **now)

    def gap(self, event: Event) -> None:
        """Logs that a string or a contact of the plant has opened or closed."""
        self.run.gaps.append(event)
        lost = f" with {event.impulse:.3g} N s, {event.energy:.3g} J lost"
        self.event(event.time, f"{event.name} {'opens' if event.kind == 'release' else f'closes{lost}'}")
        if self.recorder is not None:
            self.recorder.write("/gap", event.time, **event._asdict())

    def step(self, step: WalkedStep) -> None:
        """Logs a step that the robot has made."""
        self.run.walked.append(step)
        if self.recorder is not None:
            self.recorder.write("/step", step.time, **step._asdict())

    def sent(self, time: float, sent: Sent) -> None:
        """Records a message to the board, so that it can be sent again (``stepmap replay``)."""
        if sent.kind == "set_point":
            self.run.set_points[sent.sequence] = list(sent.words)
        if self.recorder is not None:
            self.recorder.write("/sent", time, **{**vars(sent), "words": list(sent.words)})


def _named(names: Sequence[str], values: Array) -> dict[str, Any]:
    return {name: float(value) for name, value in zip(names, values, strict=True)}
