"""Room between what moves and what stands: the least distance of their surfaces, pose by pose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.geometry.clearances import Clearances

BETWEEN = 10  # places in every step


@dataclass(frozen=True, eq=False)
class Room:
    """The least distance [m] of the parts of one clearance from obstacles of one kind, at every pose."""

    label: str  # "clearance of body from the heightmap"
    margin: float  # [m] that was asked for
    values: Array


def rooms(bound: Sequence[Clearances], poses: Array) -> list[Room]:
    """The room at poses (K, nq), one entry per label of each clearance."""
    found = []
    for one in bound:
        distances = one.evaluate(poses) + one.margin
        for label in dict.fromkeys(one.labels):
            own = [i for i, other in enumerate(one.labels) if other == label]
            found.append(Room(label, one.margin, distances[:, own].min(axis=1)))
    return found


def between(bound: Sequence[Clearances], t: Array, poses: Array) -> tuple[Array, Array]:
    """Times and poses of a path at its nodes and at ten places of every step, straight and turning evenly."""
    tangent = bound[0].system.tangent
    part = np.arange(1, BETWEEN + 1)[:, None, None] / (BETWEEN + 1)
    way = part * tangent.difference(poses[:-1], poses[1:])
    inner = tangent.retract(np.broadcast_to(poses[:-1], (BETWEEN, *poses[:-1].shape)), way)
    steps = np.concatenate([poses[None, :-1], inner]).swapaxes(0, 1).reshape(-1, poses.shape[1])
    times = (t[:-1, None] + np.diff(t)[:, None] * np.arange(BETWEEN + 1) / (BETWEEN + 1)).ravel()
    return np.append(times, t[-1]), np.concatenate([steps, poses[-1:]])
