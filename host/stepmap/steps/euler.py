"""Continuous dynamics and the explicit Euler step papers compare with: x = [q, rho, q̇, rhȯ], u = [forces, rhö]."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, vector
from stepmap.mechanics.system import Pose, System
from stepmap.steps.kernels.equations import Equations, entries
from stepmap.steps.layout import MechanicalLayout, pose_entries
from stepmap.steps.mechanical import MechanicalStep


class Rate(NamedTuple):
    """dx/dt and the constraint forces [N], positive when they pull."""

    rate: Array
    multipliers: Array


class RateLinearization(NamedTuple):
    """dx/dt with its derivatives in x and u."""

    rate: Array
    A: Array
    B: Array


class EulerLayout(MechanicalLayout):
    """x = [q, rho, q̇, rhȯ]: coordinates and their rates, ω in the child's axes for balls."""

    def __init__(self, system: System) -> None:
        nd, entries = system.tangent.nd, system.tangent.entries
        rates = {
            f"{part}_rate": [(f"{name}_rate", f"{unit}/s" if unit else "") for name, unit in some]
            for part, some in (("q", entries[:nd]), ("rho", entries[nd:]))
        }
        super().__init__(system, pose_entries(system) | rates)

    def hold(self, x: ArrayLike, forces: ArrayLike | None = None) -> Array:
        return self._with_forces(np.zeros((*np.shape(x)[:-1], self.nk)), forces)

    def momentum(self, pose: ArrayLike, velocity: ArrayLike) -> Array:
        out: Array = np.asarray(velocity, dtype=float)[..., : self.nd]
        return out


class EulerStep(MechanicalStep):
    """x_next = x + dt f(x, u) with the continuous dynamics f; constraints drift, energy grows: a baseline."""

    @cached_property
    def equations(self) -> Equations:
        """Accelerations a and constraint forces lam from r_q = M a + … = 0 and r_h = d²h/dt² = 0, linear in both.

        Balls have d/dt L_ω + ω × L_ω − L_θ = F in the child's axes (Euler–Poincaré).
        """
        e, nd, nk, tangent = self.system.expressions, self.nd, self.nk, self.system.tangent
        nf, nq, moved = len(self.system.inputs), tangent.nq, e.charted
        x, u, dt = ca.SX.sym("x", self.nx), ca.SX.sym("u", self.nu), ca.SX.sym("dt")
        z = ca.SX.sym("z", nd + self.nc)
        a, lam = z[:nd], entries(z, nd, nd + self.nc)
        rate = ca.SX.sym("rate2", nk)
        along = ca.vertcat(e.v, a, rate)
        lv, lq = ca.gradient(moved.lagrangian, e.v)[:nd], ca.gradient(moved.lagrangian, e.chart)[:nd]
        motion = ca.jtimes(lv, ca.vertcat(e.chart, e.v), along) - lq - moved.force
        for _, at in tangent.balls:
            motion[at : at + 3] += ca.cross(e.v[at : at + 3], lv[at : at + 3])
        speed = ca.jtimes(moved.residual, e.chart, e.v)
        pull = ca.jacobian(moved.residual, e.chart[:nd]).T @ lam
        bend = ca.jtimes(speed, ca.vertcat(e.chart, e.v), along)
        residual = e.centered(ca.densify(ca.vertcat(motion + pull, bend)))
        of_state = ca.Function("of_state", [e.q, e.v, e.u, rate, z, e.parameters], [residual, e.pull])
        forces, rates = entries(u, 0, nf), entries(u, nf, self.nu)
        residual, pull = of_state(x[:nq], x[nq:], forces, rates, z, e.parameters)
        return Equations(
            x,
            u,
            z,
            dt,
            e.parameters,
            residual=residual,
            after=tangent.retract_of(x, dt * ca.vertcat(x[nq:], a, rates)),
            multipliers=pull * lam,
            guess=ca.SX.zeros(nd + self.nc),
            decisive=nd,
            linear=True,
            ndx=self.ndx,
            retract=tangent.retract_of,
            difference=tangent.difference_of,
        )

    @cached_property
    def layout(self) -> EulerLayout:
        return EulerLayout(self.system)

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        forces = (i.name for i in self.system.inputs)
        return (*forces, *(f"{c.name}_rate2" for c in self.system.kinematic))

    def pack(self, pose: Pose, velocity: Pose) -> Array:
        """x from q̄ and its velocity."""
        return np.concatenate([self.system.configuration(pose), self.system.velocities(velocity)])

    def rest(self, pose: Pose) -> Array:
        """The state at rest at a pose."""
        q = self.system.configuration(pose)
        self.system.require_on_constraints(q)
        return np.concatenate([q, np.zeros(self.system.tangent.nv)])

    def dynamics(self, x: ArrayLike, u: ArrayLike) -> Rate:
        """dx/dt in the tangent space: q̈ and multipliers from q̄, its velocity, forces and rhö."""
        at = self.length_sensitivity(x, u)  # of x + dt rate, in dt
        nv = self.system.tangent.nv
        rate = np.concatenate([vector(x, self.nx, "x")[-nv:], at.T[nv:]])  # on balls, T is of the chart at the end
        return Rate(rate, at.multipliers)

    def linearize_dynamics(self, x: ArrayLike, u: ArrayLike) -> RateLinearization:
        """dx/dt with its exact derivatives."""
        at, nv = self.length_sensitivity(x, u, dt=1.0), self.system.tangent.nv
        A, velocity = at.A - np.eye(self.ndx), vector(x, self.nx, "x")[-nv:]
        A[:nv] = np.eye(nv, self.ndx, nv)
        for _, i in self.system.tangent.balls:  # a turn δ of the axes that ω is given in: dδ/dt = −ω × δ + …
            w = velocity[i : i + 3]
            A[i : i + 3, i : i + 3] = -np.cross(w, np.eye(3)).T
        return RateLinearization(np.concatenate([velocity, at.T[nv:]]), A, np.vstack([0 * at.B[:nv], at.B[nv:]]))

    def acceleration(
        self,
        pose: Pose,
        velocity: Pose,
        forces: ArrayLike = (),
        rho_acceleration: ArrayLike = (),
    ) -> tuple[Array, Array]:
        """(q̈, multipliers) of the dynamic coordinates; forces and rhö left out are zero."""
        given = [np.asarray(forces, dtype=float), np.asarray(rho_acceleration, dtype=float)]
        sizes, names = (len(self.system.inputs), self.nk), ("forces", "rho_acceleration")
        parts = [
            vector(part, size, name) if part.size else np.zeros(size)
            for part, size, name in zip(given, sizes, names, strict=True)
        ]
        rate, multipliers = self.dynamics(self.pack(pose, velocity), np.concatenate(parts))
        nv = self.system.tangent.nv
        return rate[nv : nv + self.nd], multipliers
