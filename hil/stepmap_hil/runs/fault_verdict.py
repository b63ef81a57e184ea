"""Evaluates faults: whether the robot reacted to each as expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepmap.arrays import Array
from stepmap.units import small
from stepmap_codegen import Controller
from stepmap_hil.faults.spec import UPLOADS, Fault, FaultVerdict
from stepmap_hil.runs.followed import Followed
from stepmap_hil.runs.log import Row, errors, reference
from stepmap_hil.wire import dialect
from stepmap_hil.wire.reasons import Reason

MAX_REST_TRAVEL = 0.002  # m or rad, of a motor that counts as standing
TIMEOUT_S = 1.0  # until a fault shows
TIMEOUTS_S = {"stuck": np.inf}  # a motor that is not to move may be blocked unnoticed
TOO_EARLY = "too early to tell"
NEVER = "did not happen: the run was over, or nothing passed that it could happen to"
MOVING = tuple(dialect.value(f"STEPMAP_STATE_{name}") for name in ("RUNNING", "HOLDING"))


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run, by which its faults are evaluated; times are since the command to run."""

    time: Array
    rows: Sequence[Row]
    error: Array  # m, of tracking
    clock: Array
    robot: Array  # positions of the motors at times of ``clock``
    period: float
    ended: tuple[str, str] | None  # state and reason in which the board ended the run; None where it went on
    end: float  # when that was noticed
    robot_units: Sequence[str] = ()  # of the columns of ``robot``; metres where there are none

    @classmethod
    def of(
        cls,
        controller: Controller,
        rows: Sequence[Row],
        started: float,
        path: Sequence[tuple[float, Array]],
        ended: tuple[str, str] | None,
        end: float,
        followed: Mapping[int, Followed] | None = None,
    ) -> RunOutcome:
        """What rows show since the run was ``started``; ``path`` has times and positions of the motors.

        ``followed`` are set-points that were streamed meanwhile, by tick.
        """
        ran = [row for row in rows if row.running]
        coordinates = np.array([row.coordinates for row in ran]).reshape(len(ran), -1)
        error = errors(controller, coordinates, reference(controller, ran, followed))
        times = np.array([row.time for row in ran]) - started
        clock = np.array([at for at, _ in path]) - started
        robot = np.array([where for _, where in path]).reshape(len(clock), -1)
        units = [c.unit for c in controller.plant.step.system.kinematic]
        return cls(times, ran, error, clock, robot, controller.program.period, ended, end, units)

    def travel(self, begin: float, until: float) -> tuple[float, str]:
        """How far motors moved between two times, that which moved most, and its unit."""
        resting = self.robot[(self.clock >= begin - 1e-9) & (self.clock < until - 1e-9)]
        if not len(resting) or not resting.shape[1]:
            return (np.inf if not len(resting) else 0.0), "m"
        moved = np.ptp(resting, axis=0)
        k = int(np.argmax(moved))
        return float(moved[k]), self.robot_units[k] if self.robot_units else "m"


def evaluate_faults(faults: Sequence[Fault], outcome: RunOutcome, happened: Sequence[bool]) -> list[FaultVerdict]:
    """The verdict on each fault of the run, in the order of time; a fault that never happened fails."""
    both = [pair for pair in zip(faults, happened, strict=True) if pair[0].kind not in UPLOADS]
    both.sort(key=lambda pair: pair[0].at)
    evaluated = [fault for fault, _ in both]
    results = []
    for k, (fault, there) in enumerate(both):
        later = [f.at for f in evaluated[k + 1 :] if f.at > fault.at + 1e-9]
        result = _evaluate(fault, outcome, later[0] if later else np.inf)
        if not there:
            result = replace(result, seen=NEVER, ok=False)
        if fault.by_operator and not result.ok and not _shows(k, evaluated, outcome):
            result = replace(result, seen=f"{result.seen}: {TOO_EARLY}", ok=True)
        results.append(result)
    return results


def _shows(k: int, faults: Sequence[Fault], outcome: RunOutcome) -> bool:
    """Whether the run went on long enough to show the reaction to a fault, with no other fault near it.

    Faults of the operator are not planned: they overlap, and come just before the end.
    """
    spans = [(fault.at, fault.at + _time_to_show(fault)) for fault in faults]
    begin, end = spans[k]
    crowded = any(a <= end and begin <= b for i, (a, b) in enumerate(spans) if i != k)
    over = outcome.end if outcome.ended is not None else max(outcome.time, default=0.0)
    return not crowded and begin <= over and (outcome.ended is not None or end <= over)


def _time_to_show(fault: Fault) -> float:
    lasts = fault.seconds if np.isfinite(fault.seconds) else 0.0
    return float(max(lasts, TIMEOUTS_S.get(fault.kind, TIMEOUT_S)))


def _evaluate(fault: Fault, outcome: RunOutcome, until: float) -> FaultVerdict:
    wanted = fault.expect
    inside = (outcome.time >= fault.at - 1e-9) & (outcome.time < until - 1e-9)
    rows = [row for row, here in zip(outcome.rows, inside, strict=True) if here]
    state, reason = (_state(rows[-1].state), _reason(rows[-1].reason)) if rows else ("not reached", "")
    if outcome.ended is not None and fault.at <= outcome.end < until:
        state, reason = outcome.ended
    seen, ok = [state, reason], state == wanted.state and wanted.reason in (None, reason)
    if wanted.within is not None:
        left = [row.state not in MOVING for row in outcome.rows]
        reached = outcome.time[inside & np.array(left, dtype=bool)]
        first = min([*reached, *([outcome.end] if outcome.end < until else [])], default=np.inf)
        after = float(first) - fault.at
        seen.append(f"after {after:.3f} s")
        ok = ok and after <= wanted.within + outcome.period  # telemetry comes once per period
    if wanted.rest is not None:
        moved, unit = outcome.travel(fault.at + wanted.rest, until)
        shown = small(unit)
        seen.append(f"then moved {shown.factor * moved:.2f} {shown.symbol}".rstrip())
        ok = ok and moved <= MAX_REST_TRAVEL
    if wanted.tracking is not None:
        error = float(outcome.error[inside].max(initial=0.0))
        seen.append(f"tracking {error:.4f} m")
        ok = ok and bool(rows) and error <= wanted.tracking
    observed = ", ".join(part for part in seen if part)
    return FaultVerdict(fault.kind, fault.at, str(wanted), observed, ok, fault.by_operator)


def _state(number: int) -> str:
    return dialect.word("STEPMAP_STATE", number)


def _reason(number: int) -> str:
    try:
        return Reason(number).name.lower()
    except ValueError:
        return str(number)
