"""Where the frames of a mechanism are and how they are turned, for /tf."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import casadi as ca
import numpy as np

from stepmap.mechanics.system import System
from stepmap.wireframe.skeleton import skeleton

Placed = tuple[str, list[float], list[float]]


class FramePoses:
    """Poses of the frames that something is drawn at, in the world."""

    def __init__(self, system: System) -> None:
        from scipy.spatial.transform import Rotation  # takes a while to import

        self._rotation = Rotation
        known, visible = system.expressions, skeleton(system).visible
        self.names = [system.frames[index].name for index in visible]
        places = ca.horzcat(*(known.positions[:, index] for index in visible))
        turns = ca.horzcat(*(known.rotations[:, 3 * index : 3 * index + 3] for index in visible))
        self._function = ca.Function("frames", [known.q, known.parameters], [places, turns])
        self._values, self._nq = system.parameter_values, len(system.coordinates)

    def at(self, pose: Sequence[float]) -> Iterator[Placed]:
        """Name, position and quaternion (x, y, z, w) of each frame; of a state, its pose counts."""
        if not self.names:
            return
        places, turns = (np.array(out) for out in self._function(np.array(pose[: self._nq]), self._values))
        matrices = turns.reshape(3, -1, 3).transpose(1, 0, 2)
        quaternions = self._rotation.from_matrix(matrices).as_quat()
        yield from zip(self.names, places.T.tolist(), quaternions.tolist(), strict=True)
