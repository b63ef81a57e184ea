"""Set-points that a board has followed, tick by tick, and the references that came of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepmap.arrays import Array
from stepmap_codegen import Controller
from stepmap_codegen.model.scalar import Scalar
from stepmap_codegen.stream.follower import decoded
from stepmap_codegen.stream.tangent import Tangent
from stepmap_hil.wire.raw_values import SignalCodec

if TYPE_CHECKING:
    from stepmap_hil.runs.log import Row


@dataclass(frozen=True)
class Followed:
    """What a board said of set-points in one tick, as it is recorded in /set_point."""

    tick: int
    sequence: int  # of the last set-point that had come; 0 before the first
    state: int  # STEPMAP_STREAM_…
    value: list[int]  # raw values, followed in this tick
    next: list[int]  # of the next tick


def end_tangent(controller: Controller) -> Tangent | None:
    """How references follow set-points, as the board's schedule has it; None for a job without a stream."""
    stream, schedule, step = controller.plant.stream, controller.schedule, controller.plant.step
    if stream is None or schedule.tangent is None:
        return None
    if schedule.scalar is Scalar.FIXED32:
        D, E = decoded(schedule.tangent, schedule.fractions, stream.states)
    else:
        D, E = np.split(schedule.tangent.astype(float), 2)
    count, last = step.nx + step.nu, schedule.values()[-1]
    return Tangent(stream.states, last[: step.nx], last[step.nx : count], D[:, :count], E[:, :count])


def references(controller: Controller, rows: Sequence[Row], followed: Mapping[int, Followed]) -> Array:
    """[x_ref, u_ref] of the ticks of a run: of the schedule, and after its end of the set-points that were followed."""
    step, values, at = controller.plant.step, controller.schedule.values(), end_tangent(controller)
    codec = SignalCodec.parse(controller.description())
    chosen = [codec.row_of(row.modes) for row in rows]  # by robots that walk; all others count ticks
    at_row = [row.tick if k is None else k for row, k in zip(rows, chosen, strict=True)]
    made = np.array([values[min(k, len(values) - 1), : step.nx + step.nu] for k in at_row])
    for k, row in enumerate(rows):
        told = followed.get(row.tick)
        if at is not None and told is not None and row.tick >= len(values) - 1:
            value, after = (set_points(controller, raw) for raw in (told.value, told.next))
            made[k] = at.reference(value, after - value)
    return made


def set_points(controller: Controller, raw: Sequence[int]) -> Array:
    """Set-points in SI units."""
    stream, schedule = controller.plant.stream, controller.schedule
    states = [] if stream is None else stream.states
    words = np.array(raw[: len(states)], dtype="<i4")
    if schedule.scalar is not Scalar.FIXED32:
        return words.view("<f4").astype(float)
    scaled: Array = words * 2.0 ** -np.array([schedule.fractions[i] for i in states], dtype=float)
    return scaled
