"""Which frames of a mechanism move together, and about which point: what a dancer's limbs are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics import System
from stepmap.mechanics.frames import Frame

SAME = 1e-9  # m


@dataclass(frozen=True)
class Limb:
    """Named frames that a joint carries rigidly, about a named frame in the joint's centre.

    Without a centre they follow the nearest named frame before them; without that, they are where the mechanism
    begins.
    """

    frames: tuple[str, ...]
    centre: str | None
    rigid: bool  # whether the distance to the centre never changes


def limbs(system: System, names: Sequence[str]) -> list[Limb]:
    """The named frames by what carries them, from the root outwards."""
    rng = np.random.default_rng(0)
    poses = system.tangent.normalize(rng.uniform(-1.0, 1.0, (5, len(system.coordinates))))
    where = dict(zip(system.frame_names, np.moveaxis(system.positions(poses), 1, 0), strict=True))
    carried: dict[tuple[int | None, str | None], list[str]] = {}
    rigid: dict[tuple[int | None, str | None], bool] = {}
    for frame in sorted((f for f in system.frames if f.name in names), key=lambda f: f.index):
        joint = _carrier(frame, where)
        at = None if joint is None else next((n for n in names if _same(where[n], where[joint.name])), None)
        centre, fixed = at, at is not None
        if centre is None or centre == frame.name:
            centre, fixed = before(frame, names), False
        key = (None if joint is None or not fixed else joint.index, centre)
        if not fixed:
            key = (-1 - frame.index, centre)  # each by itself
        carried.setdefault(key, []).append(frame.name)
        rigid[key] = fixed
    return [Limb(tuple(frames), key[1], rigid[key]) for key, frames in carried.items()]


def moves(system: System, name: str) -> bool:
    """Whether a frame can be anywhere else."""
    rng = np.random.default_rng(1)
    poses = system.tangent.normalize(rng.uniform(-1.0, 1.0, (3, len(system.coordinates))))
    places = system.positions(poses)[:, system.frame_names.index(name)]
    return bool(np.ptp(places, axis=0).max() > SAME)


def _carrier(frame: Frame, where: dict[str, Array]) -> Frame | None:
    """The nearest frame before this one that turns about a point of its own; None where nothing turns it."""
    at: Frame | None = frame
    while at is not None:
        turns = at.motion is not None and at.motion.coordinate is not None and at.motion.turns
        if turns and not _same(where[at.name], where[frame.name]):
            return at
        at = at.parent
    return None


def before(frame: Frame, names: Sequence[str]) -> str | None:
    """The nearest named frame that carries another."""
    at = frame.parent
    while at is not None and at.name not in names:
        at = at.parent
    return None if at is None else at.name


def _same(a: Array, b: Array) -> bool:
    return bool(np.abs(a - b).max() < SAME)
