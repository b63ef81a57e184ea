"""Makes faults happen during a run, and judges how the robot took them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from stepmap.arrays import Array
from stepmap_hil import dialect
from stepmap_hil.faults import LINE, UPLOADS, Fault, Result, require_known
from stepmap_hil.faulty_port import FaultyPort, Rule
from stepmap_hil.plant import Plant
from stepmap_hil.reasons import Reason
from stepmap_hil.sensors import Seen

if TYPE_CHECKING:
    from stepmap_hil.logbook import Row

STANDS = 0.002  # m, a motor that stands moves no farther
PATIENCE = {"stuck": np.inf}  # s until a fault shows, at most; a motor that is not to move may be blocked unnoticed
USUAL_PATIENCE = 1.0
TOO_EARLY = "too early to tell"
MOVING = tuple(dialect.value(f"STEPMAP_STATE_{name}") for name in ("RUNNING", "HOLDING"))


@dataclass
class Injector:
    """The faults of a run; ``begin`` is called at the start of every tick with the time since the command to run.

    ``asked`` gives faults by hand, which begin at once.
    """

    given: Sequence[Fault]
    channels: Sequence[str]
    axes: int
    port: FaultyPort
    seed: int = 1
    asked: Callable[[], Sequence[Fault]] = tuple
    faults: list[Fault] = field(init=False, default_factory=list)
    left: dict[int, float] = field(init=False, default_factory=dict)
    active: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        for fault in self.given:
            self.add(fault)

    def add(self, fault: Fault) -> None:
        """One more; at any time of the run."""
        require_known([fault], self.channels, self.axes)
        k = len(self.faults)
        self.faults.append(fault)
        self.left[k] = fault.count
        if fault.kind in (*LINE, "cut"):
            self._rules[k] = Rule(fault, np.random.default_rng([self.seed, k]))

    def begin(self, time: float, plant: Plant) -> list[Fault]:
        """Faults that begin now."""
        for fault in self.asked():
            self.add(replace(fault, at=time))
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
        begun = [self.faults[k] for k in self.active if k not in before]
        for k in self.active:
            if self.faults[k].kind == "reset":
                self.left[k] = 0
        return begun

    @property
    def cuts(self) -> bool:
        """Whether the link is, was or will be cut."""
        return any(fault.kind == "cut" for fault in self.faults)

    def mend(self) -> None:
        """Lets all frames pass again."""
        self.port.rules = []

    def see(self, seen: Seen) -> Seen:
        """What is left of a measurement."""
        z, valid = seen.z.copy(), seen.valid
        for k in self._taking("jump", "occluded"):
            fault = self.faults[k]
            for i, name in enumerate(self.channels):
                if fault.channels and name not in fault.channels:
                    continue
                if fault.kind == "jump":
                    z[i] += fault.amount
                else:
                    valid &= ~(1 << i)
        return Seen(z, valid)

    def delay(self) -> float:
        """Seconds this tick's measurement is late."""
        return sum(self.faults[k].amount for k in self._taking("delayed"))

    def count(self, counts: list[int], forces: int) -> list[int]:
        """What encoders say; motors come behind the axes with forces."""
        made = list(counts)
        for k in self.active:
            fault = self.faults[k]
            if fault.kind == "encoder":
                made[forces + fault.axis] += round(fault.amount)
        return made

    def _taking(self, *kinds: str) -> list[int]:
        found = [k for k in self.active if self.faults[k].kind in kinds and self.left[k] > 0]
        for k in found:
            self.left[k] -= 1
        return found


@dataclass(frozen=True)
class Course:
    """What is known about a run when its faults are judged; times are since the command to run."""

    time: Array
    rows: Sequence[Row]
    error: Array  # m, of tracking
    clock: Array
    robot: Array  # positions of the motors at times of ``clock``
    period: float
    ended: tuple[str, str] | None  # state and reason in which the board ended the run; None where it went on
    end: float  # when that was noticed


def judge(faults: Sequence[Fault], course: Course) -> list[Result]:
    """How the robot took each fault of the run."""
    judged = sorted((fault for fault in faults if fault.kind not in UPLOADS), key=lambda fault: fault.at)
    results = []
    for k, fault in enumerate(judged):
        later = [f.at for f in judged[k + 1 :] if f.at > fault.at + 1e-9]
        result = _judge(fault, course, later[0] if later else np.inf)
        if fault.by_hand and not result.ok and not _shows(k, judged, course):
            result = replace(result, seen=f"{result.seen}: {TOO_EARLY}", ok=True)
        results.append(result)
    return results


def _shows(k: int, faults: Sequence[Fault], course: Course) -> bool:
    """Whether the run went on long enough to show what came of a fault, and with no other in the way.

    Nobody plans the faults that are made by hand: they come on top of each other, and just before the end.
    """
    spans = [(fault.at, fault.at + _patience(fault)) for fault in faults]
    begin, end = spans[k]
    crowded = any(a <= end and begin <= b for i, (a, b) in enumerate(spans) if i != k)
    over = course.end if course.ended is not None else max(course.time, default=0.0)
    return not crowded and begin <= over and (course.ended is not None or end <= over)


def _patience(fault: Fault) -> float:
    lasts = fault.seconds if np.isfinite(fault.seconds) else 0.0
    return float(max(lasts, PATIENCE.get(fault.kind, USUAL_PATIENCE)))


def _judge(fault: Fault, course: Course, until: float) -> Result:
    wanted = fault.expect
    inside = (course.time >= fault.at - 1e-9) & (course.time < until - 1e-9)
    rows = [row for row, here in zip(course.rows, inside, strict=True) if here]
    state, reason = (_state(rows[-1].state), _reason(rows[-1].reason)) if rows else ("not reached", "")
    if course.ended is not None and fault.at <= course.end < until:
        state, reason = course.ended
    seen, ok = [state, reason], state == wanted.state and wanted.reason in (None, reason)
    if wanted.within is not None:
        left = [row.state not in MOVING for row in course.rows]
        reached = course.time[inside & np.array(left, dtype=bool)]
        first = min([*reached, *([course.end] if course.end < until else [])], default=np.inf)
        after = float(first) - fault.at
        seen.append(f"after {after:.3f} s")
        ok = ok and after <= wanted.within + course.period  # telemetry comes once a period
    if wanted.rest is not None:
        resting = course.robot[(course.clock >= fault.at + wanted.rest - 1e-9) & (course.clock < until - 1e-9)]
        moved = float(np.ptp(resting, axis=0).max(initial=0.0)) if len(resting) else np.inf
        seen.append(f"then moved {1e3 * moved:.2f} mm")
        ok = ok and moved <= STANDS
    if wanted.tracking is not None:
        error = float(course.error[inside].max(initial=0.0))
        seen.append(f"tracking {error:.4f} m")
        ok = ok and bool(rows) and error <= wanted.tracking
    told = ", ".join(part for part in seen if part)
    return Result(fault.kind, fault.at, str(wanted), told, ok, fault.by_hand)


def _state(number: int) -> str:
    return dialect.word("STEPMAP_STATE", number)


def _reason(number: int) -> str:
    try:
        return Reason(number).name.lower()
    except ValueError:
        return str(number)
