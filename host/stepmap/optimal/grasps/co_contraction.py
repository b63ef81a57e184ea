"""Forces that hold a pose though none of them may push: tendons on both sides of joints pull against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.optimal.grasps.grip import Grip
from stepmap.steps import VariationalStep
from stepmap.steps.kernels.implicit import call

SIDES = 12  # of the pyramid inside a friction cone
LITTLE = 1e-6  # by which the equilibrium may be off the pose


class Held(NamedTuple):
    """An equilibrium: state, input, and constraint forces [N]."""

    x: Array
    u: Array
    forces: Array


def co_contract(
    step: VariationalStep,
    pose: Mapping[str, Any] | ArrayLike,
    *,
    low: float | ArrayLike | None = None,
    grips: Sequence[Grip] = (),
) -> Held:
    """The equilibrium at a pose with the least sum of input forces, each at least ``low`` and within its limits.

    Forces of ``grips`` are kept within their friction cones. A linear program: at rest L_q + F u − hᵀ_q λ = 0 is linear
    in forces and multipliers. Raises ModelError where no forces hold the pose.
    """
    if not isinstance(step, VariationalStep) or not step.system.inputs:
        raise ModelError("step: expected a map of a mechanism with input forces, from sm.discretize")
    system = step.system
    q = system.configuration(pose)
    system.require_on_constraints(q)
    least, most = _limits(step, low)
    still, par = np.zeros(system.tangent.nv), system.parameter_values
    lq, _, none = (part[:, 0] for part in call(step.functions.first, q, still, np.zeros(len(least)), par))
    effects = [call(step.functions.first, q, still, unit, par)[2][:, 0] - none for unit in np.eye(len(least))]
    matrix = np.column_stack(effects)
    if step.nc:
        matrix = np.hstack([matrix, -system.residuals_slope(q)[:, : step.nd].T])
    above = _cones(step, q, grips, len(least))
    u = _program(matrix, -(lq + none), (least, most), above)
    if u is None:
        within = " and contact forces within their cones" if grips else ""
        raise ModelError(
            f"no forces of {system.name!r} from {least.min():g} N on{within} hold this pose",
            hint="Take a smaller low, more friction, a lighter load or another pose.",
        )
    return _standing(step, q, u)


def _standing(step: VariationalStep, q: Array, u: Array) -> Held:
    x, full = step.equilibrium(q, u)
    off = float(np.abs(step.system.tangent.difference(q, step.layout.pose(x))).max())
    if off > LITTLE:
        raise ConvergenceError(
            f"the equilibrium with these forces is {off:.3g} off the pose", iterations=0, residual=off, x=x
        )
    after = step.step(x, full)
    return Held(x, full, after.multipliers)


def _limits(step: VariationalStep, low: float | ArrayLike | None) -> tuple[Array, Array]:
    """Of the forces: the system's own, from ``low`` on."""
    inputs = step.system.inputs
    least = np.array([-np.inf if i.low is None else i.low for i in inputs])
    most = np.array([np.inf if i.high is None else i.high for i in inputs])
    if low is not None:
        try:
            least = np.maximum(least, np.broadcast_to(np.asarray(low, dtype=float), least.shape))
        except ValueError:
            raise ModelError(f"low: expected one number or {len(inputs)}, one per input") from None
    if not (least <= most).all():
        i = int(np.argmax(least > most))
        raise ModelError(f"low: {least[i]:g} is above the limit of {inputs[i].name}, {most[i]:g}")
    return least, most


def _cones(step: VariationalStep, q: Array, grips: Sequence[Grip], first: int) -> Array:
    """Rows r of a pyramid inside each friction cone, r · (u, λ) ≤ 0."""
    system, angles = step.system, 2 * np.pi * np.arange(SIDES) / SIDES
    made = [np.zeros((0, first + step.nc))]
    for grip in grips:
        n = grip.normals(system, q)
        aside = np.linalg.svd(n[None])[2][1:]
        reach = grip.friction * np.cos(np.pi / SIDES)
        rows = np.zeros((SIDES, first + step.nc))
        sides = np.cos(angles)[:, None] * aside[0] + np.sin(angles)[:, None] * aside[1] - reach * n
        rows[:, [first + i for i in grip.rows(system)]] = -sides  # of the force on the second frame, −λ
        made.append(rows)
    return np.vstack(made)


def _program(matrix: Array, wanted: Array, limits: tuple[Array, Array], above: Array) -> Array | None:
    """Forces of least sum; None where there are none."""
    from scipy.optimize import linprog

    count, free = len(limits[0]), matrix.shape[1] - len(limits[0])
    bounds = [*zip(*limits, strict=True), *[(-np.inf, np.inf)] * free]
    cost = np.concatenate([np.ones(count), np.zeros(free)])
    scale = np.maximum(np.abs(matrix).max(axis=1), 1e-12)
    found = linprog(
        cost,
        A_eq=matrix / scale[:, None],
        b_eq=wanted / scale,
        A_ub=above if len(above) else None,
        b_ub=np.zeros(len(above)) if len(above) else None,
        bounds=bounds,
        method="highs",
    )
    if found.status != 0:
        return None
    u: Array = np.clip(np.asarray(found.x)[:count], *limits)
    return u
