"""Continuous dynamics and the explicit Euler step papers compare with: x = [q, rho, q̇, rhȯ], u = [forces, rhö]."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, vector
from stepmap.mechanics.system import System
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
    """x = [q, rho, q̇, rhȯ]: coordinates and their rates."""

    def __init__(self, system: System) -> None:
        rates = {
            f"{part}_rate": [(f"{name}_rate", f"{unit}/s" if unit else "") for name, unit in entries]
            for part, entries in pose_entries(system).items()
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
        """Accelerations a and constraint forces lam from r_q = M a + … = 0 and r_h = d²h/dt² = 0, linear in both."""
        e, nd, nk, nq = self.system.expressions, self.nd, self.nk, self.nd + self.nk
        nf = len(self.system.inputs)
        x, u, dt = ca.SX.sym("x", 2 * nq), ca.SX.sym("u", self.nu), ca.SX.sym("dt")
        z = ca.SX.sym("z", nd + self.nc)
        a, lam = z[:nd], entries(z, nd, nd + self.nc)
        rate = ca.SX.sym("rate2", nk)
        along = ca.vertcat(e.v, a, rate)
        lv, lq = ca.gradient(e.lagrangian, e.v)[:nd], ca.gradient(e.lagrangian, e.q)[:nd]
        motion = ca.jtimes(lv, ca.vertcat(e.q, e.v), along) - lq - e.force
        speed = ca.jtimes(e.residual, e.q, e.v)
        pull = ca.jacobian(e.residual, e.q[:nd]).T @ lam
        residual = ca.densify(ca.vertcat(motion + pull, ca.jtimes(speed, ca.vertcat(e.q, e.v), along)))
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
            after=x + dt * ca.vertcat(x[nq:], a, rates),
            multipliers=pull * lam,
            guess=ca.SX.zeros(nd + self.nc),
            decisive=nd,
            linear=True,
        )

    @cached_property
    def layout(self) -> EulerLayout:
        return EulerLayout(self.system)

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        forces = (i.name for i in self.system.inputs)
        return (*forces, *(f"{c.name}_rate2" for c in self.system.kinematic))

    def pack(self, pose: Mapping[str, float] | ArrayLike, velocity: Mapping[str, float] | ArrayLike) -> Array:
        """x from q̄ and its velocity."""
        return np.concatenate([self.system.configuration(pose), self.system.velocities(velocity)])

    def rest(self, pose: Mapping[str, float] | ArrayLike) -> Array:
        """The state at rest at a pose."""
        q = self.system.configuration(pose)
        self.system.require_on_constraints(q)
        return np.concatenate([q, np.zeros_like(q)])

    def dynamics(self, x: ArrayLike, u: ArrayLike) -> Rate:
        """dx/dt: q̈ and multipliers from q̄, its velocity, forces and rhö."""
        at = self.sensitivity(x, u)  # of x + dt rate, in dt
        return Rate(at.T, at.multipliers)

    def linearize_dynamics(self, x: ArrayLike, u: ArrayLike) -> RateLinearization:
        """dx/dt with its exact derivatives."""
        at = self.sensitivity(x, u, dt=1.0)
        return RateLinearization(at.T, at.A - np.eye(self.nx), at.B)

    def acceleration(
        self,
        pose: Mapping[str, float] | ArrayLike,
        velocity: Mapping[str, float] | ArrayLike,
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
        nq = self.nd + self.nk
        return rate[nq : nq + self.nd], multipliers
