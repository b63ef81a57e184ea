"""Weights of terms: one number, one per entry, or rows of these, one per time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, numbers
from stepmap.errors import ModelError, ShapeError


def weight_rows(weight: ArrayLike, entries: int, what: str, *, signed: bool = False) -> Array:
    """Weights (times, entries), with one row where they are the same at all times.

    A list is one per entry; what changes with time has two axes, (times, entries) or (times, 1).
    """
    given = numbers(weight, "weight")
    rows = given[None] if given.ndim == 1 else given
    if rows.ndim != 2 or rows.shape[1] not in (1, entries) or not len(rows):
        raise ShapeError(
            f"weight: expected one number, or {entries}, one per {what}, or a row of these per time, (times, 1) or "
            f"(times, {entries}); got {given.shape}"
        )
    if not (np.isfinite(rows).all() and (signed or (rows >= 0).all())):
        raise ModelError(f"weight: must be finite{'' if signed else ' and not negative'}, got {weight!r}")
    return np.array(np.broadcast_to(rows, (len(rows), entries)))
