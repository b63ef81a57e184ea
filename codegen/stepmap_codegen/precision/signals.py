"""The report: every field with its unit, range, format, headroom and rounding error; and whether that will do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import RangeError
from stepmap_codegen.model.command_rates import CommandRates
from stepmap_codegen.model.float_machine import FloatMachine
from stepmap_codegen.model.formats import Formats
from stepmap_codegen.model.integer_machine import IntegerMachine, decode, encode
from stepmap_codegen.model.program import Program, Role
from stepmap_codegen.precision.ensemble import Recording
from stepmap_codegen.precision.ranges import Ranges


@dataclass(frozen=True)
class Signal:
    """A field as the report shows it."""

    name: str
    label: str
    unit: str
    role: str
    low: float
    high: float
    source: str  # "declared" or "simulated"
    fraction: int  # bits
    resolution: float
    headroom: float  # largest representable / largest in the range
    error: float  # largest rounding in one tick of the simulated runs

    @property
    def bound(self) -> float:
        """The error or a little more, a power of two: what files say, the same on every machine."""
        return float(2.0 ** math.ceil(math.log2(self.error)))


def signals(program: Program, ranges: Ranges, formats: Formats, errors: Array) -> list[Signal]:
    """All fields with their formats."""
    out = []
    for i, field in enumerate(program.fields):
        fraction = formats.fields[i]
        size = float(ranges.sizes[i])
        out.append(
            Signal(
                name=field.name,
                label=field.label,
                unit=field.unit,
                role=field.role.value,
                low=_at_least(float(ranges.low[i]), 2.0**-fraction),
                high=_at_least(float(ranges.high[i]), 2.0**-fraction),
                source="declared" if ranges.declared[i] else "simulated",
                fraction=fraction,
                resolution=2.0**-fraction,
                headroom=2.0 ** (formats.word - 1 - fraction) / size if size > 0 else math.inf,
                error=float(errors[i]),
            )
        )
    return out


def _at_least(value: float, unit: float) -> float:
    """A value, or zero where it is less than a unit: what is left of it is rounding, another on every machine."""
    return value if abs(value) >= unit else 0.0


def rounding(program: Program, formats: Formats, recording: Recording) -> Array:
    """Largest difference of each field after one tick in integers and in float64 from the same fields."""
    words = encode(recording.snapshots, formats.fields, formats.word)
    integer = IntegerMachine(program, formats, words)
    exact = FloatMachine(program, decode(words, formats.fields))
    rates, raw_rates = CommandRates(program), CommandRates(program, formats.fields)
    for number, block in enumerate(program.blocks):
        before, raw = exact.fields.copy(), integer.fields.copy()
        one, other = exact.run(number), integer.run(number)
        rates.apply(number, before, exact.fields)
        raw_rates.apply(number, raw, integer.fields)
        # Gates that decide differently, or not at all, say nothing about rounding; of a chain another block is taken.
        apart = one != other if block.chain else ~(one & other)
        if apart.any():
            exact.fields[:, apart] = decode(integer.fields, formats.fields)[:, apart]
    gap: Array = np.abs(decode(integer.fields, formats.fields) - exact.fields).max(axis=1)
    return np.maximum(gap, 2.0 ** -(1.0 + np.array(formats.fields)))


def require_budget(
    program: Program, ranges: Ranges, formats: Formats, errors: Array, process: Sequence[float], precision: float | None
) -> None:
    """Raises RangeError where rounding would be noticed: more than the process noise, or than a given precision.

    ``process`` holds the standard deviations of a step; ``precision`` is in the unit of each coordinate.
    """
    short = formats.word < 32
    longer = f"words longer than {formats.word} bits" if short else "floating point (--scalar float64)"
    wider = longer if short else "floating point (--scalar float32)"
    for k, i in enumerate(program.of(Role.STATE)):
        field = program.fields[i]
        allowed = [(float(process[k]), "process noise")] if process[k] > 0 else []
        if precision is not None and field.low is not None:
            allowed.append((precision, "precision"))
        for limit, what in allowed:
            if errors[i] > limit:
                raise RangeError(
                    f"signal {field.name!r} ({field.label} [{field.unit}]): one tick rounds it by {errors[i]:.2g}, "
                    f"more than the {what} of {limit:.2g}",
                    hint=f"Use {longer}, tighter limits than ±{ranges.sizes[i]:.3g}, or allow a larger {what}.",
                    signal=field.name,
                    value=float(errors[i]),
                    format=f"{formats.fields[i]} fraction bits",
                )
    for i in program.of(Role.COVARIANCE):
        field = program.fields[i]
        least, unit = float(ranges.least[i]), 2.0 ** -formats.fields[i]
        if field.place and field.place[0] == field.place[1] and unit > least:
            raise RangeError(
                f"signal {field.name!r} ({field.label}) goes from {least:.2g} to {ranges.high[i]:.2g}, and its format "
                f"counts in {unit:.2g}",
                hint=f"Use {wider}, a smaller start covariance or a larger process noise ([noise] in the job).",
                signal=field.name,
                value=least,
                format=f"{formats.fields[i]} fraction bits",
            )
