"""Closed loops of many laws at once, along one plan: filter, law with the motors' limits, and a plant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.estimate import Filter
from stepmap.estimate.measurement import measurement_model
from stepmap.estimate.protocol import Flags
from stepmap.steps import VariationalStep
from stepmap.steps.limits import InputBounds
from stepmap.steps.protocol import Trajectory


@dataclass(frozen=True, eq=False)
class Loop:
    """What is the same for all laws. Standard deviations are per step, per reading and of the first estimate."""

    step: VariationalStep  # the model, which filter and law know
    plant: VariationalStep  # what moves; with other parameters, perhaps
    filter: Filter[Any]
    trajectory: Trajectory
    start: Array  # of the plant
    process: Array
    measurement: Array
    spread: Array
    bounds: InputBounds | None


@dataclass(frozen=True, eq=False)
class Runs:
    """States (laws, runs, N + 1, nx) of the plant, commands (laws, runs, N, nu), ticks at a limit, runs that ended."""

    x: Array
    u: Array
    limited: Flags  # (laws, runs, N)
    lost: Flags  # (laws, runs)


def run(loop: Loop, gains: Array, runs: int, seed: int) -> Runs:
    """Runs of every law in gains (laws, N, nu, nx), all with the same noise."""
    step, along, laws = loop.step, loop.trajectory, len(gains)
    rng = np.random.default_rng(seed)

    def normal(deviations: Array) -> Array:
        drawn = deviations * rng.standard_normal((runs, len(deviations)))
        return np.broadcast_to(drawn, (laws, *drawn.shape)).reshape(laws * runs, -1)

    sensors = measurement_model(loop.plant)
    x = np.tile(loop.start, (laws * runs, 1))
    belief = loop.filter.start(step.layout.retract(along.x[0], normal(loop.spread)), np.diag(loop.spread**2))
    states, commands, limited, lost = [x], [], [], np.zeros(laws * runs, dtype=bool)
    for k in range(along.steps):
        z = sensors.readings(x) + normal(loop.measurement)
        belief, _ = loop.filter.update(belief, z)
        off = step.layout.difference(along.x[k], loop.filter.estimate(belief).x)
        wanted = along.u[k] - np.einsum("lij,lrj->lri", gains[:, k], off.reshape(laws, runs, -1)).reshape(len(x), -1)
        u = wanted if loop.bounds is None else loop.bounds.clamp(wanted, x)
        x, failed = _moved(loop.plant, step.layout.retract(x, normal(loop.process)), u)
        lost |= failed
        belief = loop.filter.predict(belief, u)
        states.append(x)
        commands.append(u)
        limited.append((u != wanted).any(axis=1))
    shape = (laws, runs)
    return Runs(
        np.moveaxis(np.array(states), 0, 1).reshape(*shape, along.steps + 1, -1),
        np.moveaxis(np.array(commands), 0, 1).reshape(*shape, along.steps, -1),
        np.array(limited).T.reshape(*shape, along.steps),
        lost.reshape(shape),
    )


def _moved(plant: VariationalStep, x: Array, u: Array) -> tuple[Array, Flags]:
    """All plants one step later; one that cannot go on stays where it is, and is lost."""
    found = plant.step_many(x, u, strict=False)
    return np.where(found.failed[:, None], x, found.x), found.failed
