"""Poses on all constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.mechanics.poses.named import velocity_places

if TYPE_CHECKING:
    from stepmap.mechanics.system import System


def satisfied(system: System, q: Array, fixed: Sequence[str], iterations: int) -> Array:
    """The nearest q̄ (least squares, Gauss–Newton) on all constraints; ``fixed`` coordinates are kept."""
    free = _free(system, fixed)
    residual = np.inf
    for iteration in range(iterations):
        h = system.violations(system.residuals(q))
        residual = float(np.abs(h).max(initial=0.0))
        size = max(1.0, float(np.abs(q).max()))
        if residual / size <= 4e-16 * size:  # their square may not be a number
            return q
        jacobian = system.residuals_slope(q) * free * (h != 0)[:, None]
        correction = np.linalg.lstsq(jacobian, -h, rcond=None)[0]
        if iteration > 2 and residual < 1e-12 and np.abs(correction).max() < 1e-15 * max(1.0, np.abs(q).max()):
            return q
        q = system.tangent.retract(q, correction)
    if residual < 1e-12:
        return q
    raise ConvergenceError(
        f"no pose near the given one satisfies the constraints of {system.name!r} (residual {residual:.3g}); "
        "start closer, or fix fewer coordinates",
        iterations=iterations,
        residual=residual,
        x=q,
    )


def _free(system: System, fixed: Sequence[str]) -> Array:
    """Which tangent dimensions may move."""
    free = np.ones(system.tangent.nv, dtype=bool)
    places = velocity_places(system.tangent, system.balls)
    owner = {c.name: ball.name for ball in system.balls for c in ball.entries}  # of a quaternion all or nothing
    for name in fixed:
        at = places.get(owner.get(name, name))
        if at is None:
            there = ", ".join([c.name for c in system.coordinates])
            raise ModelError(f"fixed: no coordinate is called {name!r}; there are {there}")
        free[at] = False
    return free
