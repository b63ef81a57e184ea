"""Contacts that stick: forces of point-to-point constraints against their friction cones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.constraints import PointToPoint
from stepmap.mechanics.system import System
from stepmap.steps import VariationalStep
from stepmap.steps.protocol import Trajectory
from stepmap.text import did_you_mean


@dataclass(frozen=True)
class Grip:
    """A ``point_to_point`` constraint in x, y and z as a contact with friction on its second frame.

    The inward normal leads from that frame towards the frame ``inside``; ``friction`` is Coulomb's coefficient.
    """

    name: str
    inside: str
    friction: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.friction) and self.friction > 0):
            raise ModelError(f"friction of grip {self.name!r}: must be positive, got {self.friction}")

    def rows(self, system: System) -> list[int]:
        """Rows of its three forces."""
        names = list(system.constraint_names)
        _point(self, system)
        return [names.index(f"{self.name}.{axis}") for axis in "xyz"]

    def normals(self, system: System, poses: Array) -> Array:
        """Inward normals (..., 3) in the world's axes."""
        frames = list(system.frame_names)
        if self.inside not in frames:
            raise ModelError(
                f"inside: no frame is called {self.inside!r}; {did_you_mean(self.inside, frames)}"
                f"there are {', '.join(frames)}"
            )
        places = system.positions(poses)
        along = places[..., frames.index(self.inside), :] - places[..., _point(self, system), :]
        size = np.linalg.norm(along, axis=-1, keepdims=True)
        if not (size > 1e-9).all():
            raise ModelError(f"inside: {self.inside!r} is where grip {self.name!r} is; there is no normal")
        out: Array = along / size
        return out


class GripForces(NamedTuple):
    """Forces of grips (N, grips) [N]: along the inward normals, across them, and the part of the cones they use.

    A ``used`` above 1 slides; below a normal force of 0 the contact would have to pull, and ``used`` is infinite.
    """

    normal: Array
    across: Array
    used: Array


def grip_forces(step: VariationalStep, trajectory: Trajectory, grips: Sequence[Grip]) -> GripForces:
    """What each contact carries over every step of a trajectory, with normals of the step's begin."""
    if trajectory.multipliers is None:
        raise ModelError("trajectory: has no constraint forces; roll it out on the step map")
    system, poses = step.system, step.layout.pose(trajectory.x[:-1])
    normal, across, used = [], [], []
    for grip in grips:
        force = -trajectory.multipliers[:, grip.rows(system)]  # on the second frame
        n = grip.normals(system, poses)
        along = np.sum(force * n, axis=-1)
        side = np.linalg.norm(force - along[:, None] * n, axis=-1)
        normal.append(along)
        across.append(side)
        with np.errstate(divide="ignore", invalid="ignore"):
            used.append(np.where(along > 0, side / (grip.friction * along), np.inf))
    return GripForces(*(np.column_stack(part) for part in (normal, across, used)))


def _point(grip: Grip, system: System) -> int:
    """Index of the second frame of the constraint."""
    for constraint in system.constraints:
        if constraint.name == grip.name and isinstance(constraint, PointToPoint) and constraint.axes == "xyz":
            return constraint.b.index
    known = [c.name for c in system.constraints if isinstance(c, PointToPoint) and c.axes == "xyz"]
    raise ModelError(f"grip: no point_to_point in x, y and z is called {grip.name!r}; there are {', '.join(known)}")
