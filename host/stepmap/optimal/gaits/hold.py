"""The plan of a gait: its trajectory with gains that hold it through every landing, and its Floquet multipliers."""

from __future__ import annotations

from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.gravity import gravity
from stepmap.mechanics.system import System
from stepmap.optimal.gaits.cycle import Cycle
from stepmap.optimal.gaits.feedback import Slopes, periodic_gains
from stepmap.optimal.plan import Plan
from stepmap.steps.protocol import Event, Trajectory

POSE, MOMENTUM, INPUT = 300.0, 1.0, 1e-2  # weights of gains where none are given, SI


@dataclass(frozen=True, eq=False)
class GaitPlan(Plan):
    """A plan whose end is its start, renamed; ``floquet`` are the multipliers of the closed loop, the largest first."""

    floquet: Array = field(default_factory=lambda: np.zeros(0))


def natural(system: System) -> tuple[Array, Array]:
    """Q and R of gains where none are given."""
    n = len(system.dynamic)
    return np.diag([POSE] * n + [MOMENTUM] * n), INPUT * np.eye(len(system.inputs))


def held(cycle: Cycle, found: Slopes, trajectory: Trajectory, weights: tuple[Array, Array] | None = None) -> GaitPlan:
    """The plan of a gait; raises ConvergenceError where no gains hold it."""
    Q, R = natural(cycle.system) if weights is None else weights
    made = periodic_gains(found, Q, R)
    return GaitPlan(trajectory, made.gains, trajectory, trajectory.events, floquet=found.multipliers(made.gains))


def landings(cycle: Cycle) -> tuple[Event, ...]:
    """The landings of a gait as events, each at the end of the step before it."""
    made, at = [], 0
    for i, stretch in enumerate(cycle.stretches):
        at += stretch.steps
        landing, landed = cycle.landing(i), cycle.landed(i)
        if landing is None or landed is None:
            continue
        n, system = len(cycle.system.dynamic), cycle.system
        name = system.constraint_names[landing.row]
        place = landing.jump.after.rows.index(landing.row)
        before = landing.step.velocity(landed.before)
        q = landed.before[:n]
        D, M = landing.jump.after.slope(q), system.mass_matrix(q)
        after = before - np.linalg.solve(M, D.T @ landed.impulses)
        lost = float(system.kinetic_energy(q, before) - system.kinetic_energy(q, after))
        made.append(Event(float(cycle.t[at]), at - 1, name, "impact", float(landed.impulses[place]), lost))
    return tuple(made)


def work(cycle: Cycle) -> Array:
    """Work [J] of each input in each step, (N, nu): u_i (∂F/∂u_i)ᵀ (q_{k+1} − q_k)."""
    e, n = cycle.system.expressions, len(cycle.system.dynamic)
    slope = ca.Function("slope", [e.q, e.v, e.u, e.parameters], [ca.vec(ca.densify(ca.jacobian(e.force, e.u)))])
    q, dt = cycle.x[:, :n], np.diff(cycle.t)[:, None]
    moved = np.diff(q, axis=0)
    par = np.tile(cycle.system.parameter_values[:, None], len(moved))
    middle = ((q[1:] + q[:-1]) / 2).T, (moved / dt).T, cycle.u.T
    flat = np.asarray(slope.map(len(moved))(*middle, par)).T.reshape(len(moved), cycle.u.shape[1], n)
    out: Array = cycle.u * np.einsum("kij,kj->ki", flat, moved)
    return out


def stride(cycle: Cycle) -> float:
    """How far the mechanism comes in a period [m]: from where a foot stands to where the next one lands."""
    total, n = 0.0, len(cycle.system.dynamic)
    points = {c.name: c.point.index for c in cycle.system.constraints if hasattr(c, "point") and hasattr(c, "plane")}
    for i, begin in cycle.begins():
        now, later = cycle.stretches[i].closed, cycle.after(i)
        end = cycle.system.positions(cycle.x[begin + cycle.stretches[i].steps][:n])
        if now and later and now[0] in points and later[0] in points:
            total += float(np.linalg.norm(end[points[later[0]]] - end[points[now[0]]]))
    return total


def transport(cycle: Cycle) -> float | None:
    """The specific cost of transport Σ|w|/(m g L) (Pekarek, 4.2.1); None for what goes nowhere."""
    system = cycle.system
    parameters = ca.vertcat(*system.symbols) if system.symbols else ca.SX(0, 1)
    mass = sum((body.mass for body in system.bodies), ca.SX(0))
    weight = float(ca.Function("mass", [parameters], [mass])(system.parameter_values))
    weight *= float(np.linalg.norm(gravity(system)))
    length = stride(cycle)
    return float(np.abs(work(cycle)).sum()) / (weight * length) if weight * length > 0 else None
