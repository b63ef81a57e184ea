"""A system's equations as the blocks of a program need them: at a middle, at a node, of the constraints that hold.

A mode is the set of constraints that hold: wires always, gaps where a phase closes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.poses.tangent import Tangent
from stepmap.mechanics.system import System
from stepmap.steps.rotations.increments import Increments
from stepmap.steps.rotations.maps import MAPS


class Middle(NamedTuple):
    """L_q, L_v and F of the dynamic coordinates at the middle of a step."""

    lq: ca.SX
    lv: ca.SX
    force: ca.SX


class Held(NamedTuple):
    """h, D_q h of the dynamic coordinates and the force per multiplier, of all rows."""

    residual: ca.SX
    slope: ca.SX
    pull: ca.SX


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A system as functions of symbols: nq stored numbers of q̄, n velocities, nd of them dynamic."""

    system: System

    @property
    def tangent(self) -> Tangent:
        return self.system.tangent

    @property
    def nq(self) -> int:
        return self.tangent.nq

    @property
    def n(self) -> int:
        return self.tangent.nv

    @property
    def nd(self) -> int:
        return self.tangent.nd

    @property
    def nu(self) -> int:
        return len(self.system.inputs)

    @property
    def nx(self) -> int:
        """Variables of a node: q̄, p and the length of the step."""
        return self.nq + self.nd + 1

    @cached_property
    def _middle(self) -> ca.Function:
        e, nd = self.system.expressions, self.nd
        lq = e.centered(ca.gradient(e.charted.lagrangian, e.chart))[:nd]
        lv = ca.gradient(e.lagrangian, e.v)[:nd]
        return ca.Function("middle", [e.q, e.v, e.u, e.parameters], [lq, lv, e.force])

    @cached_property
    def _held(self) -> ca.Function:
        e = self.system.expressions
        slope = ca.densify(e.centered(ca.jacobian(e.charted.residual, e.chart[: self.nd])))
        return ca.Function("held", [e.q, e.parameters], [e.residual, slope, e.pull])

    @cached_property
    def _works(self) -> ca.Function:
        """Work per second of each input: u_i (∂F/∂u_i)ᵀ v of the dynamic coordinates."""
        e = self.system.expressions
        powers = e.u * (ca.jacobian(e.force, e.u).T @ e.v[: self.nd])
        return ca.Function("works", [e.q, e.v, e.u, e.parameters], [ca.densify(powers)])

    def powers(self, q: ca.SX, v: ca.SX, u: ca.SX, par: ca.SX) -> ca.SX:
        """Power of each input."""
        return self._works(q, v, u, par)

    @cached_property
    def mass(self) -> ca.Function:
        """∂²T/∂v̄² of (q̄, parameters)."""
        e = self.system.expressions
        return ca.Function("mass", [e.q, e.parameters], [ca.densify(ca.hessian(e.kinetic, e.v)[0])])

    @cached_property
    def positions(self) -> ca.Function:
        """World positions of all frames (3, frames) of (q̄, parameters)."""
        e = self.system.expressions
        return ca.Function("positions", [e.q, e.parameters], [e.positions])

    def middle(self, q: ca.SX, v: ca.SX, u: ca.SX, par: ca.SX) -> Middle:
        return Middle(*(ca.densify(part) for part in self._middle(q, v, u, par)))

    def held(self, q: ca.SX, par: ca.SX) -> Held:
        return Held(*self._held(q, par))

    def move(self, q: ca.SX, v: ca.SX, h: ca.SX) -> Increments:
        """The step from q̄ with v̄: its middle and its end. On balls v̄ is 4 t/h, which is ω to second order."""
        stored, places = (part.tolist() for part in self.tangent.ordinary)
        z = h / 4 * v
        for i, at in zip(stored, places, strict=True):
            z[at] = q[i] + h * v[at]
        made = Increments(self.tangent, MAPS["exp"], q, z, h)
        for i, at in zip(stored, places, strict=True):  # the same without differences and quotients
            made.middle[i], made.velocity[at] = q[i] + h / 2 * v[at], v[at]
        for at, t in made.t.items():
            made.velocity[at : at + 3] = made.chosen.phi(ca.dot(t, t)) / 4 * v[at : at + 3]
        return made

    # numbers ------------------------------------------------------------------------------------------------------

    def values(self, function: ca.Function, *columns: Array) -> list[Array]:
        """A function's outputs at K points given as rows; the parameters are the system's."""
        par = np.tile(self.system.parameter_values[:, None], len(columns[0]))
        made = function.map(len(columns[0]))(*(column.T for column in columns), par)
        return [np.asarray(out).T for out in (made if isinstance(made, tuple) else (made,))]

    @cached_property
    def _arrival(self) -> ca.Function:
        """p at the end of a step of (q̄, v̄, u, h, parameters): h/2 (L_q + F) + L_v."""
        e = self.system.expressions
        q, v, h = ca.SX.sym("q", self.nq), ca.SX.sym("v", self.n), ca.SX.sym("h")
        move = self.move(q, v, h)
        at = self.middle(move.middle, move.velocity, e.u, e.parameters)
        p = h / 2 * move.at_end(at.lq + at.force) + move.right_momentum(at.lv)
        works = h * self._works(move.middle, move.velocity, e.u, e.parameters)
        return ca.Function("arrival", [q, v, e.u, h, e.parameters], [p, works])

    def momenta(self, q: Array, v: Array, u: Array, h: float) -> Array:
        """p at the ends of steps from poses q̄ with velocities v̄, (K, nd)."""
        return self.values(self._arrival, q, v, u, np.full((len(q), 1), h))[0]

    def pulls(self, q: Array) -> Array:
        """Forces along all constraints per multiplier, (K, nc)."""
        return self.values(self._held_pull, q)[0]

    @cached_property
    def _held_pull(self) -> ca.Function:
        e = self.system.expressions
        return ca.Function("pull", [e.q, e.parameters], [e.pull])

    def works(self, q: Array, v: Array, u: Array, h: float) -> Array:
        """Work of each input in steps from poses q̄ with velocities v̄, (K, nu)."""
        return self.values(self._arrival, q, v, u, np.full((len(q), 1), h))[1]

    def instant(self, q: Array, v: Array) -> Array:
        """p = L_v at a pose and velocity, (K, nd)."""
        return self.values(self._middle, q, v, np.zeros((len(q), self.nu)))[1]


@dataclass(frozen=True)
class Mode:
    """The rows of the constraints that hold, and what each is."""

    rows: tuple[int, ...]
    kinds: tuple[Row, ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, system: System, closed: Sequence[str] = ()) -> Mode:
        """Wires, and the named gaps with the tangents of feet that stick, but for rows that nothing moves."""
        e = system.expressions
        moved = set(ca.sparsify(e.centered(ca.jacobian(e.charted.residual, e.chart))).sparsity().row())
        rows: list[int] = []
        owner = ""
        for i, (name, kind) in enumerate(zip(system.constraint_names, system.constraint_rows, strict=True)):
            if kind is not Row.TANGENT:
                owner = name
            if kind is Row.EQUALITY or (owner in closed and i in moved):
                rows.append(i)
        return cls(
            tuple(rows),
            tuple(system.constraint_rows[i] for i in rows),
            tuple(system.constraint_names[i] for i in rows),
        )

    @property
    def count(self) -> int:
        return len(self.rows)

    def pick(self, column: ca.SX) -> ca.SX:
        """The rows of a column or matrix over all constraints."""
        return column[list(self.rows), :] if self.rows else ca.SX(0, column.shape[1])

    def kept(self, after: ca.SX, before: ca.SX) -> ca.SX:
        """What has to vanish at the end of a step: h, or of a foot that sticks how far it has moved."""
        parts = [
            after[i] - before[i] if kind is Row.TANGENT else after[i]
            for i, kind in zip(self.rows, self.kinds, strict=True)
        ]
        return ca.vertcat(*parts) if parts else ca.SX(0, 1)
