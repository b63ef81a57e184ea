"""Motions in CSV files: a header with names, a column t, numbers below."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import JobError
from stepmap.text import nearest
from stepmap.toml.tables import shown

TIME = "t"


@dataclass(frozen=True, eq=False)
class Columns:
    """A motion as a file has it: times that increase, values by name, the line of each row."""

    file: str
    lines: list[int]
    t: Array
    values: dict[str, Array]

    def at(self, t: Array) -> dict[str, Array]:
        """The values at times t, linear between rows; the file must reach from the first time to the last."""
        slack = 1e-9 * max(1.0, float(abs(t[-1])))
        line = None
        if self.t[0] > t[0] + slack:
            line = self.lines[0]
        elif self.t[-1] < t[-1] - slack:
            line = self.lines[-1]
        if line is not None:
            raise JobError(
                f"holds t = {self.t[0]:g} … {self.t[-1]:g} s, the job needs {t[0]:g} … {t[-1]:g} s; "
                "add rows, or change the job's duration",
                file=self.file,
                line=line,
            )
        return {name: np.interp(t, self.t, values) for name, values in self.values.items()}


def read_columns(file: str, content: bytes, known: Collection[str], what: str = "coordinate or force input") -> Columns:
    """A CSV file whose columns are t and any of the ``known`` names; ``what`` they are is for messages."""
    rows = _rows(content, file)
    if not rows:
        raise JobError("is empty; the first row holds names, t and coordinates or inputs", file=file, line=1)
    (line, names), *body = rows
    _check_header(names, known, what, file, line)
    if not body:
        raise JobError("has a header and no rows", file=file, line=line)
    lines = [at for at, _ in body]
    table = np.array([_numbers(row, names, file, at) for at, row in body])
    values = {name: table[:, i] for i, name in enumerate(names)}
    t = values.pop(TIME)
    late = np.flatnonzero(np.diff(t) <= 0)
    if len(late):
        at = int(late[0]) + 1
        text = f"t must increase from row to row, got {t[at]:g} after {t[at - 1]:g}"
        raise JobError(text, file=file, line=lines[at])
    return Columns(file, lines, t, values)


def _rows(content: bytes, file: str) -> list[tuple[int, list[str]]]:
    """(line, cells) of all rows that are not blank."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise JobError(f"is not UTF-8 text: {error.reason}", file=file, line=line) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows = []
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                rows.append((reader.line_num, stripped))
    except csv.Error as error:
        raise JobError(f"is not valid CSV: {error}", file=file, line=reader.line_num) from None
    return rows


def _check_header(names: list[str], known: Collection[str], what: str, file: str, line: int) -> None:
    if TIME not in names:
        raise JobError(f"no column is called 't'; the header holds {', '.join(names)}", file=file, line=line)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise JobError(f"two columns are called {name!r}", file=file, line=line)
        if name != TIME and name not in known:
            text = f"column {i + 1}: no {what} is called {name!r}"
            raise JobError(text, file=file, line=line, hint=nearest(name, known))


def _numbers(cells: list[str], names: list[str], file: str, line: int) -> list[float]:
    if len(cells) != len(names):
        raise JobError(f"expected {len(names)} cells as in the header, got {len(cells)}", file=file, line=line)
    made = []
    for name, cell in zip(names, cells, strict=True):
        try:
            value = float(cell)
        except ValueError:
            raise JobError(f"{name}: expected a number, got {shown(cell)}", file=file, line=line) from None
        if not np.isfinite(value):
            raise JobError(f"{name}: must be finite, got {cell}", file=file, line=line)
        made.append(value)
    return made
