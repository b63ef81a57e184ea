"""Lengths of steps: one for all, or one per step."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, numbers, rows
from stepmap.errors import ShapeError


def lengths_of(dt: ArrayLike, n: int) -> Array:
    """Lengths of n steps as a kernel takes them, (1) or (n)."""
    lengths = numbers(dt, "dt")
    lengths = rows(lengths, lengths.shape[-1], "dt")
    if lengths.shape not in ((1,), (n,)):
        raise ShapeError(f"dt: expected one length, or {n}, one per step, got shape {lengths.shape}")
    if not (lengths > 0).all():
        raise ShapeError(f"dt: lengths of steps must be positive, got {lengths.min():g}")
    return lengths


def length_of(lengths: Array | None, k: int) -> float | None:
    """Length of step k; None where it is the map's own."""
    return None if lengths is None else float(lengths[k if len(lengths) > 1 else 0])


def times(lengths: Array, n: int) -> Array:
    """Times (n+1) of the ends of n steps, from 0."""
    if len(lengths) == 1:
        return float(lengths[0]) * np.arange(n + 1)
    return np.concatenate([[0.0], np.cumsum(lengths)])
