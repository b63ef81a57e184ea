"""Injects faults during a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stepmap_hil.faults.port import FaultyPort, Rule
from stepmap_hil.faults.spec import ALARMS, LINE, UPLOADS, Fault, require_known
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.sensors.measurement import Measurement
from stepmap_hil.wire import dialect

SEEN = ("jump", "occluded", "delayed")
"""Happen to measurements."""


@dataclass
class Injector:
    """The faults of a run; ``begin`` is called at the start of every tick with the time since the command to run.

    ``asked`` gives faults that the operator injects; they begin at once.
    """

    given: Sequence[Fault]
    channels: Sequence[str]
    axes: int
    port: FaultyPort
    seed: int = 1
    asked: Callable[[], Sequence[Fault]] = tuple
    gaps: Sequence[str] = ()  # of the plant
    faults: list[Fault] = field(init=False, default_factory=list)
    left: dict[int, float] = field(init=False, default_factory=dict)
    hits: dict[int, int] = field(init=False, default_factory=dict)
    active: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        self._seen: dict[int, int] = {}  # hits when last looked at
        self._until: dict[int, float] = {}  # time of the last hit
        for fault in self.given:
            self.add(fault)

    def add(self, fault: Fault) -> None:
        """Adds a fault, at any time of the run."""
        require_known([fault], self.channels, self.axes, self.gaps)
        k = len(self.faults)
        self.faults.append(fault)
        self.left[k] = fault.count
        self.hits[k] = 0
        if fault.kind in (*LINE, "cut"):
            self._rules[k] = Rule(fault, np.random.default_rng([self.seed, k]))

    def begin(self, time: float, plant: Plant) -> list[Fault]:
        """Faults that begin now."""
        for fault in self.asked():
            self.add(replace(fault, at=time))
        self._note(time)
        before = self.active
        self.active = [
            k
            for k, fault in enumerate(self.faults)
            if fault.lasts(time) and self.left[k] > 0 and fault.kind not in UPLOADS
        ]
        self.port.rules = [self._rules[k] for k in self.active if k in self._rules]
        stuck = {self.faults[k].axis for k in self.active if self.faults[k].kind == "stuck"}
        for axis, motor in enumerate(plant.motors):
            motor.stuck = axis in stuck
        for fault in (self.faults[k] for k in self._taking("blow")):
            plant.strike(fault.amount)
        begun = [self.faults[k] for k in self.active if k not in before]
        for k in self.active:
            self.hits[k] += self.faults[k].kind not in (*SEEN, "blow")
            if self.faults[k].kind == "reset":
                self.left[k] = 0
        return begun

    @property
    def happened(self) -> list[bool]:
        """Per fault, whether it had an effect: frames it is about have passed, or it has begun."""
        return [self._hits(k) > 0 for k in range(len(self.faults))]

    def acted(self) -> list[Fault]:
        """The faults that have happened, each with the seconds from its begin to the last time it did anything."""
        return [
            replace(fault, seconds=max(self._until.get(k, fault.at) - fault.at, 0.0))
            for k, fault in enumerate(self.faults)
            if self._hits(k)
        ]

    def _hits(self, k: int) -> int:
        return self._rules[k].hits if k in self._rules else self.hits[k]

    def _note(self, time: float) -> None:
        """Keeps for which faults there was something to do since the last tick."""
        for k in range(len(self.faults)):
            if self._hits(k) > self._seen.get(k, 0):
                self._seen[k], self._until[k] = self._hits(k), time

    @property
    def cut(self) -> bool:
        """Whether the link is cut now."""
        return any(self.faults[k].kind == "cut" for k in self.active)

    @property
    def cuts(self) -> bool:
        """Whether the link is, was or will be cut."""
        return any(fault.kind == "cut" for fault in self.faults)

    def clear(self) -> None:
        """Ends all faults of the line: frames pass again."""
        self.port.rules = []

    def apply(self, measurement: Measurement) -> Measurement:
        """What is left of a measurement, and when it is due."""
        z, valid = measurement.z.copy(), measurement.valid
        for k in self._taking(*SEEN[:2]):
            fault = self.faults[k]
            for i, name in enumerate(self.channels):
                if fault.channels and name not in fault.channels:
                    continue
                if fault.kind == "jump":
                    z[i] += fault.amount
                else:
                    valid &= ~(1 << i)
        late = sum(self.faults[k].amount for k in self._taking("delayed"))
        return replace(measurement, z=z, valid=valid, due=measurement.due + late)

    def count(self, counts: list[int], encoders: Sequence[int]) -> list[int]:
        """Encoder counts with injected jumps; ``encoders`` are those of the motors, by their numbers."""
        made = list(counts)
        for k in self.active:
            fault = self.faults[k]
            if fault.kind == "encoder":
                made[encoders[fault.axis]] += round(fault.amount)
        return made

    def alarms(self, encoders: Sequence[int]) -> int:
        """What the simulated hardware tells by itself, bits of STEPMAP_ALARM."""
        told = 0
        for k in self.active:
            kind, axis = self.faults[k].kind, self.faults[k].axis
            if kind in ALARMS:
                bit = dialect.value(f"STEPMAP_ALARM_{ALARMS[kind]}")
                told |= bit << encoders[axis] if kind == "lost_edges" else bit
        return told

    def _taking(self, *kinds: str) -> list[int]:
        found = [k for k in self.active if self.faults[k].kind in kinds and self.left[k] > 0]
        for k in found:
            self.left[k] -= 1
            self.hits[k] += 1
        return found
