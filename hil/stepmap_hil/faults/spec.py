"""Faults as data: what is injected into a run, when, and how the robot is expected to react (docs/bench.md).

A fault file is TOML with one table [[fault]] for each; examples/faults has one file for each reaction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stepmap.errors import ModelError
from stepmap.text import nearest
from stepmap.toml.tables import Table, read
from stepmap_hil.wire.reasons import Reason

LINE = ("dropped", "overtaken", "duplicated", "corrupted")
"""Happen to frames on the serial line."""
UPLOADS = ("wrong_schedule", "brown_out")
"""Happen before the run, while the schedule is uploaded."""
ALARMS = {"driver_fault": "DRIVER", "supply_low": "SUPPLY", "lost_edges": "ENCODER"}
"""What hardware tells the board by itself, and the bit of STEPMAP_ALARM."""
ON_BOARD = ("cut", "reset", "stuck", "encoder", *ALARMS, "unplugged")
KINDS = (*LINE, "delayed", "jump", "occluded", *ON_BOARD, "blow", *UPLOADS)
FRAMES = {
    "measurement": ("MEASUREMENT", "WIDE_MEASUREMENT"),
    "telemetry": ("TELEMETRY", "WIDE_TELEMETRY"),
    "command": ("COMMAND",),
    "answer": ("COMMAND_ACK",),
}
REASONS = [*(reason.name.lower() for reason in Reason), "model"]
STATES = ("running", "stopped", "fault", "idle", "refused")
KEYS = ("kind", "at", "for", "count", "value", "frames", "channels", "axis", "expect")
STOP = 0.25  # s without a measurement until the robot stands (docs/supervisor.md)
LARGEST = {"jump": 100.0, "encoder": 1e9, "blow": 5.0}  # m, counts, m/s
VALUES = {"jump": 0.3, "delayed": 0.01, "encoder": 20000.0, "brown_out": 0.5, "blow": 1.3}
"""m, s, counts, part of the schedule, m/s"""


@dataclass(frozen=True)
class Expectation:
    """How the robot should react."""

    state: str = "running"
    reason: str | None = None  # of the state, as in docs/supervisor.md
    within: float | None = None  # s after the fault until the state is reported
    rest: float | None = None  # s after the fault until the motors stand
    tracking: float | None = None  # m, the largest tracking error until the next fault

    def __str__(self) -> str:
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return ", ".join(str(v) if k == "state" else f"{k} {v}" for k, v in given.items())


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong: from ``at`` on, for some ``seconds`` or for a ``count`` of frames or ticks."""

    kind: str
    at: float = 0.0  # s since the command to run
    seconds: float = math.inf
    count: float = math.inf
    value: float | None = None
    frames: str = "measurement"
    channels: tuple[str, ...] = ()  # all where empty
    axis: int = 0
    expect: Expectation = Expectation()
    by_operator: bool = False  # injected while the run went on, not planned

    @property
    def amount(self) -> float:
        return VALUES.get(self.kind, 1.0) if self.value is None else self.value

    def lasts(self, time: float) -> bool:
        return self.at - 1e-9 <= time < self.at + self.seconds - 1e-9


def read_faults(
    file: Path,
    channels: Sequence[str] | None = None,
    axes: Sequence[str] | None = None,
    gaps: Sequence[str] | None = None,
) -> tuple[Fault, ...]:
    """The faults of a file in the order of their time; raises JobError with the line of what is wrong.

    With the ``channels`` of a job, its ``axes``, coordinates with motors, and its ``gaps``: also where a fault is about
    others.
    """
    root = read(file)
    root.only(("fault",))
    tables = root.tables("fault")
    found = [_fault(table, axes) for table in tables]
    for table, fault in zip(tables, found, strict=True):
        for key, problem, hint in _unknown(fault, channels, None if axes is None else len(axes), gaps):
            raise table.error(problem, key, hint=hint)
    if not found:
        raise root.error("has no [[fault]]", hint="docs/bench.md#faults has one to copy.")
    return tuple(sorted(found, key=lambda fault: fault.at))


def _fault(table: Table, axes: Sequence[str] | None) -> Fault:
    table.only(KEYS)
    table.need("kind", f"Name one of {', '.join(KINDS)}.")
    kind = table.choice("kind", KINDS)
    at = _positive(table, "at", 0.0, zero=True)
    seconds, count = _positive(table, "for", math.inf), math.inf
    if "count" in table:
        if "for" in table:
            raise table.error("give `for` or `count`, not both", "count")
        count = table.whole("count")
        if count < 1:
            raise table.error(f"must be at least 1, got {count:g}", "count")
    elif "for" not in table and kind in (*LINE, "delayed", "jump", "occluded", "blow"):
        count = 1
    if kind == "cut" and "for" not in table:
        raise table.error("'for' is missing", hint="Give the seconds until the link is back.")
    value = table.number("value") if "value" in table else None
    if kind in (*LINE, "brown_out") and value is not None and not 0 < value <= 1:
        raise table.error(f"must be above 0 and at most 1 for {kind}, got {value:g}", "value")
    if kind == "delayed" and value is not None and not 0 < value <= 1:
        raise table.error(f"must be a delay above 0 and at most 1 s, got {value:g}", "value")
    if kind in LARGEST and value is not None and not abs(value) <= LARGEST[kind]:
        raise table.error(f"must be within ±{LARGEST[kind]:g} for {kind}, got {value:g}", "value")
    if kind == "blow" and value is not None and not value > 0:
        raise table.error(f"must be a speed above 0 m/s, got {value:g}", "value")
    channels = table.entries.get("channels", [])
    if not isinstance(channels, list) or not all(isinstance(name, str) for name in channels):
        raise table.error("expected a list of names of channels", "channels")
    made = Fault(
        kind,
        at,
        seconds,
        count,
        value,
        table.choice("frames", list(FRAMES), "measurement"),
        tuple(channels),
        _axis(table, axes),
    )
    return Fault(**{**vars(made), "expect": _expectation(table, made)})


def _axis(table: Table, axes: Sequence[str] | None) -> int:
    """Index of a motor, which a file may also call by its coordinate."""
    if not isinstance(table.entries.get("axis"), str):
        return table.whole("axis", 0)
    if axes is None:
        raise table.error("expected the number of an axis: without a job its axes have no names", "axis")
    name = table.text("axis")
    if name not in axes:
        raise table.error(f"no axis is called {name!r}", "axis", hint=nearest(name, axes))
    return axes.index(name)


def _positive(table: Table, name: str, default: float, *, zero: bool = False) -> float:
    value = table.number(name, default)
    if value < 0 or (value == 0 and not zero):
        raise table.error(f"must be {'at least' if zero else 'above'} 0 s, got {value:g}", name)
    return value


def _expectation(table: Table, fault: Fault) -> Expectation:
    usual = expected(fault)
    if "expect" not in table:
        return usual
    if isinstance(table.entries["expect"], str):
        return Expectation(table.choice("expect", STATES))
    given = table.table("expect")
    given.only(("state", "reason", "within", "rest", "tracking"))
    numbers = {name: given.number(name) for name in ("within", "rest", "tracking") if name in given}
    for name, value in numbers.items():
        if not value > 0:
            raise given.error(f"must be positive, got {value:g}", name)
    reason = given.choice("reason", REASONS) if "reason" in given else None
    return Expectation(given.choice("state", STATES, usual.state), reason, **numbers)


def expected(fault: Fault) -> Expectation:
    """The reaction that is expected by default."""
    sightless = fault.kind in ("cut", "occluded") or (fault.kind in LINE and fault.kind != "duplicated")
    all_of_them = fault.frames == "measurement" and not fault.channels and fault.amount == 1.0
    if sightless and all_of_them and STOP < fault.seconds < math.inf:
        silent = fault.kind == "cut"  # the bench cannot receive when it stops
        return Expectation("stopped", "hold_expired", None if silent else STOP, STOP)
    return USUAL.get(fault.kind, Expectation())


USUAL = {
    "reset": Expectation("idle", "booted", within=STOP, rest=STOP),
    "stuck": Expectation("fault", "motor_following"),
    "encoder": Expectation("fault", "motor_encoder", within=0.05, rest=STOP),
    "driver_fault": Expectation("fault", "motor_driver", within=0.1, rest=STOP),
    "supply_low": Expectation("fault", "supply", within=0.1, rest=STOP),
    "lost_edges": Expectation("fault", "motor_encoder", within=0.1, rest=STOP),
    "unplugged": Expectation("stopped", "stop_command", within=STOP, rest=STOP),
    "wrong_schedule": Expectation("refused", "model"),
    "brown_out": Expectation("running"),
}


OPERATOR_FAULTS = {
    "link cut 0.15 s": Fault("cut", seconds=0.15),
    "link cut 1 s": Fault("cut", seconds=1.0),
    "sensor jump": Fault("jump", count=3),
    "6 frames lost": Fault("dropped", count=6),
    "occluded 0.2 s": Fault("occluded", seconds=0.2),
    "occluded 1 s": Fault("occluded", seconds=1.0),
    "motor stuck": Fault("stuck"),
    "encoder jump": Fault("encoder"),
    "driver fault": Fault("driver_fault"),
    "supply low": Fault("supply_low", seconds=0.1),
    "board reset": Fault("reset"),
}
"""Faults that make sense at any time of a run, by the labels of their buttons."""
MOTORS = ("stuck", "encoder", "lost_edges")
SIMULATED = (*MOTORS, "driver_fault", "supply_low")
"""Need a simulated plant."""


def operator_fault(name: str, at: float = 0.0) -> Fault:
    """A fault of `OPERATOR_FAULTS`, with the reaction that is expected by default."""
    fault = OPERATOR_FAULTS[name]
    return replace(fault, at=at, expect=expected(fault), by_operator=True)


def offered(*, motors: bool, reset: bool) -> list[str]:
    """Names of `OPERATOR_FAULTS` that a run can have: with simulated motors, and a board that can be reset."""
    return [
        name
        for name, fault in OPERATOR_FAULTS.items()
        if (motors or fault.kind not in SIMULATED) and (reset or fault.kind != "reset")
    ]


@dataclass(frozen=True)
class FaultVerdict:
    """How the robot reacted to a fault, and whether as expected."""

    kind: str
    at: float
    expected: str
    seen: str
    ok: bool
    by_hand: bool = False  # injected by the operator; a key of summary.json

    def document(self) -> dict[str, Any]:
        """For the summary; ``by_hand`` only where it is true."""
        return {name: value for name, value in asdict(self).items() if name != "by_hand" or value}


def require_known(faults: Sequence[Fault], channels: Sequence[str], axes: int, gaps: Sequence[str] = ()) -> None:
    """Raises where a fault names a channel or an axis that the job does not have, or strikes what cannot go slack."""
    for fault in faults:
        for _, problem, hint in _unknown(fault, channels, axes, gaps):
            raise ModelError(f"faults: {problem}", hint=hint)


def _unknown(
    fault: Fault, channels: Sequence[str] | None, axes: int | None, gaps: Sequence[str] | None
) -> Iterator[tuple[str, str, str]]:
    """What a fault names and the job does not have: the key, what is wrong, and what to do."""
    for name in fault.channels if channels is not None else ():
        if channels is not None and name not in channels:
            yield "channels", f"no channel is called {name!r}", nearest(name, channels)
    if axes is not None and fault.kind in MOTORS and not 0 <= fault.axis < axes:
        hint = f"Name an axis by its coordinate, or by its number, 0 to {axes - 1}." if axes else ""
        yield "axis", f"there is no axis {fault.axis}; this job has {axes} with motors", hint
    if gaps is not None and fault.kind == "blow" and not gaps:
        yield "kind", "there is no string or contact to open with a blow", "Give the system one with b.string."
