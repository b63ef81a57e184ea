"""With what a job is run: firmware, board, plant, sensor, faults."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from typing import Any

import numpy as np

import stepmap
from stepmap.arrays import Array
from stepmap.jobs import Job
from stepmap.steps.protocol import Trajectory
from stepmap_codegen import Controller
from stepmap_hil.bench.clock import CLOCKS, Clock
from stepmap_hil.bench.settings import BenchSettings
from stepmap_hil.boards import SerialBoard, without_hardware
from stepmap_hil.boards.base import Board
from stepmap_hil.faults.injector import Injector
from stepmap_hil.faults.spec import Fault
from stepmap_hil.firmware.build import Firmware
from stepmap_hil.firmware.flash import Flashed
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.rig.file import RigFile, Workspace
from stepmap_hil.runs.acts import Acts, named
from stepmap_hil.runs.diagnosis import Circumstances
from stepmap_hil.runs.mcap import name_of
from stepmap_hil.sensors import base as sensors
from stepmap_hil.sensors import own_encoders
from stepmap_hil.sensors.base import Sensor
from stepmap_hil.sensors.frame_delay import FrameDelay
from stepmap_hil.setpoints.base import Reference
from stepmap_hil.wire.key import Key
from stepmap_hil.wire.link import Link


@dataclass(frozen=True)
class Source:
    """What a controller is designed from; a recording holds it, so that it can be evaluated alone."""

    job: bytes  # the job file
    files: dict[str, bytes]
    trajectory: Trajectory
    gains: Array
    verdict: dict[str, Any] | None = None  # on the plan: whether it will work, as far as its numbers tell
    acts: tuple[float, ...] = ()  # of a play: when they begin [s]

    def attachments(self) -> dict[str, bytes]:
        packed = io.BytesIO()
        t = self.trajectory
        np.savez_compressed(packed, t=t.t, x=t.x, u=t.u, gains=self.gains)
        files = {f"files/{name}": content for name, content in self.files.items()}
        return {"job.toml": self.job, "solution.npz": packed.getvalue(), **files}


@dataclass(frozen=True)
class Setup:
    """With what a job is run; boards, sensors and frame delays are made from it, once per run."""

    job: Job
    controller: Controller
    firmware: Firmware
    settings: BenchSettings
    key: Key
    seed: int = 1
    port: str | None = None
    mode: str = "lockstep"
    faults: tuple[Fault, ...] = field(default=())
    ticks: int | None = None  # as many as the plan has where None
    rig: RigFile = field(default_factory=RigFile)
    flashed: Flashed | None = None
    reference: Reference | None = None  # of set-points that are streamed
    verdict: dict[str, Any] | None = None  # on the plan, before it was run
    acts: tuple[float, ...] = ()  # of a play: when they begin [s]

    def board(self) -> Board:
        if self.port is not None:
            return SerialBoard(self.port, baud=self.rig.baud)
        program = self.firmware.program if self.flashed is None else self.flashed.content
        return without_hardware(self.firmware.board, program)

    def clock(self) -> Clock:
        """Of one run on the bench."""
        return CLOCKS[self.mode]()

    def frame_delay(self) -> FrameDelay | None:
        """The model of late frames; None in real time, where frames are late by themselves."""
        if CLOCKS[self.mode].real_time or not self.settings.jitter > 0:
            return None
        period = self.controller.program.period
        return FrameDelay(self.settings.jitter, period / self.settings.io_cycles, period, self.seed)

    @property
    def latency(self) -> float:
        """By which all frames are late [s]."""
        return self.controller.sensor_delay if self.settings.latency is None else self.settings.latency

    @property
    def planned(self) -> int:
        """Ticks of a run that is not ended early."""
        if self.ticks is not None:
            return self.ticks
        gait = self.controller.plant.gait
        if gait is not None:  # that the plant ends where it has made its steps
            return self.settings.steps * (gait.steps + gait.beyond)
        more = 0.0 if self.reference is None else self.reference.seconds / self.controller.program.period
        return len(self.controller.schedule.rows) - 1 + ceil(more - 1e-9)

    @property
    def named_acts(self) -> Acts:
        """Acts of a play, and when they begin."""
        return named(self.job, self.acts)

    def circumstances(self, faults: Sequence[Fault] = ()) -> Circumstances:
        """What a diagnosis has to know; `faults` are those that happened, with those of the operator."""
        return Circumstances(
            mode=self.mode,
            plant=self.rig.plant,
            sensor=self.sensor_name,
            board=self.firmware.board,
            port=self.port is not None,
            believed_late=self.controller.sensor_delay,
            late=self.controller.sensor_delay if self.rig.real else self.latency,
            faults=faults,
            errors=self.settings.plant,
        )

    def about(self) -> dict[str, str]:
        """For the recording."""
        now = datetime.now(UTC)
        return {
            "job": name_of(self.job.name),
            "board": self.firmware.board,
            "model": self.controller.digest,
            "seed": str(self.seed),
            "sensor": self.sensor_name,
            "mode": self.mode,
            "plant": self.rig.plant,
            "stepmap": stepmap.__version__,
            "begun": now.isoformat(timespec="milliseconds"),
            "epoch_ns": str(round(now.timestamp() * 1e9)),
            **({"acts": json.dumps(self.acts)} if self.acts else {}),
        }

    def start_pose(self) -> Array:
        """q̄ where the plant begins, which may be away from the plan."""
        errors = self.settings.plant
        names = [c.name for c in self.job.system.coordinates]
        away = [0.0 if self.rig.real else errors.start.get(n, 0.0) + errors.offsets.get(n, 0.0) for n in names]
        start: Array = np.asarray(self.job.pose, dtype=float) + np.array(away)
        return start

    def workspace(self) -> Workspace:
        """Limits of a real robot."""
        coordinates = self.job.system.coordinates
        return Workspace(self.rig, [c.name for c in coordinates], [c.unit for c in coordinates])

    @property
    def sensor_name(self) -> str:
        """What measures: the sensor of [bench], that of a real robot, or the board's own encoders."""
        if self.controller.encoders:
            return own_encoders.NAME
        return self.rig.sensor if self.rig.real else self.settings.sensor

    def sensor(self) -> Sensor:
        if self.controller.encoders:
            return own_encoders.OwnEncoders()
        return sensors.make(self.settings.sensor, self.job, self.seed, self.rig)


@dataclass(frozen=True)
class Opened:
    """What is opened from a setup for one run on the bench."""

    link: Link
    plant: Plant
    sensor: Sensor
    board: Board | None = None  # None: it cannot be reset
    injector: Injector | None = None


@contextmanager
def watching(setup: Setup) -> Iterator[Sensor]:
    sensor = setup.sensor()
    try:
        yield sensor
    finally:
        sensor.close()
