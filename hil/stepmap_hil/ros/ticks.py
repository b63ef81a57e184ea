"""What ROS 2 is told of a run, tick by tick: numbers in SI units, as plain data that another process can have."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap_codegen import Controller
from stepmap_hil.runs.followed import Followed, references
from stepmap_hil.runs.log import Row
from stepmap_hil.wire import dialect
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.reasons import explain

BAD = ("fault", "stopped", "error")  # words in events that are warnings, as in the log of recordings


@dataclass(frozen=True)
class Signals:
    """Names of what a job's controller knows, and the ROS namespace they are published in."""

    namespace: str
    coordinates: tuple[str, ...]
    states: tuple[str, ...]
    forces: tuple[str, ...]
    moved: tuple[str, ...]  # kinematic coordinates, which a command gives positions
    channels: tuple[str, ...]
    simulated: bool  # whether the plant is known


@dataclass(frozen=True)
class Tick:
    """One tick; a reading that was not seen is NaN."""

    stamp: int  # ns since 1970
    tick: int
    state: str
    reason: str
    plant: tuple[float, ...]  # empty on a real robot
    estimate: tuple[float, ...]  # x
    reference: tuple[float, ...]  # x
    command: tuple[float, ...]
    measured: tuple[float, ...]  # empty where nothing was
    counts: tuple[int, int, int, int]  # saturations, gated, faults, what the bridge has dropped


@dataclass(frozen=True)
class Event:
    """Something that happened, in words."""

    stamp: int
    text: str

    @property
    def bad(self) -> bool:
        return any(word in self.text for word in BAD)


def namespace(job: str) -> str:
    """The namespace of a job's topics: letters, digits and single underscores, no digit in front."""
    made = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", job)).strip("_")
    return f"/{made}" if made and not made[0].isdigit() else f"/job_{made}".rstrip("_")


def signals(controller: Controller, job: str, *, simulated: bool) -> Signals:
    """The names of a controller's signals."""
    step = controller.plant.step
    system = step.system
    return Signals(
        namespace=namespace(job),
        coordinates=tuple(c.name for c in system.coordinates),
        states=tuple(step.state_names),
        forces=tuple(i.name for i in system.inputs),
        moved=tuple(c.name for c in system.kinematic),
        channels=tuple(name for name, _ in system.sensor_channels),
        simulated=simulated,
    )


class TickReader:
    """Makes ticks of the rows of a run."""

    def __init__(self, controller: Controller, *, simulated: bool) -> None:
        self.controller, self.simulated = controller, simulated
        self.codec = SignalCodec.parse(controller.description())
        self._nx = controller.plant.step.nx
        self._plan = controller.schedule.values()[:, : self._nx]
        self._count = len(controller.plant.step.system.coordinates)
        self.followed: dict[int, Followed] = {}  # by tick, where set-points are followed

    def tick(self, row: Row, stamp: int, dropped: int = 0) -> Tick:
        """The tick of a row, stamped in nanoseconds since 1970."""
        seen = ((np.array([row.valid]) >> np.arange(len(row.z))) & 1).astype(bool) if row.measured else None
        state = dialect.word("STEPMAP_STATE", row.state)
        return Tick(
            stamp=stamp,
            tick=row.tick,
            state=state,
            reason="" if state == "running" else explain(row.reason),
            plant=tuple(row.coordinates[: self._count]) if self.simulated else (),
            estimate=tuple(self.codec.decode("estimate", row.estimate).tolist()),
            reference=tuple(self._goal(row).tolist()),
            command=tuple(self.codec.decode("command", row.command).tolist()),
            measured=() if seen is None else tuple(np.where(seen, row.z, np.nan).tolist()),
            counts=(row.saturations, row.gated, row.faults, dropped),
        )

    def _goal(self, row: Row) -> Array:
        """The reference state of a tick: of the set-points that were followed, or of the plan."""
        if row.tick in self.followed:
            followed: Array = references(self.controller, [row], self.followed)[0, : self._nx]
            return followed
        chosen = self.codec.row_of(row.modes)
        planned: Array = self._plan[min(row.tick if chosen is None else chosen, len(self._plan) - 1)]
        return planned
