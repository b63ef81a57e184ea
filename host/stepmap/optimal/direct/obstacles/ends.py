"""Start and goal beside obstacles, checked before anything is solved."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.system import System
from stepmap.optimal.terms.clearance import Clearance

TOUCH = 1e-9  # m


def require_clear(system: System, clear: Any, start: Array, goal: Array, solver: str) -> None:
    """Raises ModelError where a start, or a goal that names the whole pose, is too near an obstacle."""
    if isinstance(clear, Clearance) or not all(isinstance(one, Clearance) for one in clear):
        raise ModelError(f"clear: expected a list of sm.Clearance(frame, shape, world, margin=), got {clear!r}")
    for one in clear:
        rows = one.of(system)
        if rows.data_size and solver != "ipopt":
            raise ModelError(
                "solver: heightmaps and meshes are for 'ipopt' alone, which takes their derivatives as data"
            )
        for what, q in (("start", start), ("goal", goal)):
            if np.isnan(q).any():
                continue
            found = rows.evaluate(q)
            worst = int(np.argmin(found))
            if found[worst] < -TOUCH:
                raise ModelError(
                    f"{what}: {rows.labels[worst]} lacks {-found[worst]:.3g} m of its radius and margin",
                    hint="Move it out of the obstacle, or give a smaller margin.",
                )
