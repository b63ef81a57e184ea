"""Static balance of a mechanism: a pose that all forces together leave where it is."""

from __future__ import annotations

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.system import System
from stepmap.steps.kernels.implicit import call
from stepmap.steps.midpoint_functions import ModelFunctions

TOUCH = 1e-9  # m: a gap this close is closed


def balanced(system: System, functions: ModelFunctions, q: Array, force: Array, iterations: int) -> Array:
    """q̄ near the given one where L_q + F − D_q hᵀ lam = 0 and h = 0; kinematic coordinates stay.

    Newton's method, its steps shortened until the residual falls. Of gaps those are closed that touch at the given
    pose, and where nothing balances it so, the next nearest ones too.
    """
    closed = closed_rows(system, q)
    while True:
        try:
            return _complementary(system, functions, q, force, iterations, closed)
        except ConvergenceError:
            open_ = (np.array(system.constraint_rows, dtype=int) == Row.GAP) & ~closed
            if not open_.any():
                raise
            closed[np.argmax(np.where(open_, system.gaps(q), -np.inf))] = True
            closed = _with_tangents(system, closed)


def _complementary(
    system: System, functions: ModelFunctions, q: Array, force: Array, iterations: int, closed: Array
) -> Array:
    """The balance with a first guess of closed rows: a gap that has to pull is let go, one that is passed is closed."""
    gaps, closed = np.array(system.constraint_rows, dtype=int) == Row.GAP, np.array(closed)
    found, lam = _balanced(_Balance(system, functions, force, q, closed), system, q, iterations)
    for _ in range(2 * int(gaps.sum())):
        passed, pulling = system.gaps(found) * (gaps & ~closed), lam * (gaps & closed)
        if passed.max() > TOUCH:
            closed[np.argmax(passed)] = True
        elif pulling.min() < 0:
            closed[np.argmin(pulling)] = False
        else:
            break
        closed = _with_tangents(system, closed)
        found, lam = _balanced(_Balance(system, functions, force, q, closed), system, q, iterations)
    return found


def closed_rows(system: System, q: Array) -> Array:
    """Rows of the constraints that hold a pose: all but gaps that are open there, and tangents of these, (nc)."""
    if not system.gap_names:
        return np.ones(len(system.constraint_names), dtype=bool)
    open_ = (np.array(system.constraint_rows) == Row.GAP) & (system.gaps(q) < -TOUCH)
    return _with_tangents(system, ~open_)


def _with_tangents(system: System, closed: Array) -> Array:
    out = np.array(closed)
    for i, row in enumerate(system.constraint_rows):
        if row is Row.TANGENT:  # after the gap it belongs to
            out[i] = out[i - 1]
    return out


def _balanced(balance: _Balance, system: System, q: Array, iterations: int) -> tuple[Array, Array]:
    """q̄ and multipliers."""
    lam = balance.start(q)
    residual, jacobian = balance.evaluate(q, lam)
    size = float(np.linalg.norm(residual))
    for _ in range(iterations):
        if size <= 1e-13 * balance.scale(q, lam):
            return q, lam
        try:
            dz = np.linalg.solve(jacobian, -residual)
        except np.linalg.LinAlgError:
            dz = np.linalg.lstsq(jacobian, -residual, rcond=None)[0]
        fraction = 1.0
        while fraction > 1e-6:
            trial_q, trial_lam = balance.moved(q, lam, fraction * dz)
            residual, jacobian = balance.evaluate(trial_q, trial_lam)
            if np.linalg.norm(residual) < size:
                break
            fraction /= 2
        else:
            break
        q, lam, size = trial_q, trial_lam, float(np.linalg.norm(residual))
    if size <= 1e-10 * balance.scale(q, lam):
        return q, lam
    raise ConvergenceError(
        f"no equilibrium of {system.name!r} near the given pose; start closer to one, or hold it with a force",
        iterations=iterations,
        residual=size,
        x=q,
    )


def holding_forces(system: System, functions: ModelFunctions, q: Array, *, iterations: int = 20) -> Array | None:
    """The least forces that keep q̄ where it is, L_q + F − D_q hᵀ lam = 0; None where no forces do.

    Gauss–Newton in (u, lam): one step where forces are linear in the inputs, as drives are. Where they are not, an
    input of 0 may have no effect, as the speed of a rotor: then once more from the middle of all ranges.
    """
    found = _holding(system, functions, q, np.zeros(len(system.inputs)), iterations)
    if found is None and not _linear(functions):
        middle = [0.0 if i.low is None or i.high is None else (i.low + i.high) / 2 for i in system.inputs]
        found = _holding(system, functions, q, np.array(middle), iterations)
    return found


def _linear(functions: ModelFunctions) -> bool:
    """Whether forces are linear in the inputs."""
    e = functions.e
    return not (e.u.numel() and any(ca.which_depends(e.force, e.u, 2, True)))


def _holding(system: System, functions: ModelFunctions, q: Array, u: Array, iterations: int) -> Array | None:
    par = system.parameter_values
    slope = _pull_slope(system, functions, q)[:, closed_rows(system, q)]
    linear = _linear(functions)
    for _ in range(iterations):
        balance, by_input = _balance_by_input(functions, q, u, par, linear=linear)
        matrix = np.hstack([by_input, -slope])
        found = np.linalg.lstsq(matrix, -balance, rcond=None)[0]
        left = balance + matrix @ found
        scale = 1.0 + float(np.abs(balance).max(initial=0.0))
        if np.abs(left).max(initial=0.0) > 1e-8 * scale:
            return None
        moved: Array = found[: len(u)]
        u = u + moved
        if np.abs(moved).max(initial=0.0) <= 1e-12 * (1.0 + float(np.abs(u).max(initial=0.0))):
            return u
    return None


def _pull_slope(system: System, functions: ModelFunctions, q: Array) -> Array:
    """D_q hᵀ at rows of dynamic coordinates, (nd, nc)."""
    nd, nc = system.tangent.nd, len(system.constraint_names)
    if not nc:
        return np.zeros((nd, 0))
    slope: Array = call(functions.con, q, system.parameter_values)[1][:, :nd].T
    return slope


def _balance_by_input(
    functions: ModelFunctions, q: Array, u: Array, par: Array, *, linear: bool
) -> tuple[Array, Array]:
    """L_q + F at rest, and its slope in the inputs: by central differences where F is linear, which are exact then."""
    if not linear:
        names = [name for name, _ in functions.second.outputs]
        out = dict(zip(names, call(functions.second, q, np.zeros(functions.e.v.numel()), u, par), strict=True))
        return (out["Lq"] + out["F"])[:, 0], out["Fu"]

    def forces(given: Array) -> Array:
        lq, _, force = call(functions.first, q, np.zeros(functions.e.v.numel()), given, par)
        total: Array = (lq + force)[:, 0]
        return total

    now = forces(u)
    slopes = [(forces(u + one) - forces(u - one)) / 2 for one in np.eye(len(u))]
    return now, np.array(slopes).reshape(len(u), len(now)).T


class _Balance:
    """The equations in (q, lam)."""

    def __init__(self, system: System, functions: ModelFunctions, force: Array, q: Array, closed: Array) -> None:
        self.functions, self.force, self.par = functions, force, system.parameter_values
        self.tangent = system.tangent
        self.nd, self.nc = self.tangent.nd, len(system.constraint_names)
        self.open = ~closed  # rows whose equation is lam = 0
        self.sticks = np.array(system.constraint_rows, dtype=int) == Row.TANGENT
        self.foot = call(functions.con, q, self.par)[0][:, 0] * self.sticks if self.sticks.any() else 0.0

    def start(self, q: Array) -> Array:
        """The multipliers that balance best at the guess."""
        residual, jacobian = self.evaluate(q, np.zeros(self.nc))
        return np.linalg.lstsq(jacobian[: self.nd, self.nd :], -residual[: self.nd], rcond=None)[0]

    def evaluate(self, q: Array, lam: Array) -> tuple[Array, Array]:
        f, nd, nc = self.functions, self.nd, self.nc
        names = [name for name, _ in f.second.outputs]
        out = dict(zip(names, call(f.second, q, np.zeros(self.tangent.nv), self.force, self.par), strict=True))
        balance, slope = (out["Lq"] + out["F"])[:, 0], (out["Lqq"] + out["Fq"])[:, :nd]
        if not nc:
            return balance, slope
        h, jacobian = call(f.con, q, self.par)
        bend = call(f.con2, q, self.par, lam)[0][:nd, :nd]
        jacobian = jacobian[:, :nd]
        force, held = jacobian.T @ lam, np.where(self.open, lam, h[:, 0] - self.foot)
        below = np.where(self.open[:, None], np.eye(nc), 0.0)
        jacobian_below = np.where(self.open[:, None], 0.0, jacobian)
        matrix = np.block([[slope - bend, -jacobian.T], [jacobian_below, below]])
        return np.concatenate([balance - force, held]), matrix

    def moved(self, q: Array, lam: Array, dz: Array) -> tuple[Array, Array]:
        moved = np.zeros(self.tangent.nv)
        moved[: self.nd] = dz[: self.nd]
        return self.tangent.retract(q, moved), lam + dz[self.nd :]

    def scale(self, q: Array, lam: Array) -> float:
        return (
            1.0
            + float(np.abs(lam).max(initial=0.0))
            + float(np.abs(self.force).max(initial=0.0))
            + float(np.abs(q).max())
        )
