"""Inputs as they act: late, with gains and offsets, and their derivatives by these.

A delay of τ takes commands from between ticks, by a cubic through four of them (Catmull and Rom): mixing two of them
linearly has a kink at whole periods, and with it two minima where one should be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepmap.arrays import Array
from stepmap.identification.unknowns import DELAY, GAIN, OFFSET, Unknowns


class Acting(NamedTuple):
    """Inputs (N, nu), and their derivatives by the values of the unknowns (N, nu, n)."""

    U: Array
    D: Array


def acting(unknowns: Unknowns, values: Array, U: Array, before: Array, dt: float) -> Acting:
    """Inputs that act where U was commanded."""
    made, slopes = U, np.zeros((*U.shape, len(unknowns.free)))
    held = {one.name: one for one in unknowns.held}
    late = [(i, values[i]) for i, _ in unknowns.of(DELAY)]
    if late:
        made, slopes[:, :, late[0][0]] = delayed(U, before, late[0][1], dt)
    elif DELAY in held:
        made, _ = delayed(U, before, held[DELAY].value, dt)
    made = made.copy()
    for one in unknowns.held:
        if one.kind == GAIN:
            made[:, one.place] *= one.value
            slopes[:, one.place] *= one.value
    for i, one in unknowns.of(GAIN):
        slopes[:, one.place] *= values[i]
        slopes[:, one.place, i] += made[:, one.place]
        made[:, one.place] *= values[i]
    for one in unknowns.held:
        if one.kind == OFFSET:
            made[:, one.place] += one.value
    for i, one in unknowns.of(OFFSET):
        made[:, one.place] += values[i]
        slopes[:, one.place, i] += 1.0
    return Acting(made, slopes)


def delayed(U: Array, before: Array, delay: float, dt: float) -> tuple[Array, Array]:
    """Inputs (N, nu) by a delay later, and their derivative by it; before the first they were ``before``."""
    whole = int(np.floor(delay / dt))
    a = delay / dt - whole

    def shifted(ticks: int) -> Array:
        index = np.arange(len(U)) - ticks
        return np.where((index < 0)[:, None], before, U[np.clip(index, 0, len(U) - 1)])

    p0, p1, p2, p3 = (shifted(whole + k) for k in (-1, 0, 1, 2))
    c1, c2, c3 = (p2 - p0) / 2, p0 - 2.5 * p1 + 2 * p2 - 0.5 * p3, -0.5 * p0 + 1.5 * p1 - 1.5 * p2 + 0.5 * p3
    return p1 + a * (c1 + a * (c2 + a * c3)), (c1 + a * (2 * c2 + 3 * a * c3)) / dt


class Finer(NamedTuple):
    """Inputs of a finer map, their derivatives, and what the first coarse step has of the first ρ, (substeps)."""

    U: Array
    D: Array
    rho: Array


def finer(given: Acting, rho: Array, forces: int, substeps: int) -> Finer:
    """The same inputs on a map with a shorter step: forces are held, kinematic coordinates go there evenly."""
    U, D = (np.repeat(part, substeps, axis=0) for part in given)
    part = np.arange(1, substeps + 1) / substeps
    if substeps > 1 and U.shape[1] > forces:
        weight = np.tile(part, len(given.U))[:, None]
        from_u = np.vstack([rho[None], given.U[:-1, forces:]])
        from_d = np.concatenate([np.zeros_like(given.D[:1, forces:]), given.D[:-1, forces:]])
        U[:, forces:] = (1 - weight) * np.repeat(from_u, substeps, axis=0) + weight * U[:, forces:]
        D[:, forces:] = (1 - weight[..., None]) * np.repeat(from_d, substeps, axis=0) + weight[..., None] * D[
            :, forces:
        ]
    return Finer(U, D, 1 - part)
