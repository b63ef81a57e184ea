"""First states of segments, with gaps that are closed there: a guess is not exactly on a string, and a search moves it.

A state beyond a gap is no state, and one a hair inside it is a slack string. So gaps within ``CLOSE`` of a guess, those
that the search passes, and the constraints are held: dynamic coordinates go back along D_q hᵀ of the guess,

    q = q₀ − D_q h(q₀)ᵀ μ,   h_C(q, ρ; θ) = 0,     dμ = (D_q h D_q h₀ᵀ)⁻¹ (D h dq̄₀ + h_θ dθ)

Maps whose gaps cannot open take any first state: their first step pulls it back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.constraints import Row
from stepmap.steps import VariationalStep
from stepmap.steps.events.step import EventStep
from stepmap.steps.kernels.implicit import call

CLOSE = 1e-4  # m: a gap this close is taken for closed
TURNS = 8


class Begin(NamedTuple):
    """A first state with its derivatives by the tangent vector that moved it, and by the model's parameters."""

    x: Array
    by_move: Array  # (ndx, ndx)
    by_parameters: Array  # (ndx, parameters)


def begin(step: VariationalStep, par: Array, guess: Array, move: Array) -> Begin:
    """The state at ``move`` from a guess, on what is closed; ``par`` are values of the model's parameters."""
    nd, nv = step.nd, step.nd + step.nk
    x = np.ascontiguousarray(step.layout.retract(guess, move))
    identity, none = np.eye(step.ndx), np.zeros((step.ndx, len(par)))
    if not step.layout.plain:
        identity[:nv, :nv] = step.layout.tangent.retract_slope(move[:nv])
    if not isinstance(step, EventStep):
        return Begin(x, identity, none)
    kinds = np.array(step.system.constraint_rows)
    h, slope = _constraints(step, par, guess)
    held = (kinds == Row.EQUALITY) | ((kinds == Row.GAP) & (h > -CLOSE) & _exist(step, len(par)))
    for _ in range(TURNS):
        h, D = _constraints(step, par, x)
        held |= (kinds == Row.GAP) & (h > 0) & _exist(step, len(par))
        if np.abs(h[held]).max(initial=0.0) < 1e-13:
            break
        back = np.zeros(step.ndx)
        back[:nd] = -slope[held, :nd].T @ _solved(D[held, :nd] @ slope[held, :nd].T, h[held])
        x = np.ascontiguousarray(step.layout.retract(x, back))
    if not held.any():
        return Begin(x, identity, none)
    _, D = _constraints(step, par, x)
    pulled = slope[held, :nd].T @ _solved(D[held, :nd] @ slope[held, :nd].T, np.eye(int(held.sum())))
    identity[:nd] -= pulled @ D[held, :nv] @ identity[:nv]
    none[:nd] = -pulled @ _by_parameters(step, par, x)[held]
    return Begin(x, identity, none)


def _exist(step: VariationalStep, count: int) -> np.ndarray:
    """Gaps that the map has: the others have a restitution below zero among the kernel's parameters."""
    out: np.ndarray = step.parameter_values[count + 1 :] >= 0
    return out


def _solved(matrix: Array, right: Array) -> Array:
    out: Array = np.linalg.lstsq(matrix, right, rcond=1e-10)[0]
    return out


def _constraints(step: VariationalStep, par: Array, x: Array) -> tuple[Array, Array]:
    """h and D h in the chart of q̄."""
    h, slope = call(step.functions.con, step.layout.pose(x), par)
    return h.ravel(), np.atleast_2d(slope)


def _by_parameters(step: VariationalStep, par: Array, x: Array) -> Array:
    """Derivatives of h by the parameters, (rows, parameters)."""
    q = step.layout.pose(x)
    return np.atleast_2d(call(step.functions.conslope, q, q, np.zeros(step.nc), par)[0])
