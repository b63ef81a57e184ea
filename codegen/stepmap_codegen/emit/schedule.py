"""The schedule blob: reference states, inputs and gains of every tick, in the formats of the generated code.

Little endian; docs/schedule.md has the layout, firmware/core/sm_schedule.h the reader in C.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import RangeError, ShapeError
from stepmap_codegen.model.formats import Formats
from stepmap_codegen.model.integer_machine import encode
from stepmap_codegen.model.program import Program, Role
from stepmap_codegen.model.scalar import Scalar
from stepmap_codegen.stream.follower import raw_tangent
from stepmap_codegen.stream.tangent import Tangent

MAGIC = b"SMS1"
VERSION, WALKING = 1, 2
HEAD = struct.Struct("<4sHH8sIHBBIHH")
"""Magic, version, header bytes, model, rows, entries, scalar, word, period, rows that hold the start, streams
or, of a robot that walks, rows of a step."""
FILES = ("schedule.bin", "schedule.h", "schedule.c")
SCALARS = {Scalar.FIXED32: (0, "<i4"), Scalar.FLOAT32: (1, "<f4"), Scalar.FLOAT64: (2, "<f8")}


@dataclass(frozen=True, eq=False)
class Schedule:
    """A blob's content."""

    model: str  # digest, 16 hexadecimal digits
    scalar: Scalar
    word: int
    period_us: int
    fractions: tuple[int, ...]  # fraction bits of each entry; zeros for floating point
    rows: Array  # (rows, entries): integers for fixed point
    hold: Array | None = None  # (entries): the row from arming to run, where forces hold the start
    tangent: Array | None = None  # (2 n, entries): how references follow n streamed set-points
    gait: int = 0  # rows of a step of a robot that walks, fewer than there are

    def values(self) -> Array:
        """Rows of the ticks in SI units."""
        return self.all_values()[: len(self.rows)]

    def all_values(self) -> Array:
        """The same, and behind them the row that holds the start, where there is one."""
        rows = self.rows if self.hold is None else np.vstack([self.rows, self.hold])
        if self.scalar is not Scalar.FIXED32:
            return rows.astype(float)
        scaled: Array = rows * 2.0 ** -np.array(self.fractions, dtype=float)
        return scaled

    @property
    def holds(self) -> int:
        """Rows behind those of the ticks: 1 where one holds the start, else 0."""
        return int(self.hold is not None)

    @property
    def streams(self) -> int:
        """Streamed set-points."""
        return 0 if self.tangent is None else len(self.tangent) // 2

    def pack(self) -> bytes:
        """The blob; its size is a multiple of eight, its last four bytes are the CRC-32 of all before."""
        code, kind = SCALARS[self.scalar]
        count, entries = self.rows.shape
        formats = np.array(self.fractions, dtype=np.int8).tobytes()
        size = _padded(HEAD.size + len(formats))
        named = (MAGIC, WALKING if self.gait else VERSION, size, bytes.fromhex(self.model))
        more = (self.holds, self.gait or self.streams)
        head = HEAD.pack(*named, count, entries, code, self.word, self.period_us, *more)
        body = (head + formats).ljust(size, b"\0") + self.rows.astype(kind).tobytes()
        for rows in (self.hold, self.tangent):
            body += b"" if rows is None else rows.astype(kind).tobytes()
        body = body.ljust(_padded(len(body) + 4) - 4, b"\0")
        return body + struct.pack("<I", zlib.crc32(body))


def unpack(blob: bytes) -> Schedule:
    """Reads a blob; raises ShapeError that says what is wrong with it."""
    if blob[:4] != MAGIC:
        raise ShapeError("this is no schedule: it does not begin with 'SMS1'")
    if len(blob) < HEAD.size + 4:
        raise ShapeError(f"the schedule is damaged: {len(blob)} bytes, and its head alone has {HEAD.size}")
    _, version, size, model, count, entries, code, word, period, holds, more = HEAD.unpack_from(blob)
    if version not in (VERSION, WALKING):
        raise ShapeError(
            f"the schedule has version {version}, this program reads {VERSION} and {WALKING}; generate it again"
        )
    streams, gait = (more, 0) if version == VERSION else (0, more)
    scalar = next((scalar for scalar, (number, _) in SCALARS.items() if number == code), None)
    if scalar is None:
        raise ShapeError(f"the schedule has scalars of an unknown kind, {code}")
    kind = np.dtype(SCALARS[scalar][1])
    total = count + holds + 2 * streams
    data = total * entries * kind.itemsize
    if not count * entries:
        raise ShapeError(f"the schedule is empty: {count} rows of {entries} entries")
    if version == WALKING and not 0 < gait < count:
        raise ShapeError(f"the schedule is damaged: {gait} of its {count} rows are a step")
    if holds > 1 or size != _padded(HEAD.size + entries) or len(blob) != _padded(size + data + 4):
        raise ShapeError(f"the schedule is damaged: {len(blob)} bytes do not hold {count} rows of {entries}")
    if zlib.crc32(blob[:-4]) != struct.unpack("<I", blob[-4:])[0]:
        raise ShapeError("the schedule is damaged: its CRC is wrong")
    fractions = tuple(int(f) for f in np.frombuffer(blob, np.int8, entries, HEAD.size))
    rows = np.frombuffer(blob, kind, total * entries, size).reshape(total, entries)
    wide = rows.astype(np.int64) if scalar is Scalar.FIXED32 else rows
    hold, tangent = wide[count] if holds else None, wide[count + holds :] if streams else None
    return Schedule(model.hex(), scalar, word, period, fractions, wide[:count], hold, tangent, gait)


def same(one: Schedule, other: Schedule) -> bool:
    """Whether two schedules are for the same controller and differ by no more than a unit of each format.

    The unit of floating point is 2⁻²² of an entry's largest value.
    """
    kinds = [
        (s.model, s.scalar, s.word, s.period_us, s.fractions, s.rows.shape, s.holds, s.streams, s.gait)
        for s in (one, other)
    ]
    if kinds[0] != kinds[1]:
        return False
    unit: Array = 2.0 ** -np.array(one.fractions, dtype=float)
    a, b = one.all_values(), other.all_values()
    if one.scalar is not Scalar.FIXED32:
        unit = 2.0**-22 * np.abs(a).max(axis=0, initial=0.0)
    if one.tangent is not None and other.tangent is not None:
        units = 1.0 if one.scalar is Scalar.FIXED32 else 2.0**-22 * np.abs(one.tangent).max(initial=0.0)
        if (np.abs(one.tangent - other.tangent) > units).any():
            return False
    return bool((np.abs(a - b) <= unit).all())


def make_schedule(
    program: Program,
    formats: Formats | None,
    scalar: Scalar,
    model: str,
    values: Array,
    holds: Sequence[Array] = (),
    tangent: Tangent | None = None,
) -> Schedule:
    """A schedule from rows in SI units; raises RangeError where one does not fit its format.

    ``holds`` are rows that hold the start, the best first: the first that fits is in the schedule.
    """
    indices = program.of(Role.SCHEDULE)
    period = round(program.period * 1e6)
    if formats is None:
        held = values.astype(SCALARS[scalar][1])  # as the board will read them
        first = holds[0].astype(SCALARS[scalar][1]) if holds else None
        slopes = None if tangent is None else _padded_rows(tangent, len(indices)).astype(SCALARS[scalar][1])
        return Schedule(model, scalar, 32, period, (0,) * len(indices), held, first, slopes)
    fractions = tuple(formats.fields[i] for i in indices)
    tops = 2.0 ** (formats.word - 1.0 - np.array(fractions))
    for i, top, column in zip(indices, tops, values.T, strict=True):
        k = int(np.argmax(np.abs(column)))
        if abs(column[k]) >= top:
            raise RangeError(
                f"signal {program.fields[i].name!r} ({program.fields[i].label}): {column[k]:.4g} in row {k} does not "
                f"fit its format of ±{top:g}",
                hint="Generate the controller again for this schedule.",
                signal=program.fields[i].name,
                value=float(column[k]),
                format=f"±{top:g}",
            )
    fitting = next((row for row in holds if (np.abs(row) < tops).all()), None)
    first = None if fitting is None else encode(fitting[:, None], fractions, formats.word)[:, 0]
    rows = encode(values.T, fractions, formats.word).T
    raw = None if tangent is None else _raw_tangent(tangent, fractions)
    return Schedule(model, scalar, formats.word, period, fractions, rows, first, raw)


def _padded_rows(tangent: Tangent, entries: int) -> Array:
    """D and E as rows of a schedule; gains do not change."""
    rows = np.vstack([tangent.D, tangent.E])
    return np.pad(rows, ((0, 0), (0, entries - rows.shape[1])))


def _raw_tangent(tangent: Tangent, fractions: Sequence[int]) -> Array:
    """The same as raw values; raises RangeError where one is too large."""
    raw = raw_tangent(_padded_rows(tangent, len(fractions)), fractions, tangent.states)
    if (np.abs(raw) >= 2.0**31).any():
        raise RangeError(
            "[stream]: a reference changes too much with its set-point for the formats of this controller",
            hint="Stream coordinates with a larger range, or leave out those that move others by very much.",
        )
    return raw.astype(np.int64)


def emit_schedule(blob: bytes) -> dict[str, str]:
    """The blob as const C, for chips that hold it in their image."""
    header = [
        "/* The schedule of this job as compiled in, for boards that keep none; generated by stepmap. */",
        "#ifndef SM_SCHEDULE_IMAGE_H",
        "#define SM_SCHEDULE_IMAGE_H",
        "",
        "#include <stdint.h>",
        "",
        f"#define SM_SCHEDULE_BYTES {len(blob)}U",
        "",
        "/* A blob as sm_schedule_open takes it. */",
        "extern const uint32_t sm_schedule_image[SM_SCHEDULE_BYTES / 4U];",
        "",
        "#endif",
        "",
    ]
    words = [f"0x{word:08x}" for word in np.frombuffer(blob, "<u4")]
    lines = [", ".join(words[k : k + 10]) + "," for k in range(0, len(words), 10)]
    source = ['#include "schedule.h"', "", "const uint32_t sm_schedule_image[SM_SCHEDULE_BYTES / 4U] = {"]
    source += [f"    {line}" for line in lines] + ["};", ""]
    return {"schedule.h": "\n".join(header), "schedule.c": "\n".join(source)}


def _padded(size: int) -> int:
    return -(-size // 8) * 8
