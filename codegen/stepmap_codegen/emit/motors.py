"""The robot behind the commands: what one unit of a command is in encoder counts or effort, and its motor's gains.

The table [board] of a job says it; what it does not say is that of the simulated robot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from stepmap.mechanics import System
from stepmap.toml.tables import Table
from stepmap_codegen.model.formats import Formats
from stepmap_codegen.model.program import Field, Program, Role
from stepmap_codegen.model.scalar import Scalar

MAX_DELAY = 0.08  # s; to the firmware's supervisor measurements of 0.1 s are stale
MAX_DELAY_SAMPLES = 3  # each costs a board one more prediction per tick
KEYS = ("axes", "sensor_delay")  # of [board]
RENAMED = {"late": "sensor_delay"}
RENAMED_OF_AXES = {"lag": "time_constant", "stiffness": "bandwidth", "following": "following_limit"}
LARGEST = 1e9  # of what is said of an axis
FULL = 1000.0  # per mille, full effort
FEWEST_LEVELS = 100  # distinct efforts of a force between its limits
MS = 1.024  # the motor loop's unit of time [ms]
SHIFT = 17
UNIT = 2**SHIFT / 256  # effort per Q8 count


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
        made.append(Axis(**values))
    return made


def _require_levels(entry: Table, command: Actuated, per_unit: float) -> None:
    """Raises where a force has too few distinct efforts between its limits, or reaches full effort before them."""
    ends = [per_unit * command.low, per_unit * command.high]
    levels = round(ends[1]) - round(ends[0]) + 1
    limits = f"{command.low:g} to {command.high:g} {command.unit}".rstrip()
    usual = FULL / command.span
    hint = f"Leave it out: full effort is then at {command.span:g} {command.unit}".rstrip() + f" ({usual:.4g} per unit)."
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


def _name(command: Field) -> str:
    return command.label.removesuffix("_next") if command.moves else command.label


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


def emit_robot(
    program: Program, formats: Formats | None, scalar: Scalar, axes: Sequence[Axis], delay: float = 0.0
) -> str:
    """robot.h"""
    commands = [program.fields[i] for i in program.of(Role.COMMAND)]
    bits = [0 if formats is None else formats.fields[i] for i in program.of(Role.COMMAND)]
    used = list(zip(commands, bits, axes, strict=True))
    out = [
        "/* The motors behind the commands; generated by stepmap from the table [board] of the job. */",
        "#ifndef SM_ROBOT_H",
        "#define SM_ROBOT_H",
        "",
        f"#define SM_AXES {len(used)}",
        f"#define SM_SENSOR_DELAY_US {round(delay * 1e6)} /* from a measurement to its arrival */",
        f"#define SM_DELAY_SAMPLES {delay_samples(delay, program.period)} /* the same in whole periods */",
        "",
    ]
    scales, shifts, steps = [], [], []
    for command, fraction, axis in used:
        factor = 256.0 * axis.counts_per_unit if command.moves else axis.effort_per_unit
        if formats is None:
            scales.append(_literal(factor, scalar))
            shifts.append("0")
            step = axis.speed * program.period if command.moves else 2 * _span(command)
            steps.append(_literal(step, scalar))
            continue
        scaled = factor * 2.0**-fraction  # of one unit of the word
        shift = min(max(29 - math.floor(math.log2(scaled)), 1), 62)  # the firmware adds half of it to 64 bits
        scales.append(str(round(scaled * 2.0**shift)))
        shifts.append(str(shift))
        step = axis.speed * program.period if command.moves else 2 * _span(command)
        steps.append(str(min(round(step * 2.0**fraction), 2**31 - 1)))
    out += [
        "/* Motor position (counts, 8 fraction bits) or effort (per mille) = command * SCALE * 2^-SHIFT */",
        f"#define SM_AXIS_SCALE {{{', '.join(scales) or '0'}}}",
        f"#define SM_AXIS_SHIFT {{{', '.join(shifts) or '0'}}}",
        "/* Largest change of a command in one tick */",
        f"#define SM_U_STEP {{{', '.join(steps) or '0'}}}",
        "",
        "/* sm_motor_config of each axis */",
        f"{'#define SM_MOTOR_CONFIGS':<110} \\",
        f"{'  {':<110} \\",
    ]
    for command, _, axis in used:
        out += [f"    {line:<106} \\" for line in _config(command, axis, program.period)]
    if not used:
        out.append("    {0} \\")
    return "\n".join([*out, "  }", "", "#endif", ""])


def _literal(value: float, scalar: Scalar) -> str:
    text = f"{value:.9g}"
    text += "" if "." in text or "e" in text else ".0"
    return text + ("F" if scalar is Scalar.FLOAT32 else "")


def _span(command: Field) -> float:
    return max(abs(command.low or 0.0), abs(command.high or 0.0))


def _config(command: Field, axis: Axis, period: float) -> list[str]:
    travel = 1 << 29
    low, high = -travel, travel
    if command.moves:
        per = 256 * axis.counts_per_unit
        margin = 0.02 * (_span(command)) * per  # the limits of the command are inside those of the motor
        low = max(round((command.low or 0.0) * per - margin), -travel)
        high = min(round((command.high or 0.0) * per + margin), travel)
    values: dict[str, int] = {
        "period_us": round(period * 1e6),
        "extrapolate_us": min(round(period * 1e6 * 0.6), 20000),
        "low": low,
        "high": high,
        **gains(axis),
        "shift": SHIFT,
        "speed_filter": 2,
        "anti_windup": 16,
        "integral_limit": 1000,
        "effort_limit": 1000,
        "slew_limit": 200,
        "following_limit": round(256 * axis.following_limit * axis.counts_per_unit),
        "following_time_us": 50000,
        "speed_limit": max(round(3 * axis.top_speed * axis.counts_per_unit * MS / 1000), 1),
    }
    items = [f".{name} = {value}" for name, value in values.items()]
    lines, line = [], f"{{ /* {_name(command)} */ "
    for item in items:
        if len(line) + len(item) > 100:
            lines.append(line)
            line = "  "
        line += f"{item}, "
    return [*lines, line.rstrip(", ") + "},"]
