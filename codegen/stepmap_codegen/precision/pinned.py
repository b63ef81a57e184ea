"""Formats that are pinned: a job with other weights or another reference gets the code that is flashed already.

Ranges of its runs are measured as always. Where they stay within the pinned formats, code and model are those the
formats came with, to the byte, and only the schedule is new. docs/fixed-point.md has the rules.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError, RangeError
from stepmap.mechanics.quantity import Coordinate, Input
from stepmap_codegen.lower.controller import Plant
from stepmap_codegen.model.formats import BlockFormats, Formats
from stepmap_codegen.model.program import Program, Role
from stepmap_codegen.precision.assign import PINNED_MARGIN, WORDS, Misfit, misfits
from stepmap_codegen.precision.ranges import Ranges
from stepmap_codegen.precision.signals import Signal

FORMAT = "stepmap-formats-2"
FILE = "formats.json"
STREAMED = ("low", "high", "rate", "acceleration")
ANEW = "leave formats out of [codegen] to choose them anew, then build and flash the firmware again"


@dataclass(frozen=True, eq=False)
class PinnedFormats:
    """Formats, and all else in the generated code that was measured; ``made_of`` is there to say what differs."""

    source: str  # where they were read, for messages
    system: str
    model: str
    made_of: Mapping[str, float | None]
    names: tuple[str, ...]  # of the fields
    formats: Formats
    start: Array  # fields at the start
    row: Array  # of the schedule, in the self-test
    variances: Array  # the largest that each covariance may become
    ranges: Sequence[tuple[float, float, float, float]]  # of the fields: low, high, headroom, bound of the error

    def pattern(self, gains: Array) -> Array:
        """Gains with ones where the pinned program has some: of gains, ``lower`` looks at the zeros alone."""
        made = np.zeros((1, *gains.shape[1:]))
        places = [name.split("_")[1:] for name in self.names if name.startswith("K_")]
        for i, j in ((int(i), int(j)) for i, j in places):
            if i < made.shape[1] and j < made.shape[2]:
                made[0, i, j] = 1.0
        more: Array = np.maximum(made, (gains != 0).any(axis=0, keepdims=True))
        return more

    def held(self, program: Program, rows: Array) -> Array:
        """Rows of a schedule cut to what the formats hold, for a study of those that do not fit."""
        bits = np.array([self.formats.fields[i] for i in program.of(Role.SCHEDULE)], dtype=float)
        top = (1 - 2.0 ** (2 - self.formats.word)) * 2.0 ** (self.formats.word - 1 - bits)
        cut: Array = np.clip(rows, -top, top)
        return cut

    def listed(self, program: Program) -> list[Signal]:
        """The signals of the code's banner: ranges that the formats were chosen from."""
        rows = zip(program.fields, self.formats.fields, self.ranges, strict=True)
        return [
            Signal(f.name, f.label, f.unit, f.role.value, low, high, "", bits, 2.0**-bits, headroom, error)
            for f, bits, (low, high, headroom, error) in rows
        ]


def made_of(plant: Plant) -> dict[str, float | None]:
    """The numbers of a job that are in the code rather than in the schedule, by name."""
    step, system, settings = plant.step, plant.step.system, plant.settings
    process = np.sqrt(np.diagonal(plant.noise.process))
    measurement = np.sqrt(plant.noise.measurement)
    channels, names = [name for name, _ in system.sensor_channels], step.layout.tangent_names
    made: dict[str, float | None] = {"the period": step.dt, "newton": settings.newton, "the gate": settings.gate}
    made |= {f"parameter {p.name!r}": p.value for p in system.parameters}
    quantities: list[Coordinate | Input] = [*system.dynamic, *system.kinematic, *system.inputs]
    for quantity in quantities:
        made |= {f"the limit {end} of {quantity.name!r}": getattr(quantity, end) for end in ("low", "high")}
    for streamed in () if plant.stream is None else plant.stream.quantities:
        made |= {f"the streamed {end} of {streamed.name!r}": getattr(streamed, end) for end in STREAMED}
    made |= {f"the process noise of {n!r}": float(v) for n, v in zip(names, process, strict=True)}
    return made | {f"the measurement noise of {n!r}": float(v) for n, v in zip(channels, measurement, strict=True)}


def require_kind(pinned: PinnedFormats, system: str, word: int | None) -> None:
    """Raises ModelError where another system or other words are asked for; None is floating point."""
    if pinned.system != system:
        raise _another(pinned, f"it is of system {pinned.system!r}, and the job is of {system!r}")
    if word is None:
        raise ModelError(f"floating point has no formats to pin: leave formats ({pinned.source}) out of [codegen]")
    if word != pinned.formats.word:
        raise _another(pinned, f"its words have {pinned.formats.word} bits, and {word} are asked for")


def require_program(pinned: PinnedFormats, plant: Plant, program: Program, start: Array) -> None:
    """Raises ModelError with what differs where a program or its start are not those the formats are of."""
    now = made_of(plant)
    found = [
        f"{name} was {_number(pinned.made_of.get(name))} and is {_number(now.get(name))}"
        for name in (*now, *(name for name in pinned.made_of if name not in now))
        if not _alike(now.get(name), pinned.made_of.get(name))
    ]
    names = tuple(field.name for field in program.fields)
    more = [field.label for field in program.fields if field.name not in pinned.names and field.name.startswith("K_")]
    found += [f"there was no {label}" for label in more]
    if not found and names == pinned.names:
        found = list(_starts(pinned, program, start))
    if not found and (names != pinned.names or not _same_shape(pinned.formats, program)):
        found = [OTHERWISE]
    if found:
        others = f", and {len(found) - 3} more" if len(found) > 3 else ""
        raise _another(pinned, "; ".join(found[:3]) + others)


OTHERWISE = "its equations are others, or another version of stepmap made it"


def require_model(pinned: PinnedFormats, digest: str) -> None:
    """Raises ModelError where the same numbers give another program all the same."""
    if pinned.model != digest:
        raise _another(pinned, OTHERWISE)


def _another(pinned: PinnedFormats, why: str) -> ModelError:
    return ModelError(f"{pinned.source} has the formats of another model: {why}; {ANEW}")


def _starts(pinned: PinnedFormats, program: Program, start: Array) -> Iterator[str]:
    """Differences of the start by more than a unit: another machine may round it differently."""
    units = 2.0 ** -np.array(pinned.formats.fields, dtype=float)
    for role, what in ((Role.STATE, "the start of {!r}"), (Role.COVARIANCE, "the uncertainty of the start, {},")):
        for i in program.of(role):
            if abs(start[i] - pinned.start[i]) > units[i]:
                label = what.format(program.fields[i].label)
                yield f"{label} was {pinned.start[i]:.6g} and is {start[i]:.6g}"


def _same_shape(formats: Formats, program: Program) -> bool:
    return [len(bits.operations) for bits in formats.blocks] == [len(block.operations) for block in program.blocks]


def _alike(one: float | None, other: float | None) -> bool:
    return one == other if one is None or other is None else math.isclose(one, other, rel_tol=1e-12)


def _number(value: float | None) -> str:
    return "not there" if value is None else f"{value:.6g}"


def require_fit(pinned: PinnedFormats, program: Program, ranges: Ranges) -> None:
    """Raises RangeError with the first signal that does not fit its pinned format."""
    found = [*misfits(program, ranges, pinned.formats), *_lost(pinned, program, ranges)]
    if found:
        worst = found[0]
        shown = f" stepmap ranges --block {worst.block} shows it." if worst.block else ""
        others = f"; {len(found) - 1} more do not fit" if len(found) > 1 else ""
        raise RangeError(
            f"{worst.what} needs numbers {worst.excess:.3g} times as large as {pinned.source} has room for{others}",
            signal=worst.what,
            value=worst.size,
            format=f"±{worst.top:.4g}",
            cause=f"They reach {worst.size:.4g} in simulated runs of this job; with margin and rounding, "
            f"±{worst.top:.4g} is too little. It moves "
            "further or faster, or has other gains or noise, than the job of the firmware.",
            hint=f"Change the job less, or {ANEW}. With headroom in [codegen], formats hold more of what is tuned "
            f"later.{shown}",
        )


def _lost(pinned: PinnedFormats, program: Program, ranges: Ranges) -> Iterator[Misfit]:
    """Variances near the limit from which on the pinned code takes its filter for lost."""
    for i, limit in zip(program.of(Role.COVARIANCE), pinned.variances, strict=True):
        field, size = program.fields[i], float(ranges.high[i])
        if field.place and field.place[0] == field.place[1] and PINNED_MARGIN * size > limit:
            yield Misfit(
                f"signal {field.name!r} ({field.label})", size, float(limit), PINNED_MARGIN * size / float(limit)
            )


# the file -------------------------------------------------------------------------------------------------------------


def pack(
    program: Program,
    plant: Plant,
    model: str,
    formats: Formats,
    start: Array,
    row: Array,
    variances: Array,
    signals: Sequence[Signal],
) -> str:
    """The text of a file of formats. Measured ranges have the digits of the code's banner."""
    entries = [
        {
            "name": s.name,
            "bits": s.fraction,
            "start": float(value),
            "low": _digits(s.low, 4),
            "high": _digits(s.high, 4),
            "headroom": _digits(s.headroom, 3) if math.isfinite(s.headroom) else None,
            "error": s.bound,
        }
        for s, value in zip(signals, start, strict=True)
    ]
    document = {
        "format": FORMAT,
        "system": program.name,
        "model": model,
        "word": formats.word,
        "made_of": made_of(plant),
        "variances": [float(v) for v in variances],
        "row": [float(v) for v in row],
    }
    head = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
    fields = ",\n  ".join(json.dumps(entry, allow_nan=False) for entry in entries)
    blocks = ",\n  ".join(
        f"{json.dumps(block.name)}: {json.dumps(bits.packed())}"
        for block, bits in zip(program.blocks, formats.blocks, strict=True)
    )
    return f'{head},\n "fields": [\n  {fields}\n ],\n "blocks": {{\n  {blocks}\n }}\n}}\n'


def _digits(value: float, count: int) -> float:
    return float(f"{value:.{count}g}")


def unpack(content: bytes, source: str) -> PinnedFormats:
    """Reads a file of formats; raises ModelError where it is none."""
    try:
        document = json.loads(content)
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r}, not {FORMAT!r}")
        return _read(document, source)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ModelError(f"{source} holds no formats: {what}; take the {FILE} that stepmap generate wrote") from None


def _read(document: Mapping[str, Any], source: str) -> PinnedFormats:
    fields = document["fields"]
    word, bits = document["word"], [field["bits"] for field in fields]
    blocks = tuple(BlockFormats.unpacked(block) for block in document["blocks"].values())
    if word not in WORDS or not all(type(f) is int and abs(f) < 128 for f in bits):
        raise ValueError("fraction bits must be whole numbers, of words of 16 to 32 bits")
    ranges = [(f["low"], f["high"], math.inf if f["headroom"] is None else f["headroom"], f["error"]) for f in fields]
    numbers = {name: np.array(document[name], dtype=float) for name in ("variances", "row")}
    start = np.array([field["start"] for field in fields], dtype=float)
    measured = [np.array(ranges, dtype=float).ravel(), start, *numbers.values()]
    if any(np.isnan(values).any() for values in measured) or min((r[3] for r in ranges), default=1) <= 0:
        raise ValueError("a range or an error is not a number")
    return PinnedFormats(
        source=source,
        system=str(document["system"]),
        model=str(document["model"]),
        made_of=dict(document["made_of"]),
        names=tuple(str(field["name"]) for field in fields),
        formats=Formats(word, tuple(bits), blocks),
        start=start,
        ranges=ranges,
        **numbers,
    )
