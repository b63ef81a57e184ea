"""How the robot took what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepmap.arrays import Array
from stepmap_codegen import Controller
from stepmap_hil.faults.spec import UPLOADS, Fault, Result
from stepmap_hil.runs.log import Row, errors, reference
from stepmap_hil.wire import dialect
from stepmap_hil.wire.reasons import Reason

STANDS = 0.002  # m, a motor that stands moves no farther
PATIENCE = {"stuck": np.inf}  # s until a fault shows, at most; a motor that is not to move may be blocked unnoticed
USUAL_PATIENCE = 1.0
TOO_EARLY = "too early to tell"
NEVER = "did not happen: the run was over, or nothing passed that it could happen to"
MOVING = tuple(dialect.value(f"STEPMAP_STATE_{name}") for name in ("RUNNING", "HOLDING"))


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

    @classmethod
    def of(
        cls,
        controller: Controller,
        rows: Sequence[Row],
        started: float,
        path: Sequence[tuple[float, Array]],
        ended: tuple[str, str] | None,
        end: float,
    ) -> Course:
        """What rows show since the run was ``started``; ``path`` has times and positions of the motors."""
        ran = [row for row in rows if row.running]
        coordinates = np.array([row.coordinates for row in ran]).reshape(len(ran), -1)
        error = errors(controller, coordinates, reference(controller, ran))
        times = np.array([row.time for row in ran]) - started
        clock = np.array([at for at, _ in path]) - started
        robot = np.array([where for _, where in path]).reshape(len(clock), -1)
        return cls(times, ran, error, clock, robot, controller.program.period, ended, end)


def judge(faults: Sequence[Fault], course: Course, happened: Sequence[bool]) -> list[Result]:
    """How the robot took each fault of the run; one that never happened was not taken in any way."""
    both = [pair for pair in zip(faults, happened, strict=True) if pair[0].kind not in UPLOADS]
    both.sort(key=lambda pair: pair[0].at)
    judged = [fault for fault, _ in both]
    results = []
    for k, (fault, there) in enumerate(both):
        later = [f.at for f in judged[k + 1 :] if f.at > fault.at + 1e-9]
        result = _judge(fault, course, later[0] if later else np.inf)
        if not there:
            result = replace(result, seen=NEVER, ok=False)
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
