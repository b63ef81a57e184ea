"""Set-points from a CSV file: a column t, and one per streamed coordinate."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import JobError, ModelError
from stepmap.jobs.columns import TIME, Columns, read_columns
from stepmap_codegen.stream.settings import Quantity, Stream

UNIT = re.compile(r"^(?P<name>.*?)\s*\[(?P<unit>[^\]]*)\]$")
FACTORS = {("m", "mm"): 1e-3, ("m", "cm"): 1e-2, ("rad", "deg"): np.pi / 180, ("s", "ms"): 1e-3}  # SI, as written
SLACK = 1e-6  # of a range or a rate: files are rounded


@dataclass(frozen=True, eq=False)
class TableReference:
    """A motion with all streamed coordinates; those the file does not name stay where the plan ends."""

    columns: Columns
    stream: Stream

    @property
    def seconds(self) -> float:
        return float(self.columns.t[-1])

    @property
    def repeatable(self) -> bool:
        return True

    def open(self, start: Array) -> TableSource:
        return TableSource(self.columns, self.stream.names, start)

    def __repr__(self) -> str:
        """By what it says, for the digest of a run."""
        return f"TableReference({self.columns.t.tolist()}, {[v.tolist() for v in self.columns.values.values()]})"


@dataclass(frozen=True, eq=False)
class TableSource:
    """Linear between rows; the first row before them, the last one after."""

    columns: Columns
    names: list[str]
    start: Array

    def at(self, t: float) -> Array | None:
        values = self.columns.values
        return np.array(
            [
                np.interp(t, self.columns.t, values[name]) if name in values else at
                for name, at in zip(self.names, self.start, strict=True)
            ]
        )

    def close(self) -> None:
        pass


def read_table(path: Path, stream: Stream) -> TableReference:
    """The file as set-points; raises JobError with file and line for what the board would not follow."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"--reference: {path} cannot be read: {error.strerror}",
            hint='Name a CSV file, a device like /dev/input/js0, or "joystick".',
        ) from None
    head, end, body = content.partition(b"\n")
    names, factors = _header(head, stream, str(path))
    plain = read_columns(str(path), ",".join(names).encode() + end + body, stream.names, "streamed coordinate")
    values = {name: factors.get(name, 1.0) * column for name, column in plain.values.items()}
    made = Columns(plain.file, plain.lines, factors.get(TIME, 1.0) * plain.t, values)
    if not values:
        raise JobError(
            "has no column but t",
            file=str(path),
            line=1,
            hint=f"Add one for {' or '.join(stream.names)}.",
        )
    if made.t[0] < 0:
        raise JobError(f"t counts from the end of the plan, got {made.t[0]:g}", file=str(path), line=made.lines[0])
    for q in stream.quantities:
        if q.name in values:
            _require(made, q)
    return TableReference(made, stream)


def _header(head: bytes, stream: Stream, file: str) -> tuple[list[str], dict[str, float]]:
    """Names of the columns without units, and factors to SI where they have one, as in "xm [mm]"."""
    units = {TIME: "s", **{q.name: q.unit for q in stream.quantities}}
    names, factors = [], {}
    for cell in head.decode("utf-8-sig", "replace").strip().split(","):
        found = UNIT.match(cell.strip().strip('"'))
        name = found["name"] if found else cell.strip().strip('"')
        names.append(name)
        if found is None or name not in units:
            continue
        unit, si = found["unit"].strip(), units[name]
        if unit != si and (si, unit) not in FACTORS:
            known = ", ".join([si, *(other for of, other in FACTORS if of == si)])
            raise JobError(f"{name} is in {unit!r}, and may be in {known}", file=file, line=1)
        factors[name] = FACTORS.get((si, unit), 1.0)
    return names, factors


def _require(made: Columns, q: Quantity) -> None:
    """Raises where a column leaves the limits of its coordinate, or changes faster than the board lets it."""
    values = made.values[q.name]
    slack = SLACK * (q.high - q.low)
    outside = np.flatnonzero((values < q.low - slack) | (values > q.high + slack))
    if len(outside):
        k = int(outside[0])
        raise JobError(
            f"{q.name} is {values[k]:g} {q.unit}, outside {q.low:g} … {q.high:g}",
            file=made.file,
            line=made.lines[k],
            hint=f"Keep it inside, or widen low and high of {q.name} in [stream.of] of the job.",
        )
    rates = np.abs(np.diff(values)) / np.diff(made.t)
    fast = np.flatnonzero(rates > q.rate * (1 + SLACK) + SLACK * q.rate)
    if len(fast):
        k = int(fast[0])
        raise JobError(
            f"{q.name} changes by {rates[k]:.3g} {q.unit}/s up to here, and may by {q.rate:g}",
            file=made.file,
            line=made.lines[k + 1],
            hint=f"Give it more time, or raise rate of {q.name} in [stream.of] of the job.",
        )
