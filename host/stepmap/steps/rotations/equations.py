"""The midpoint step of a mechanism with balls, as equations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.poses.tangent import Tangent
from stepmap.steps.kernels.equations import Equations, entries
from stepmap.steps.rotations.increments import Increments, normalized
from stepmap.steps.rotations.maps import vectors

if TYPE_CHECKING:
    from stepmap.steps.variational import VariationalStep


def equations_with_balls(step: VariationalStep) -> Equations:
    """Eq. 5–8 of Schultz & Murphey on ordinary coordinates, and the ones above on balls.

    The unknowns are the next values of ordinary coordinates, t of balls, and the impulses of the constraints.
    """
    system, nd, nk = step.system, step.nd, step.nk
    e, tangent, nf = system.expressions, system.tangent, len(system.inputs)
    nq = tangent.nq
    x, u, dt = ca.SX.sym("x", step.nx), ca.SX.sym("u", step.nu), ca.SX.sym("dt")
    z = ca.SX.sym("z", nd + step.nc)
    q1, p, forces = x[:nq], x[nq : nq + nd], entries(u, 0, nf)
    rho1, rho2, lam = entries(x, nq - nk, nq), entries(u, nf, step.nu), entries(z, nd, nd + step.nc)
    move = Increments(tangent, step.map, q1, ca.vertcat(z[:nd], rho2), dt)
    lq = e.centered(ca.gradient(e.charted.lagrangian, e.chart))[:nd]
    middle = ca.Function("middle", [e.q, e.v, e.u, e.parameters], [lq, ca.gradient(e.lagrangian, e.v)[:nd], e.force])
    lq, lv, force = middle(move.middle, move.velocity, forces, e.parameters)
    slope = e.centered(ca.jacobian(e.charted.residual, e.chart[:nd]))
    gaps = ca.Function("gaps", [e.q, e.parameters], [e.residual, slope, e.pull])
    _, slope, pull = gaps(q1, e.parameters)
    pushed = p - slope.T @ lam
    if step.forces == "held":
        given = dt / 2 * move.at_begin(lq + force)
    else:
        given = dt / 2 * move.at_begin(lq) + dt * move.to_begin(force)
    # Momenta from the balance, not from D2 Ld, whose terms of order 1/dt cancel: conserved ones stay to the last bit.
    after = move.through(pushed) + dt * move.to_end(lq + force)
    return Equations(
        x,
        u,
        z,
        dt,
        e.parameters,
        residual=ca.vertcat(pushed + given - move.left_momentum(lv), gaps(move.after, e.parameters)[0]),
        after=ca.vertcat(normalized(tangent, move.after), after, (rho2 - rho1) / dt),
        multipliers=pull * lam / dt,
        guess=ca.vertcat(_still(tangent, x, nd), ca.SX.zeros(step.nc)),
        decisive=nd,
        ndx=step.ndx,
        retract=tangent.retract_of,
        difference=tangent.difference_of,
    )


def _still(tangent: Tangent, x: ca.SX, nd: int) -> ca.SX:
    """The unknowns of a step in which nothing moves."""
    out = ca.SX.zeros(nd)
    stored, places = tangent.ordinary
    for i, at in zip(stored.tolist(), places.tolist(), strict=True):
        if at < nd:
            out[at] = x[i]
    return out


def momentum_with_balls(step: VariationalStep, q: Array, v: Array, forces: Array) -> Array:
    """The discrete Legendre transform of the step that ended at q̄ with the velocity v̄, (..., nd)."""
    tangent = step.system.tangent
    shape = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], forces.shape[:-1])
    count = math.prod(shape)
    flat = [np.broadcast_to(e, (*shape, e.shape[-1])).reshape(count, e.shape[-1]) for e in (q, v, forces)]
    z = step.dt * flat[1]
    for _, at in tangent.balls:
        z[:, at : at + 3] = vectors(step.map, z[:, at : at + 3])
    par = np.tile(step.system.parameter_values[:, None], len(z))
    out = np.asarray(step.layout.legendre(flat[0].T, z.T, flat[1].T, flat[2].T, par)).T
    return np.ascontiguousarray(out).reshape(*shape, step.nd)


def legendre_with_balls(step: VariationalStep) -> ca.Function:
    """The momentum at the end of a step as a function of pose, unknowns of the step, velocity, forces, parameters."""
    tangent, e = step.system.tangent, step.system.expressions
    nf = len(step.system.inputs)
    last, back, by = ca.SX.sym("q", tangent.nq), ca.SX.sym("z", tangent.nv), ca.SX.sym("u", nf)
    velocity = ca.SX.sym("v", tangent.nv)
    # Back from the end: the increment of −t has its middle where that of t has it, seen from the other side.
    before = Increments(tangent, step.map, last, _reversed(tangent, last, back), ca.SX(step.dt))
    here = Increments(tangent, step.map, last, back, ca.SX(step.dt))
    lq, lv, force = step.functions.first.casadi(before.middle, velocity, by, e.parameters)
    lq, lv, force = (ca.vec(part) for part in (lq, lv, force))
    given = lq + force if step.forces == "held" else lq
    p = step.dt / 2 * here.at_end(given) + here.right_momentum(lv)
    return ca.Function("legendre", [last, back, velocity, by, e.parameters], [p])


def _reversed(tangent: Tangent, q: ca.SX, z: ca.SX) -> ca.SX:
    """The unknowns of the step back: values before for ordinary coordinates, −t for balls."""
    out = -z
    stored, places = tangent.ordinary
    for i, at in zip(stored.tolist(), places.tolist(), strict=True):
        out[at] += q[i]
    return out
