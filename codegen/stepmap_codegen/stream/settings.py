"""The table [stream] of a job: quantities that set-points are streamed for, and their limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics import System
from stepmap.toml.tables import Table

HOLD = 0.5  # s
SPEED_UP = 0.5  # s from rest to the full rate, where no acceleration is given
MOST_HOLD = 60.0  # s
MOST = 6  # quantities: STEPMAP_STREAM_LIMIT of the dialect


@dataclass(frozen=True)
class Quantity:
    """A streamed coordinate, and what the board keeps its set-point within."""

    name: str
    unit: str
    state: int  # its place in x
    low: float
    high: float
    rate: float  # most change per second
    acceleration: float  # most change of that per second


@dataclass(frozen=True)
class Stream:
    """What set-points are of."""

    quantities: tuple[Quantity, ...]
    hold: float = HOLD  # s without a set-point, after which the board stays where it is

    @property
    def names(self) -> list[str]:
        return [q.name for q in self.quantities]

    @property
    def states(self) -> list[int]:
        return [q.state for q in self.quantities]

    @property
    def low(self) -> Array:
        return np.array([q.low for q in self.quantities])

    @property
    def high(self) -> Array:
        return np.array([q.high for q in self.quantities])

    @property
    def rate(self) -> Array:
        return np.array([q.rate for q in self.quantities])

    @property
    def acceleration(self) -> Array:
        return np.array([q.acceleration for q in self.quantities])


def read_stream(root: Table, system: System) -> Stream | None:
    """The table [stream] of a job's outermost table, None where there is none; raises JobError with the line."""
    if "stream" not in root:
        return None
    table = root.table("stream")
    table.only(("of", "hold"))
    hold = table.number("hold", HOLD, unit="seconds")
    if not 0 < hold <= MOST_HOLD:
        raise table.error(f"must be above 0 and at most {MOST_HOLD:g} s, got {hold:g}", "hold")
    of = table.table("of")
    names = [c.name for c in system.coordinates]
    of.only(names, "coordinate")
    if not list(of):
        raise table.error("names no coordinate", "of", hint="Add one, like xm = { rate = 0.3 } in [stream.of].")
    if len(list(of)) > MOST:
        raise of.error(f"streams {len(list(of))} coordinates, and messages carry {MOST}; leave some out")
    return Stream(tuple(_quantity(of.table(name), system, names.index(name)) for name in of), hold)


def _quantity(table: Table, system: System, place: int) -> Quantity:
    coordinate = system.coordinates[place]
    table.only(("low", "high", "rate", "acceleration"))
    table.need("rate", f"Give the most that {coordinate.name} may change per second [{coordinate.unit}/s].")
    rate = table.number("rate", unit=f"{coordinate.unit}/s")
    if not rate > 0:
        raise table.error(f"must be positive, got {rate:g}", "rate")
    acceleration = table.number("acceleration", rate / SPEED_UP, unit=f"{coordinate.unit}/s²")
    if not acceleration > 0:
        raise table.error(f"must be positive, got {acceleration:g}", "acceleration")
    ends = []
    for name, declared in (("low", coordinate.low), ("high", coordinate.high)):
        if name not in table and declared is None:
            raise table.error(f"{name!r} is missing, and the system gives no limit of {coordinate.name}")
        ends.append(table.number(name, declared, unit=coordinate.unit))
        beyond = declared is not None and (ends[-1] < declared if name == "low" else ends[-1] > declared)
        if beyond:
            raise table.error(f"{ends[-1]:g} {coordinate.unit} is beyond the system's limit, {declared:g}", name)
    if not ends[0] < ends[1]:
        raise table.error(f"low must be below high, got {ends[0]:g} and {ends[1]:g}")
    return Quantity(coordinate.name, coordinate.unit, place, ends[0], ends[1], rate, acceleration)
