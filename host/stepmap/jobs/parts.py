"""Tables that jobs of every kind have: the system, the time, the start."""

from __future__ import annotations

from typing import Any, cast

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.jobs.system import read_system
from stepmap.mechanics import System
from stepmap.simulation import start_pose
from stepmap.steps.variational import LEFT, Forces
from stepmap.toml.tables import Table

__all__ = ["RESERVED", "SHARED", "read_forces", "read_pose", "read_range", "read_start", "read_system", "read_time"]

RESERVED = ("codegen", "board", "bench", "stream")  # of later stages, which read and check them
SHARED = ("job", "filter", *RESERVED)  # that a job of any kind may have
MOST_STEPS = 1_000_000  # more than any search could take, and little enough to be kept in memory
WHOLE = 1e-9  # how far duration/dt may be from a whole number


def read_forces(table: Table) -> Forces:
    """How forces act within a step, of [time]."""
    return cast(Forces, table.choice("forces", tuple(LEFT), "held"))


def read_time(table: Table) -> tuple[float, int]:
    """dt [s] and the number of steps."""
    table.only(("dt", "duration", "steps", "forces"))
    table.need("dt", "Give the time step [s].")
    dt = table.number("dt", unit="seconds")
    if not dt > 0:
        raise table.error(f"must be positive, got {dt:g}", "dt")
    if ("duration" in table) == ("steps" in table):
        raise table.error("give either duration [s] or steps")
    if "steps" in table:
        steps = table.whole("steps")
        if steps < 1:
            raise table.error(f"the horizon must have at least one step, got {steps}", "steps")
        if steps > MOST_STEPS:
            raise table.error(f"the horizon may have {MOST_STEPS} steps at most, got {steps}", "steps")
        return dt, steps
    duration = table.number("duration", unit="seconds")
    count = duration / dt
    if count > MOST_STEPS:
        raise table.error(f"the horizon may have {MOST_STEPS} steps at most, this is {count:.4g}", "duration")
    steps = round(max(count, 0.0))  # of a large negative number the quotient is infinite
    if steps < 1:
        raise table.error(f"the horizon must have at least one step of {dt:g} s, got {duration:g} s", "duration")
    if abs(count - steps) > WHOLE * max(1.0, count):
        raise table.error(
            f"must be a whole number of steps: {duration:g} s is {count:.9g} steps of {dt:.9g} s", "duration"
        )
    return dt, steps


def read_pose(table: Table, system: System, *others: str) -> dict[str, float]:
    """Values by coordinate; what turns freely may be given whole, as [w, x, y, z], after [x, y, z] of a free body."""
    units = {c.name: c.unit for c in system.coordinates}
    whole = {ball.name: (*ball.place, *ball.entries) for ball in system.balls}
    table.only((*units, *whole, *others), "coordinate")
    values: dict[str, float] = {}
    for name in table:
        if name in whole:
            entries = whole[name]
            given = table.numbers(name, ())
            if len(given) != len(entries):
                form = "[w, x, y, z], a quaternion" if len(entries) == 4 else "[x, y, z, w, x, y, z]"
                raise table.error(f"expected {form}, got {len(given)} numbers", name)
            values.update(zip((c.name for c in entries), given, strict=True))
        elif name in units:
            values[name] = table.number(name, unit=units[name])
    return values


def read_start(table: Table, system: System) -> Array:
    """q̄ at the start: the system's own, with what the job names; on the constraints, or put there if it asks for it."""
    wanted = read_pose(table, system, "satisfy")
    try:
        if table.flag("satisfy"):
            return start_pose(system, wanted)
        pose = system.configuration(wanted)
        system.require_on_constraints(pose)
    except ConvergenceError as error:
        raise table.error(str(error), "satisfy") from None
    except ModelError as error:
        reason = str(error).partition(";")[0]
        raise table.error(f"{reason}; give coordinates that agree, or satisfy = true") from None
    return pose


def read_range(table: Table, key: str) -> Any:
    """[low, high], a table with one of them, or one number for both."""
    value = table.entries[key]
    if isinstance(value, dict):
        inner = table.table(key)
        inner.only(("low", "high"))
        return tuple(inner.number(end) if end in inner else None for end in ("low", "high"))
    return table.numbers(key, ()) if isinstance(value, list) else table.number(key)
