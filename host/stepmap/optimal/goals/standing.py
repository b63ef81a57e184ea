"""Where a mechanism can stand: a pose and the forces that hold it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError, ShapeError
from stepmap.optimal.lqr import Regulator
from stepmap.steps.balance import closed_rows
from stepmap.steps.kernels.implicit import call
from stepmap.steps.limits import InputBounds
from stepmap.steps.protocol import Trajectory
from stepmap.steps.variational import VariationalStep

NEAR = 1e-3  # m or rad by which an equilibrium may be off the pose that was asked for
HOLD_SECONDS = 10.0
HELD = 0.01  # m or rad from the goal after that time


class Standing(NamedTuple):
    """An equilibrium of the map: state and input that it keeps."""

    x: Array
    u: Array


def standing(step: VariationalStep, pose: Mapping[str, float] | ArrayLike, near: float = NEAR) -> Standing:
    """The equilibrium at a pose, with the least forces that hold it; raises ModelError where none is ``near`` it."""
    q = step.system.configuration(pose)
    x, u = step.equilibrium(q, _holding(step, q))
    off = np.abs(step.system.tangent.difference(q, step.layout.pose(x)))
    if off.max() > near:
        raise _falls(step, x, off, near)
    return Standing(x, u)


def _falls(step: VariationalStep, x: Array, off: Array, near: float) -> ModelError:
    """Says how far from the pose the nearest equilibrium is, and all of its coordinates that are others."""
    plain, worst = step.layout.plain, int(off.argmax())
    names = step.state_names if plain else step.layout.tangent_names
    there = ", ".join(f"{names[i]} = {x[i]:.6g}" for i in np.flatnonzero(off > near)) if plain else ""
    return ModelError(
        f"no inputs hold {step.system.name!r} at this pose: it stands {off[worst]:.3g} off in {names[worst]}",
        hint=f"Ask for a pose that can be held{', such as ' if there else ''}{there}.",
    )


def holds(step: VariationalStep, x: Array, at: Standing, law: Regulator, bounds: InputBounds | None) -> bool:
    """Whether the steady regulator, clamped to its limits, brings the state x to a goal and keeps it there.

    Entries of the goal's x that are not numbers are free.
    """
    goal = np.where(np.isnan(at.x), x, at.x)
    n = int(np.ceil(HOLD_SECONDS / step.dt))
    wanted = Trajectory(step.dt * np.arange(n + 1), np.tile(goal, (n + 1, 1)), np.tile(at.u, (n, 1)))
    with np.errstate(all="ignore"):
        try:
            run = step.follow(x, wanted, np.tile(law.K, (n, 1, 1)), within=bounds)
        except (ConvergenceError, ShapeError):  # it ran away
            return False
    off = np.abs(step.system.tangent.difference(step.layout.pose(at.x), step.layout.pose(run.x[-1])))
    return bool(np.nanmax(off, initial=0.0) < HELD)


def _holding(step: VariationalStep, q: Array) -> Array:
    """Forces that balance the mechanism best at a pose: least squares of L_q + F(u) − D_q hᵀ lam = 0."""
    system, count = step.system, len(step.system.inputs)
    if not count:
        return np.zeros(0)
    still, par = np.zeros(system.tangent.nv), system.parameter_values

    def pull(u: Array) -> Array:
        lq, _, force = call(step.functions.first, q, still, u, par)
        out: Array = (lq + force)[:, 0]
        return out

    none = pull(np.zeros(count))
    matrix = np.column_stack([pull(unit) - none for unit in np.eye(count)])
    if step.nc:
        matrix = np.hstack([matrix, -system.residuals_slope(q)[closed_rows(system, q), : step.nd].T])
    found: Array = np.linalg.lstsq(matrix, -none, rcond=None)[0][:count]
    return np.where(np.abs(found) > 1e-12 * max(1.0, float(np.abs(found).max())), found, 0.0)
