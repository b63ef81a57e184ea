"""What holds the start of a plan with forces from the moment a board is armed until run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError
from stepmap.optimal.lqr import riccati
from stepmap.steps.protocol import Trajectory
from stepmap_codegen.lower.controller import Plant
from stepmap_codegen.model.program import Program, Role

AT_REST = 1e-6  # of a state: what a step may move one that is held


def hold_rows(program: Program, plant: Plant, trajectory: Trajectory) -> list[Array]:
    """Rows of the schedule that hold the plan's first state, the best first; none for plans without forces.

    A start that some forces keep is held by them, with the plan's first gain where that holds it and else with that of
    a regulator. Any other start cannot be held: it gets the plan's first command with its gain, the last of the rows.
    """
    step = plant.step
    count = len(step.system.inputs)
    if not count:
        return []
    x, first = trajectory.x[0], plant.gains[0]
    places = [field.place for field in program.fields if field.role is Role.SCHEDULE and field.place]
    used = np.zeros_like(first)
    for place in places:
        used[place] = 1.0

    def row(u: Array, gain: Array) -> Array:
        return np.concatenate([x, u, [gain[place] for place in places]])

    forces = step.holding_forces(step.layout.pose(x))
    rows = []
    if forces is not None:
        u = step.layout.hold(x, forces)
        limits = [
            (-np.inf if i.low is None else i.low, np.inf if i.high is None else i.high) for i in step.system.inputs
        ]
        inside = all(low <= f <= high for f, (low, high) in zip(forces, limits, strict=True))
        if inside and np.abs(step.step(x, u).x - x).max() < AT_REST * (1.0 + np.abs(x).max()):
            rows = [row(u, used * gain) for gain in _holding(plant, x, u, used)]
    return [*rows, row(trajectory.u[0], first)]


def _holding(plant: Plant, x: Array, u: Array, used: Array) -> Iterator[Array]:
    """Gains that hold an equilibrium by its forces alone, kinematic coordinates at rest."""
    step = plant.step
    count = len(step.system.inputs)
    at = step.linearize(x, u)
    B = at.B[:, :count]

    def holds(gain: Array) -> bool:
        closed = at.A - B @ (used * gain)[:count]
        return bool(np.abs(np.linalg.eigvals(closed)).max() < 1.0 + 1e-9)

    first = plant.gains[0]
    if holds(first):
        yield first
    regulator = _regulator(plant, at.A, B)
    if regulator is not None:
        full = np.zeros_like(first)
        full[:count] = regulator
        if holds(full):
            yield full
    if holds(np.zeros_like(first)):
        yield np.zeros_like(first)


def _regulator(plant: Plant, A: Array, B: Array) -> Array | None:
    """The gain of an infinite horizon: errors of the first estimate weigh as much as forces at their limits."""
    spread = np.diagonal(plant.noise.start).copy()
    spread[spread <= 0] = spread.max(initial=1e-6)
    spans = [max(abs(i.low or 0.0), abs(i.high or 0.0)) or 1.0 for i in plant.step.system.inputs]
    Q, R = np.diag(1.0 / spread), np.diag([span**-2.0 for span in spans])
    try:
        P = riccati(A, B, Q, R)
    except ConvergenceError:
        return None
    gain: Array = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
    return gain
