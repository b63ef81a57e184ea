"""Where the search for a cycle begins: at one pose with all contacts of the transition closed, and the way to it."""

from __future__ import annotations

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.constraints import Row
from stepmap.optimal.direct.mechanism import Mechanism, Mode
from stepmap.optimal.direct.phases.renaming import Renaming

BEND = 0.3  # of the way to the middle of its range that a joint bends on its way


def support_pose(mechanism: Mechanism, before: Mode, after: Mode, renaming: Renaming, near: Array) -> Array:
    """The pose nearest to a given one at which old and new contacts are closed, and feet come back to their places.

    Gauss–Newton; raises ModelError where there is none.
    """
    system, q = mechanism.system, ca.SX.sym("q", mechanism.nq)
    par = ca.SX.sym("par", len(system.parameters))
    renamed = renaming.function(q, par)[0]
    here, there = mechanism.held(q, par).residual, mechanism.held(renamed, par).residual
    rows = [here[i] for i in before.rows if system.constraint_rows[i] is not Row.TANGENT]
    for i in after.rows:
        rows.append(there[i] - here[i] if system.constraint_rows[i] is Row.TANGENT else there[i])
    total = ca.vertcat(*rows) if rows else ca.SX(0, 1)
    function = ca.Function("support", [q, par], [total, ca.densify(ca.jacobian(total, q))])
    found = np.array(near, dtype=float)
    for _ in range(50):
        value, slope = (np.asarray(out) for out in function(found, system.parameter_values))
        if np.abs(value).max(initial=0.0) < 1e-12:
            return found
        found = found - np.linalg.lstsq(slope, value[:, 0], rcond=1e-10)[0]
    value = np.asarray(function(found, system.parameter_values)[0])
    if np.abs(value).max(initial=0.0) < 1e-8:
        return found
    raise ModelError(
        f"start: no pose near it has the contacts of the transition closed (off by {np.abs(value).max():.3g}): the "
        "periodic map is not consistent with the contacts, or a stride is out of reach",
        hint="Give as start a pose at the end of a step, with both feet on the ground, or another stride.",
    )


def way(begin: Array, end: Array, bounds: Array, steps: int) -> Array:
    """Poses (steps + 1) on the straight way, joints bent towards the middle of their range on it."""
    part = np.linspace(0.0, 1.0, steps + 1)[:, None]
    q = (1 - part) * begin + part * end
    low, high = bounds
    limited = np.isfinite(low) & np.isfinite(high)
    middle = np.where(limited, (np.where(limited, low, 0.0) + np.where(limited, high, 0.0)) / 2, 0.0)
    bend = np.where(limited, middle - (begin + end) / 2, 0.0)
    out: Array = np.clip(q + BEND * np.sin(np.pi * part) * bend, low, high)
    out[[0, -1]] = begin, end
    return out
