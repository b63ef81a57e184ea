"""The robot behind the commands: what one unit of a command is in encoder counts or effort, and its motor's gains.

The table [board] of a job says it; what it does not say is that of the simulated robot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from stepmap.mechanics import System
from stepmap.toml.tables import Table

MAX_DELAY = 0.08  # s; to the firmware's supervisor measurements of 0.1 s are stale
MAX_DELAY_SAMPLES = 3  # each costs a board one more prediction per tick
KEYS = ("axes", "sensor_delay", "measure", "encoders")  # of [board]
RENAMED = {"late": "sensor_delay"}
RENAMED_OF_AXES = {"lag": "time_constant", "stiffness": "bandwidth", "following": "following_limit"}
LARGEST = 1e9  # of what is said of an axis
FULL = 1000.0  # per mille, full effort
FEWEST_LEVELS = 100  # distinct efforts of a force between its limits
MS = 1.024  # the motor loop's unit of time [ms]
SHIFT = 17
UNIT = 2**SHIFT / 256  # effort per Q8 count
LARGEST_GAIN = 2**16 - 1  # of sm_motor


@dataclass(frozen=True)
class Axis:
    """A motor: for positions all but the last, for forces the last alone."""

    counts_per_unit: float = 20000.0  # encoder counts per unit of the command
    speed: float = 2.0  # largest speed of the command, units/s
    top_speed: float = 3.0  # of the motor at full effort, units/s
    time_constant: float = 0.03  # s, of the motor's speed after a step of its effort
    bandwidth: float = 80.0  # rad/s, of the position loop
    following_limit: float = 0.025  # units, largest following error
    effort_per_unit: float = 5.0  # per mille per unit of a force; full effort at its limit unless the job says another


@dataclass(frozen=True)
class Actuated:
    """What a command moves: a force, or a kinematic coordinate."""

    name: str
    unit: str
    is_position: bool
    low: float
    high: float

    @property
    def span(self) -> float:
        return max(abs(self.low), abs(self.high))


def actuated(system: System) -> list[Actuated]:
    """Forces and kinematic coordinates of a system, in the order of its commands."""
    forces = [Actuated(i.name, i.unit, False, i.low or 0.0, i.high or 0.0) for i in system.inputs]
    return forces + [Actuated(c.name, c.unit, True, c.low or 0.0, c.high or 0.0) for c in system.kinematic]


def read_axes(table: Table, system: System) -> list[Axis]:
    """Axes of the commands, in their order, from the table [board]; raises JobError with the line of what is wrong."""
    table = table.renamed(RENAMED)
    table.only(KEYS, "key")
    inner = table.table("axes")
    commands = actuated(system)
    inner.only([command.name for command in commands], "command")
    made = []
    for command in commands:
        entry = inner.table(command.name).renamed(RENAMED_OF_AXES)
        entry.only([field.name for field in fields(Axis)])
        values = {key: entry.number(key) for key in entry}
        for key, value in values.items():
            if not 0 < value <= LARGEST:
                raise entry.error(f"must be positive and at most {LARGEST:g}, got {value:g}", key)
        if not command.is_position and command.span > 0:
            values.setdefault("effort_per_unit", FULL / command.span)
            _require_levels(entry, command, values["effort_per_unit"])
        axis = Axis(**values)
        if command.is_position:
            _require_gains(entry, axis)
        made.append(axis)
    return made


def _require_gains(entry: Table, axis: Axis) -> None:
    """Raises where the motor's gains do not fit the 16 bits that the firmware has for each."""
    worst = max(gains(axis).values())
    if worst > LARGEST_GAIN:
        raise entry.error(
            f"the motor's gains are up to {worst / LARGEST_GAIN:.3g} times what the firmware holds",
            *(["bandwidth"] if "bandwidth" in entry else []),
            hint="Take a smaller bandwidth or time_constant, or an encoder with more counts_per_unit.",
        )


def _require_levels(entry: Table, command: Actuated, per_unit: float) -> None:
    """Raises where a force has too few distinct efforts between its limits, or reaches full effort before them."""
    ends = [per_unit * command.low, per_unit * command.high]
    levels = round(ends[1]) - round(ends[0]) + 1
    limits = f"{command.low:g} to {command.high:g} {command.unit}".rstrip()
    usual = FULL / command.span
    hint = (
        f"Leave it out: full effort is then at {command.span:g} {command.unit}".rstrip() + f" ({usual:.4g} per unit)."
    )
    if max(map(abs, ends)) > FULL + 0.5:
        raise entry.error(
            f"{per_unit:g} per mille per unit is full effort at {FULL / per_unit:.4g}, and {command.name} goes from "
            f"{limits}",
            "effort_per_unit",
            hint=hint,
        )
    if levels < FEWEST_LEVELS:
        raise entry.error(
            f"{per_unit:g} per mille per unit leaves {levels} distinct efforts for {command.name} from {limits}; "
            f"feedback needs {FEWEST_LEVELS} at least",
            "effort_per_unit",
            hint=hint,
        )


def read_sensor_delay(table: Table, period: float) -> float:
    """Seconds from a measurement to its arrival at the board, ``sensor_delay`` of [board]; raises JobError."""
    table = table.renamed(RENAMED)
    delay = table.number("sensor_delay", 0.0)
    most = min(MAX_DELAY, (MAX_DELAY_SAMPLES + 0.5) * period)
    if not 0 <= delay <= most:
        raise table.error(
            f"must be from 0 to {most:.4g} s, which the board can compensate, got {delay:g}", "sensor_delay"
        )
    return delay


def delay_samples(delay: float, period: float) -> int:
    """Whole periods in a sensor delay, which the prediction compensates. Motors make up for the rest."""
    return math.floor(delay / period + 0.5)


def gains(axis: Axis) -> dict[str, int]:
    """Gains of sm_motor for a motor with a lag: two equal poles near ``bandwidth``, and feed-forward of its inverse."""
    gain = 1000.0 / (axis.top_speed * axis.counts_per_unit / 1000.0)  # per mille per (count/ms) of steady speed
    lag = axis.time_constant * 1000.0  # ms
    pole = axis.bandwidth / 1000.0  # 1/ms
    kp = pole**2 * lag * gain
    kd = max((2 * pole * lag - 1) * gain, 0.0)
    ka = max(lag * gain - 4 * kd, 0.0)
    return {
        "kp": round(kp * UNIT),
        "ki": round(kp / 80 * UNIT * MS),
        "kd": round(kd * UNIT / MS),
        "kv": round((kd + gain) * UNIT / MS),
        "ka": round(ka * UNIT / 16 / MS**2),
    }
