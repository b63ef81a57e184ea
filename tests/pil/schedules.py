"""Schedules of the main job's model, other than its own."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from stepmap_codegen.emit.schedule import unpack
from tests.pil.built import schedule

LARGE = 32 * 1024


def name(blob: bytes) -> bytes:
    """How a heartbeat names a schedule."""
    return hashlib.sha256(blob).digest()[:8]


def other(rows: int | None = None, off: int = 1) -> bytes:
    """A schedule with other gains, and with as many rows as are asked for."""
    made = unpack(schedule())
    table = made.rows if rows is None else np.resize(made.rows, (rows, made.rows.shape[1]))
    return replace(made, rows=table + off * (np.arange(table.shape[1]) == 12)).pack()


def large() -> bytes:
    """32 KiB, and at most a row more."""
    row = 4 * unpack(schedule()).rows.shape[1]
    head = len(other(1)) - row
    return other(-((head - LARGE) // row))


def small() -> bytes:
    """A few chunks."""
    return other(6)
