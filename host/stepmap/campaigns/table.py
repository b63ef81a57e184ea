"""Tables of trials as Parquet: the same rows give the same bytes, and nothing in them depends on the clock."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stepmap.campaigns.columns import OK, REASON, Column, Row, Value
from stepmap.campaigns.varied import Trial, Varied

TYPES = {"number": pa.float64(), "whole": pa.int64(), "text": pa.string(), "flag": pa.bool_()}
GROUP = 65536  # rows
WRITER: dict[str, Any] = {
    "version": "2.6",
    "compression": "zstd",
    "compression_level": 3,
    "data_page_version": "1.0",
    "row_group_size": GROUP,
    "use_dictionary": True,
    "write_page_checksum": True,
    "write_statistics": True,
}
"""Fixed, since the bytes follow from them."""

NUMBERS = ("trial", "point", "draw", "seed")


def schema(varied: Varied, columns: Sequence[Column], about: Mapping[str, str]) -> pa.Schema:
    """Numbers of the trial, what it was made with, whether it went through, and what it came to."""
    fields = [pa.field(name, pa.int64(), nullable=False) for name in NUMBERS]
    fields += [pa.field(name, _type(values)) for name, values in _values(varied).items()]
    fields += [pa.field(OK, pa.bool_(), nullable=False), pa.field(REASON, pa.string())]
    for c in columns:
        fields.append(pa.field(c.name, TYPES[c.type], metadata={"unit": c.unit, "about": c.about}))
    return pa.schema(fields, metadata={"stepmap": json.dumps(dict(about), sort_keys=True)})


def _values(varied: Varied) -> dict[str, Sequence[Value]]:
    drawn = {name: distribution.of for name, distribution in varied.random.items()}
    return {**varied.grid, **varied.together, **drawn}


def _type(values: Sequence[Value]) -> pa.DataType:
    if all(isinstance(value, bool) for value in values):
        return pa.bool_()
    return pa.string() if isinstance(values[0], str) else pa.float64()


def made(form: pa.Schema, trials: Sequence[Trial], rows: Sequence[Row]) -> pa.Table:
    """The table of some trials."""
    told: list[dict[str, Any]] = []
    for trial, row in zip(trials, rows, strict=True):
        told.append({**{name: getattr(trial, "number" if name == "trial" else name) for name in NUMBERS}})
        told[-1] |= {**trial.values, **row}
    arrays = [pa.array([_cell(row.get(f.name), f.type) for row in told], f.type) for f in form]
    return pa.Table.from_arrays(arrays, schema=form)


def _cell(value: Any, kind: pa.DataType) -> Any:
    if value is not None and pa.types.is_floating(kind):
        return float(value)
    return value


def encoded(table: pa.Table) -> bytes:
    """The content of a Parquet file."""
    out = io.BytesIO()
    pq.write_table(table.combine_chunks(), out, **WRITER)
    return out.getvalue()


def decoded(content: bytes, form: pa.Schema) -> pa.Table | None:
    """The table of a part; None where the content is damaged, or of another campaign."""
    try:
        found = pq.read_table(io.BytesIO(content), page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError):
        return None
    return found if found.schema.equals(form, check_metadata=True) else None


def joined(parts: Sequence[pa.Table]) -> pa.Table:
    """Parts one after the other."""
    return pa.concat_tables(parts)


def columns_of(table: pa.Table) -> dict[str, Any]:
    """Columns as arrays; what has no value is not a number, or None."""
    return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
