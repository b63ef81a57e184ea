"""Poses of a mechanism that look like a dancer and that its wires can hold, one after the other.

Gauss–Newton (Levenberg & Marquardt) on the distances of markers, the gaps of wires, how far wires lean, how fast the
mechanism would leave the pose if it were let go there, how much wires pull then, and how much room each wire has:
1/[(J W Jᵀ)⁻¹]_ii, with J the slopes of all wires and W the inverse mass matrix of the start, is how easily wire i moves
the mechanism while the others hold. It vanishes where a limb hangs stretched from its wire: there the wire's force
grows without bound, and a longer wire has no pose at all. A puppet has fewer strings than joints: poses in which it
does not hang still are left at once, and a motion through them is a poor first guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics import System
from stepmap.mechanics.gravity import gravity, upward
from stepmap.mocap.lead import Lead

GAP, LEAN, ROOM, STILL = 100.0, 0.1, 1.0, 0.02  # weights beside that of a marker, per m, m, 1 and rad
HOME = 0.02  # per rad that a limb is off the start: markers hardly see it twist, and a knee must not turn about
BALANCE, PULL = 0.3, 1.0  # of an acceleration, per that of free fall; of a wire's force, per that at the start
SLACK = 0.3  # of its force at the start: wires that pull less weigh
LEAST = 1e-6  # of the largest force at the start: below it a wire holds nothing
FARTHEST = 0.1  # m or rad that a coordinate may go in one iteration
ITERATIONS = 8  # per pose; the last pose is near
LEAD = 40  # poses from the start to the first one, so that no limb passes the place where it is stretched
DONE = 1e-4  # relative decrease that ends the iterations


@dataclass(frozen=True, eq=False)
class Fit:
    """The residuals of a pose, compiled by CasADi for one mechanism and its marked frames."""

    system: System
    picked: list[int]
    residual: ca.Function  # q̄, targets, last q̄, parameters -> residual and its slope

    def path(self, start: Array, places: Array, lead: Lead) -> Array:
        """Poses q̄ (n, nq) for targets (n, frames, 3), each near the one before; the first is led to from ``start``."""
        q = np.array(start)
        for place in lead.to(places[0], np.linspace(0.0, 1.0, LEAD)[1:]):
            q = self._near(q, place)
        found = []
        for place in places:
            q = self._near(q, place)
            found.append(q)
        return np.array(found)

    def held(self, poses: Array) -> Array:
        """Poses that look like these, and in which robots are where wires hold them."""
        places = self.system.positions(poses)[:, self.picked]
        return np.array([self._near(q, place) for q, place in zip(poses, places, strict=True)])

    def _near(self, last: Array, place: Array) -> Array:
        """The pose nearest to targets, from the last one."""
        q, damping = last, 1e-6
        r, J = self._evaluate(q, place, last)
        for _ in range(ITERATIONS):
            normal = J.T @ J
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -J.T @ r)
            step *= min(1.0, FARTHEST / max(float(np.abs(step).max()), 1e-12))
            trial_r, trial_J = self._evaluate(q + step, place, last)
            before, after = float(r @ r), float(trial_r @ trial_r)
            if not after < before:
                damping = max(damping, 1e-6) * 30
                continue
            q, r, J, damping = q + step, trial_r, trial_J, max(damping / 10, 1e-9)
            if before - after < DONE * before:
                break
        return q

    def _evaluate(self, q: Array, place: Array, last: Array) -> tuple[Array, Array]:
        r, J = self.residual(q, place.ravel(), last, self.system.parameter_values)
        return np.asarray(r).ravel(), np.asarray(J)


def fit(system: System, names: Sequence[str], start: Array, room: float) -> Fit:
    """The fit for named frames; every wire keeps at least the part ``room`` of the room that it has at the start."""
    if system.balls:
        raise ModelError("system: imitation needs coordinates that are plain numbers; this one has balls")
    e = system.expressions
    picked = [system.frame_names.index(name) for name in names]
    targets, last = ca.SX.sym("targets", 3 * len(names)), ca.SX.sym("last", e.q.numel())
    limbs = _limbs(system, picked, start)
    untwisted = HOME * (e.q[limbs] - start[limbs])
    parts = [ca.vec(e.positions[:, picked]) - targets, STILL * (e.q - last), untwisted]
    if e.gap.numel():
        parts += [GAP * e.gap, LEAN * _leans(system)]
        space = rooms(system, start)
        least = room * np.asarray(ca.Function("room", [e.q, e.parameters], [space])(start, system.parameter_values))
        if least.min() <= 1e-9:
            name = system.constraint_names[int(np.argmin(least))]
            raise ModelError(f"start: constraint {name!r} is nearly singular there, so nothing could be led by it")
        parts.append(ROOM * ca.fmax(0, np.log(least) - ca.log(ca.fmax(space, 1e-12))))
        parts += _balance(system, start)
    r = ca.vertcat(*parts)
    return Fit(system, picked, ca.Function("fit", [e.q, targets, last, e.parameters], [r, ca.jacobian(r, e.q)]))


def _limbs(system: System, picked: list[int], start: Array) -> list[int]:
    """Dynamic coordinates that carry less than half of the marked frames: the others are those of the root."""
    away = start + np.random.default_rng(3).uniform(0.1, 0.3, len(start))
    places = system.positions(away)[picked]
    found = []
    for i in range(system.tangent.nd):
        moved = system.positions(away + 0.1 * np.eye(len(start))[i])[picked]
        if (np.abs(moved - places).max(axis=1) > 1e-6).mean() < 0.5:
            found.append(i)
    return found


def rooms(system: System, start: Array) -> ca.SX:
    """1/[(J W Jᵀ)⁻¹]_ii of every constraint, with J its slopes in the dynamic coordinates."""
    e, nd = system.expressions, system.tangent.nd
    W = np.linalg.inv(system.mass_matrix(start)[:nd, :nd])
    J = ca.jacobian(e.gap, e.q)[:, :nd]
    return 1 / ca.diag(ca.inv(J @ ca.DM(W) @ J.T))


def _balance(system: System, start: Array) -> list[ca.SX]:
    """How far a pose is from one that hangs still, and by how much wires pull less than a part of what they do there.

    The first are accelerations of the mechanism let go, with the metric of the start, over that of free fall. Forces of
    constraints are those that make them least; force inputs may help them.
    """
    e, nd = system.expressions, system.tangent.nd
    weight = float(np.linalg.norm(gravity(system)))
    if not weight > 0:
        return []
    W = np.linalg.inv(system.mass_matrix(start)[:nd, :nd])
    still = [ca.SX.zeros(e.v.numel()), ca.SX.zeros(e.u.numel())]
    force, actuated = ca.substitute([e.force, ca.jacobian(e.force, e.u)], [e.v, e.u], still)
    load = force - ca.gradient(e.potential, e.q)[:nd]
    ways = ca.vertcat(ca.jacobian(e.gap, e.q)[:, :nd], actuated.T)
    eased = ways @ ca.DM(W)
    pulls = -ca.solve(eased @ ways.T, eased @ load)
    falls = ca.DM(np.linalg.cholesky(W).T) @ (load + ways.T @ pulls) / weight
    tensions = pulls[: e.gap.numel()]
    usual = np.asarray(ca.Function("usual", [e.q, e.parameters], [tensions])(start, system.parameter_values)).ravel()
    held = np.flatnonzero(usual > LEAST * np.abs(usual).max()).tolist()
    return [BALANCE * falls, *(PULL * ca.fmax(0, SLACK - tensions[i] / usual[i]) for i in held)]


def _leans(system: System) -> ca.SX:
    """Horizontal distances between the ends of all wires: robots stay above what they hold."""
    up = upward(system)
    aside = np.eye(3) - np.outer(up, up)
    where = system.expressions.positions
    ends = [(c.a.index, c.b.index) for c in system.constraints if hasattr(c, "a") and hasattr(c, "b")]
    return ca.vertcat(ca.SX(0, 1), *(ca.DM(aside) @ (where[:, a] - where[:, b]) for a, b in ends))
