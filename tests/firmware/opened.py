"""Schedules of a job opened by the firmware's own reader, for tests that call what reads them."""

from __future__ import annotations

import ctypes
from typing import Any

from stepmap_codegen import Controller
from tests.firmware import native_core

S = native_core.types("sm_schedule.h")


def opened(core: ctypes.CDLL, made: Controller) -> Any:
    """The sm_schedule of a controller in fixed point."""
    schedule, blob = S.sm_schedule(), made.schedule.pack()
    kind = S.sm_schedule_kind(entries=made.schedule.rows.shape[1], scalar=0, period_us=made.schedule.period_us)
    kind.model[:] = bytes.fromhex(made.digest)
    schedule.kept = ctypes.create_string_buffer(blob, len(blob))  # it must stay where it is
    core.sm_schedule_open.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    assert core.sm_schedule_open(ctypes.byref(schedule), schedule.kept, len(blob), ctypes.byref(kind)) == 0
    return schedule


def memory(made: Controller) -> Any:
    """A controller's fields, and behind them its count of overflows."""
    return (ctypes.c_int32 * (len(made.program.fields) + 1))()


def place(made: Controller, role: str) -> int:
    """Of the first field of a role."""
    return next(k for k, entry in enumerate(made.description()["fields"]) if entry["role"] == role)
