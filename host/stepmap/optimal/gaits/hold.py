"""The plan of a gait: its trajectory with gains that hold it through every landing, and its Floquet multipliers."""

from __future__ import annotations

from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.gaps import Contact
from stepmap.mechanics.gravity import gravity
from stepmap.mechanics.system import System
from stepmap.optimal.gaits.cycle import Cycle
from stepmap.optimal.gaits.feedback import Slopes, periodic_gains
from stepmap.optimal.plan import Plan
from stepmap.steps.protocol import Event, Trajectory
from stepmap.steps.rotations import MAPS, Increments

POSE, MOMENTUM, INPUT = 300.0, 1.0, 1e-2  # weights of gains where none are given, SI


@dataclass(frozen=True, eq=False)
class GaitPlan(Plan):
    """A plan whose end is its start, renamed; ``floquet`` are the multipliers of the closed loop, the largest first."""

    floquet: Array = field(default_factory=lambda: np.zeros(0))


def natural(system: System) -> tuple[Array, Array]:
    """Q and R of gains where none are given."""
    n = system.tangent.nd
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
        system = cycle.system
        name = system.constraint_names[landing.row]
        place = landing.jump.after.rows.index(landing.row)
        before = landing.step.velocity(landed.before)
        q = landing.step.layout.pose(landed.before)
        D, M = landing.jump.after.slope(q), system.mass_matrix(q)
        after = before - np.linalg.solve(M, D.T @ landed.impulses)
        lost = float(system.kinetic_energy(q, before) - system.kinetic_energy(q, after))
        made.append(Event(float(cycle.t[at]), at - 1, name, "impact", float(landed.impulses[place]), lost))
    return tuple(made)


def work(cycle: Cycle) -> Array:
    """Work [J] of each input in each step, (N, nu): u_i (∂F/∂u_i)ᵀ v̄ dt, where v̄ dt is q_{k+1} − q_k but on balls."""
    e, tangent = cycle.system.expressions, cycle.system.tangent
    q, z, h = ca.SX.sym("q", tangent.nq), ca.SX.sym("z", tangent.nv), ca.SX.sym("h")
    powers = e.u * (ca.jacobian(e.force, e.u).T @ e.v[: tangent.nd])
    power = ca.Function("power", [e.q, e.v, e.u, e.parameters], [ca.densify(powers)])
    move = Increments(tangent, MAPS["exp"], q, z, h)
    done = h * power(move.middle, move.velocity, e.u, e.parameters)
    poses = cycle.x[:, : tangent.nq]
    moved = tangent.difference(poses[:-1], poses[1:]) / 4  # of a ball t, what its increment is made of
    stored, places = tangent.ordinary
    moved[:, places] = poses[1:, stored]
    made = ca.Function("work", [q, z, h, e.u, e.parameters], [done]).map(len(moved))
    par = np.tile(cycle.system.parameter_values[:, None], len(moved))
    out: Array = np.asarray(made(poses[:-1].T, moved.T, np.diff(cycle.t)[None], cycle.u.T, par)).T
    return out


def stride(cycle: Cycle) -> float:
    """How far the mechanism comes in a period [m]: half of how far it comes in two, after which sides are as before."""
    points = list(_points(cycle.system).values())
    if not points:
        return 0.0
    moved, foot = onward(cycle), cycle.system.positions(cycle.x[-1, : cycle.system.tangent.nq])[points[0]]
    once = np.append(np.append(foot, 1.0) @ moved, 1.0)
    return float(np.linalg.norm(once @ moved - foot)) / 2


def onward(cycle: Cycle) -> Array:
    """Where in the world the next period happens: a point x of this one is there (x, 1) @ onward, (4, 3).

    A shift, or with a mirror, as contacts that take each other's places tell.
    """
    renaming, system = cycle.renaming, cycle.system
    points = _points(system)
    pairs = [(points[other], points[name]) for name, other in renaming.partners.items() if name in points]
    if not pairs:
        return np.eye(4, 3)
    poses = [*renaming.poses, cycle.x[-1, : system.tangent.nq]]
    before = np.concatenate([system.positions(q)[[old for old, _ in pairs]] for q in poses])
    after = np.concatenate([system.positions(renaming.pose(q))[[new for _, new in pairs]] for q in poses])
    out: Array = np.linalg.lstsq(np.column_stack([after, np.ones(len(after))]), before, rcond=1e-9)[0]
    return out


def _points(system: System) -> dict[str, int]:
    """Frames of the points of contacts by name."""
    return {c.name: c.point.index for c in system.constraints if isinstance(c, Contact)}


def transport(cycle: Cycle) -> float | None:
    """The specific cost of transport Σ|w|/(m g L) (Pekarek, 4.2.1); None for what goes nowhere."""
    system = cycle.system
    parameters = ca.vertcat(*system.symbols) if system.symbols else ca.SX(0, 1)
    mass = sum((body.mass for body in system.bodies), ca.SX(0))
    weight = float(ca.Function("mass", [parameters], [mass])(system.parameter_values))
    weight *= float(np.linalg.norm(gravity(system)))
    length = stride(cycle)
    return float(np.abs(work(cycle)).sum()) / (weight * length) if weight * length > 1e-9 else None
