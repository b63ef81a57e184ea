"""Where the search for a cycle begins: at one pose with all contacts of the transition closed, and the way to it."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.poses.tangent import Tangent
from stepmap.optimal.direct.mechanism import Mechanism, Mode
from stepmap.optimal.direct.phases.renaming import Renaming

BEND = 0.3  # of the way to the middle of its range that a joint bends on its way


def support_pose(
    mechanism: Mechanism, before: Mode, after: Mode, renaming: Renaming, near: Array, bounds: Array
) -> Array:
    """The pose nearest to a given one at which old and new contacts are closed, and feet come back to their places.

    Gauss–Newton, and least squares within the bounds (2, nq) where that leaves them; raises ModelError where there is
    none.
    """
    system, q = mechanism.system, ca.SX.sym("q", mechanism.nq)
    par = ca.SX.sym("par", len(system.parameters))
    renamed = renaming.function(q, par)[0]
    here, there = mechanism.held(q, par).residual, mechanism.held(renamed, par).residual
    rows = [here[i] for i in before.rows if system.constraint_rows[i] is not Row.TANGENT]
    places = system.residuals(near)  # where feet stand that come out of the air
    for i in after.rows:
        place = here[i] if i in before.rows else float(places[i])
        rows.append(there[i] - place if system.constraint_rows[i] is Row.TANGENT else there[i])
    rows += [ca.sumsqr(q[s : s + 4]) - 1 for s, _ in mechanism.tangent.balls]
    total = ca.vertcat(*rows) if rows else ca.SX(0, 1)
    function = ca.Function("support", [q, par], [total, ca.densify(ca.jacobian(total, q))])

    def off(at: Array) -> tuple[Array, Array]:
        value, slope = (np.asarray(out) for out in function(at, system.parameter_values))
        return value[:, 0], slope

    found = np.array(near, dtype=float)
    for _ in range(50):
        value, slope = off(found)
        if np.abs(value).max(initial=0.0) < 1e-12:
            break
        found = found - np.linalg.lstsq(slope, value, rcond=1e-10)[0]
    low, high = bounds
    if np.abs(off(found)[0]).max(initial=0.0) < 1e-8 and (found >= low - 1e-6).all() and (found <= high + 1e-6).all():
        closed: Array = np.clip(found, low, high)
        return closed
    return _within(off, near, low, high)


def _within(off: Callable[[Array], tuple[Array, Array]], near: Array, low: Array, high: Array) -> Array:
    """The pose by least squares within bounds, with a little of the way to where it began."""
    from scipy.optimize import least_squares  # which takes longer to load than most guesses take

    room = np.minimum(1e-6, (high - low) / 4)
    start, found = np.clip(near, low + room, high - room), None
    for stay in (1e-3, 1e-6, 0.0):
        begin = start if found is None else np.clip(found, low + room, high - room)

        def rows(x: Array, stay: float = stay) -> Array:
            return np.concatenate([off(x)[0], stay * (x - start)])

        def slopes(x: Array, stay: float = stay) -> Array:
            return np.vstack([off(x)[1], stay * np.eye(len(x))])

        found = np.asarray(least_squares(rows, begin, slopes, (low, high), xtol=1e-15, ftol=1e-15, gtol=1e-15).x)
    assert found is not None
    left = float(np.abs(off(found)[0]).max(initial=0.0))
    if left < 1e-8:
        return found
    raise ModelError(
        f"start: no pose within the limits of the coordinates has the contacts of the transition closed (off by "
        f"{left:.3g}): the periodic map is not consistent with the contacts, or a stride is out of reach",
        hint="Give as start a pose at the end of a step, with both feet on the ground, or another stride.",
    )


def way(tangent: Tangent, begin: Array, end: Array, bounds: Array, steps: int) -> Array:
    """Poses (steps + 1) on the straight way, joints bent towards the middle of their range on it."""
    part = np.linspace(0.0, 1.0, steps + 1)[:, None]
    q = tangent.retract(begin, part * tangent.difference(begin, end))
    low, high = bounds
    limited = np.isfinite(low) & np.isfinite(high)
    middle = np.where(limited, (np.where(limited, low, 0.0) + np.where(limited, high, 0.0)) / 2, 0.0)
    bend = np.where(limited, middle - (begin + end) / 2, 0.0)
    out: Array = np.clip(q + BEND * np.sin(np.pi * part) * bend, low, high)
    out[[0, -1]] = begin, end
    return out
