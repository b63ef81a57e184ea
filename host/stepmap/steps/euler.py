"""Continuous dynamics and the explicit Euler step papers compare with: x = [q, rho, q̇, rhȯ], u = [forces, rhö]."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, vector
from stepmap.graph.library import Recipe
from stepmap.mechanics.system import System
from stepmap.steps.base import MechanicalStep
from stepmap.steps.euler_functions import RateFunctions
from stepmap.steps.interpreted import InterpretedEuler
from stepmap.steps.kernel import Kernel, choose


class Rate(NamedTuple):
    """dx/dt and the constraint forces [N], positive when they pull."""

    rate: Array
    multipliers: Array


class RateLinearization(NamedTuple):
    """dx/dt with its derivatives in x and u."""

    rate: Array
    A: Array
    B: Array


class EulerStep(MechanicalStep):
    """x_next = x + dt f(x, u) with the continuous dynamics f; constraints drift, energy grows: a baseline."""

    @cached_property
    def functions(self) -> RateFunctions:
        return RateFunctions(self.system.expressions, self.nd)

    @cached_property
    def kernel(self) -> Kernel:
        forces = len(self.system.inputs)
        recipe = Recipe("euler.c", self.functions, {"ND": self.nd, "NK": self.nk, "NU": forces, "NC": self.nc})
        return choose(recipe, self.nx, self.nu, self.nc, lambda: InterpretedEuler(self.functions, forces))

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        names = [c.name for c in self.system.coordinates]
        return (*names, *(f"{name}_rate" for name in names))

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
        x, u = self._point(x, u)
        info, rate, multipliers, _, _ = self.kernel.dynamics(self.system.parameter_values, x, u, False)
        self._require(info, x, u)
        return Rate(rate, multipliers)

    def linearize_dynamics(self, x: ArrayLike, u: ArrayLike) -> RateLinearization:
        """dx/dt with its exact derivatives."""
        x, u = self._point(x, u)
        info, rate, _, A, B = self.kernel.dynamics(self.system.parameter_values, x, u, True)
        self._require(info, x, u)
        assert A is not None  # derivatives were asked for
        assert B is not None
        return RateLinearization(rate, A, B)

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


def euler(system: System, dt: float) -> EulerStep:
    """The explicit Euler step of a system at a time step dt [s]."""
    step = EulerStep(system, dt)
    _ = step.kernel
    return step
