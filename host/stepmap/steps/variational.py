"""The midpoint variational step: x = [q, rho, p, v], u = [forces, rho_next]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, rows, vector
from stepmap.errors import ConvergenceError
from stepmap.graph.library import Recipe
from stepmap.mechanics.constraints import Distance
from stepmap.mechanics.quantity import Coordinate
from stepmap.mechanics.system import System
from stepmap.steps.base import MechanicalStep
from stepmap.steps.interpreted import InterpretedMidpoint, call
from stepmap.steps.kernel import Kernel, choose
from stepmap.steps.midpoint_functions import ModelFunctions


class MidpointState(NamedTuple):
    """The parts of a state."""

    q: Array
    rho: Array
    p: Array
    v: Array


class VariationalStep(MechanicalStep):
    """The one-step map of the midpoint variational integrator (eq. 5–8, Schultz & Murphey).

    Constraints hold to rounding at every step; without forces the symplectic form is preserved.
    """

    @cached_property
    def functions(self) -> ModelFunctions:
        return ModelFunctions(self.system.expressions, self.nd)

    @cached_property
    def kernel(self) -> Kernel:
        forces = len(self.system.inputs)
        sizes = {"ND": self.nd, "NK": self.nk, "NU": forces, "NC": self.nc, "NA": len(self.functions.active)}
        active = "{" + ", ".join(map(str, self.functions.active)) + "}"
        recipe = Recipe("midpoint.c", self.functions, sizes | {"ACTIVE": active})
        return choose(recipe, self.nx, self.nu, self.nc, lambda: InterpretedMidpoint(self.functions, self.nk, forces))

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        q = [c.name for c in self.system.dynamic]
        rho = [c.name for c in self.system.kinematic]
        return (*q, *rho, *(f"p_{name}" for name in q), *(f"v_{name}" for name in rho))

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        forces = (i.name for i in self.system.inputs)
        return (*forces, *(f"{c.name}_next" for c in self.system.kinematic))

    @cached_property
    def _lengths(self) -> list[int]:
        places = {c.name: len(self.system.inputs) + i for i, c in enumerate(self.system.kinematic)}
        strings = (c.length for c in self.system.constraints if isinstance(c, Distance))
        return [places[length.name] for length in strings if isinstance(length, Coordinate)]

    # states -----------------------------------------------------------------------------------------------------

    def pack(
        self, q: ArrayLike, rho: ArrayLike | None = None, p: ArrayLike | None = None, v: ArrayLike | None = None
    ) -> Array:
        """x from its parts; parts left out are zero."""
        parts = []
        for name, part, size in (("q", q, self.nd), ("rho", rho, self.nk), ("p", p, self.nd), ("v", v, self.nk)):
            parts.append(np.zeros(size) if part is None else vector(part, size, name))
        return np.concatenate(parts)

    def unpack(self, x: ArrayLike) -> MidpointState:
        """The parts q, rho, p, v of a state."""
        return MidpointState(*self._split(x))

    def rest(self, pose: Mapping[str, float] | ArrayLike | None = None) -> Array:
        """The state that has been held still at a pose for the last step: p = D2 Ld(q, q) = −dt/2 dV/dq.

        Without a pose, at the start of all coordinates.
        """
        return self.from_velocity({} if pose is None else pose, np.zeros(self.nd + self.nk))

    def from_velocity(
        self, pose: Mapping[str, float] | ArrayLike, velocity: Mapping[str, float] | ArrayLike, *, instant: bool = False
    ) -> Array:
        """The state at a pose reached with a velocity of q̄.

        By default the velocity is the one of the last step, (q̄_k − q̄_{k−1})/dt, and p its discrete Legendre transform
        D2 Ld(q̄ − dt v, q̄); ``rest`` is the case v = 0. With ``instant`` the velocity is the one at this very moment and
        p = L_v(q̄, v): use it to compare with a continuous solution, to second order in dt.
        """
        q = self.system.configuration(pose)
        velocities = self.system.velocities(velocity)
        self.system.require_on_constraints(q)
        middle = q if instant else q - self.dt / 2 * velocities
        no_force = np.zeros(len(self.system.inputs))
        lq, lv, _ = call(self.functions.first, middle, velocities, no_force, self.system.parameter_values)
        p = lv[:, 0] if instant else self.dt / 2 * lq[:, 0] + lv[:, 0]
        return self.pack(q[: self.nd], q[self.nd :], p, velocities[self.nd :])

    def satisfy_constraints(self, pose: Mapping[str, float] | ArrayLike, fixed: Sequence[str] = ()) -> Array:
        """The nearest q̄ on all constraints, keeping the ``fixed`` coordinates."""
        return self.system.satisfy_constraints(pose, fixed)

    def equilibrium(
        self,
        pose: Mapping[str, float] | ArrayLike | None = None,
        forces: ArrayLike | None = None,
        *,
        iterations: int = 100,
    ) -> tuple[Array, Array]:
        """(x, u) that the map keeps: q near ``pose`` where all forces balance, rho held as given.

        Newton's method on dt (L_q + F) − D_q hᵀ lam = 0, h = 0, its steps shortened until the residual falls.
        """
        force = (
            np.zeros(len(self.system.inputs)) if forces is None else vector(forces, len(self.system.inputs), "forces")
        )
        q = self.system.configuration({} if pose is None else pose)
        balance = _Balance(self, force)
        z = balance.start(q)
        residual, jacobian = balance.evaluate(q, z)
        size = float(np.linalg.norm(residual))
        for _ in range(iterations):
            if size <= 1e-13 * balance.scale(q, z):
                x = self.rest(q)
                return x, np.concatenate([force, q[self.nd :]])
            try:
                dz = np.linalg.solve(jacobian, -residual)
            except np.linalg.LinAlgError:
                dz = np.linalg.lstsq(jacobian, -residual, rcond=None)[0]
            fraction = 1.0
            while fraction > 1e-6:
                trial_q, trial_z = balance.moved(q, z, fraction * dz)
                residual, jacobian = balance.evaluate(trial_q, trial_z)
                if np.linalg.norm(residual) < size:
                    break
                fraction /= 2
            else:
                break
            q, z, size = trial_q, trial_z, float(np.linalg.norm(residual))
        if size <= 1e-10 * balance.scale(q, z):
            return self.rest(q), np.concatenate([force, q[self.nd :]])
        raise ConvergenceError(
            f"no equilibrium of {self.system.name!r} near the given pose; start closer to one, or hold it with a force",
            iterations=iterations,
            residual=size,
            x=q,
        )

    # motion -----------------------------------------------------------------------------------------------------

    def velocity(self, x: ArrayLike) -> Array:
        """Velocity of q̄ that belongs to p, after p's part normal to the constraints (their impulse) is taken off.

        Solves M q̇ + D_q hᵀ μ = p − M_qρ v,  D_q h q̇ = −D_ρ h v  for one state or many, (..., nx).
        """
        state = rows(x, self.nx, "x")
        nd, nc, nq = self.nd, self.nc, self.nd + self.nk
        q, p, v = state[..., :nq], state[..., nq : nq + nd], state[..., nq + nd :]
        mass, jacobian = self.system.mass_matrix(q), self.system.residuals_slope(q)
        matrix = np.zeros((*state.shape[:-1], nd + nc, nd + nc))
        matrix[..., :nd, :nd] = mass[..., :nd, :nd]
        matrix[..., nd:, :nd] = jacobian[..., :nd]
        matrix[..., :nd, nd:] = np.swapaxes(jacobian[..., :nd], -1, -2)
        free = p - np.einsum("...ij,...j->...i", mass[..., :nd, nd:], v)
        driven = -np.einsum("...ij,...j->...i", jacobian[..., nd:], v)
        right = np.concatenate([free, driven], axis=-1)[..., None]
        return np.concatenate([np.linalg.solve(matrix, right)[..., :nd, 0], v], axis=-1)

    def energy(self, x: ArrayLike) -> Array:
        """T + V [J] of one state or many."""
        q = rows(x, self.nx, "x")[..., : self.nd + self.nk]
        return self.system.kinetic_energy(q, self.velocity(x)) + self.system.potential_energy(q)


class _Balance:
    """Static balance as equations in (q, lam)."""

    def __init__(self, step: VariationalStep, force: Array) -> None:
        self.step, self.force = step, force
        self.par = step.system.parameter_values

    def start(self, q: Array) -> Array:
        """The multipliers that balance best at the guess."""
        residual, jacobian = self.evaluate(q, np.zeros(self.step.nc))
        nd = self.step.nd
        return np.linalg.lstsq(jacobian[:nd, nd:], -residual[:nd], rcond=None)[0]

    def evaluate(self, q: Array, lam: Array) -> tuple[Array, Array]:
        f, nd, nc = self.step.functions, self.step.nd, self.step.nc
        names = [name for name, _ in f.second.outputs]
        out = dict(zip(names, call(f.second, q, np.zeros_like(q), self.force, self.par), strict=True))
        balance, slope = (out["Lq"] + out["F"])[:, 0], (out["Lqq"] + out["Fq"])[:, :nd]
        if not nc:
            return balance, slope
        h, jacobian = call(f.con, q, self.par)
        bend = call(f.con2, q, self.par, lam)[0][:nd, :nd]
        jacobian = jacobian[:, :nd]
        matrix = np.block([[slope - bend, -jacobian.T], [jacobian, np.zeros((nc, nc))]])
        return np.concatenate([balance - jacobian.T @ lam, h[:, 0]]), matrix

    def moved(self, q: Array, lam: Array, dz: Array) -> tuple[Array, Array]:
        nd = self.step.nd
        return np.concatenate([q[:nd] + dz[:nd], q[nd:]]), lam + dz[nd:]

    def scale(self, q: Array, lam: Array) -> float:
        return (
            1.0
            + float(np.abs(lam).max(initial=0.0))
            + float(np.abs(self.force).max(initial=0.0))
            + float(np.abs(q).max())
        )


def discretize(system: System, dt: float) -> VariationalStep:
    """The midpoint variational step of a system at a time step dt [s]; compiled now, or loaded from the cache."""
    step = VariationalStep(system, dt)
    _ = step.kernel
    return step
