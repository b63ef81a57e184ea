"""What step maps of mechanisms share: sizes and checks that come from the system."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, vector
from stepmap.errors import ModelError
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.steps.base import KernelStep
from stepmap.steps.kernels.info import Info
from stepmap.steps.layout import MechanicalLayout
from stepmap.steps.protocol import Sensitivity


class MechanicalStep(KernelStep):
    """A step map of a System; u has the forces and one entry per kinematic coordinate.

    nd and nk count tangent dimensions of dynamic and of kinematic coordinates; q̄ has ``layout.nq`` stored numbers.
    """

    def __init__(self, system: System, dt: float) -> None:
        if not isinstance(system, System):
            raise ModelError(f"system: expected a System from Builder.build(), got {type(system).__name__}")
        self.system = system
        self.dt = number(dt, "dt", "a number of seconds")
        if not self.dt > 0:
            raise ModelError(f"dt: must be positive, got {dt}")
        self.nd, self.nk = system.tangent.nd, len(system.kinematic)
        self.nc = len(system.constraint_names)
        self.nu = len(system.inputs) + self.nk

    def __reduce__(self) -> tuple[Any, ...]:
        """A step is its system, its dt and its options; its libraries are found again in the cache."""
        return _again, (type(self), self.system, self.dt, self.options)

    @property
    def options(self) -> dict[str, Any]:
        """What besides the system and dt it was made with."""
        return {}

    @cached_property
    def layout(self) -> MechanicalLayout:
        raise NotImplementedError

    @property
    def name(self) -> str:
        return self.system.name

    @cached_property
    def parameter_values(self) -> Array:
        return self.system.parameter_values

    # by parameters ----------------------------------------------------------------------------------------------

    def sensitivity(self, x: ArrayLike, u: ArrayLike) -> Sensitivity:
        """The next state with A, B and its exact derivatives T (ndx, parameters) by the parameters of the system."""
        x, u = self._point(x, u)
        info, after, A, B, T = self.by_parameters(self.parameter_values, self._own_length, x[None], u[None], None)
        self._require(info, x, u)
        return Sensitivity(after[0], A[0], B[0], T[0, :, : len(self.system.parameters)])

    def sensitivity_many(self, X: ArrayLike, U: ArrayLike) -> Sensitivity:
        """``sensitivity`` at n unrelated points, in one compiled call; all arrays have one row per point."""
        X, U = self._points(X, U)
        info, after, A, B, T = self.by_parameters(self.parameter_values, self._own_length, X, U, None)
        self._require_all(info, X, U, "point {}: ")
        return Sensitivity(after, A, B, T[:, :, : len(self.system.parameters)])

    def by_parameters(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array, Array]:
        """Next states, A, B and T (n, ndx, len(par)) at n points, with values ``par`` of the kernel's parameters.

        Those of the model come first; what follows is the step's own.
        """
        if not len(par):
            info, after, A, B = self.kernel.linearize_all(par, dt, X, U, guess)
            return info, after, A, B, np.zeros((len(U), self.ndx, 0))
        return self.kernel.parameters_all(par, dt, X, U, guess)

    def _check_lengths(self, U: Array) -> None:
        """Raises where the next length of a string is not positive; its square alone would hide the sign."""
        for i in self._lengths:
            least = U[i] if U.ndim == 1 else U[:, i].min(initial=1.0)
            if least <= 0:
                raise ModelError(f"u: {self.input_names[i]} must stay positive, got {least:g}")

    @cached_property
    def _lengths(self) -> list[int]:
        """Inputs that are next values of string lengths; a map whose inputs are something else has none."""
        return []

    def _singularity(self, x: Array) -> str:
        """What makes the step's matrix singular at a state, as far as the constraints tell."""
        slope = self.system.residuals_slope(self.layout.pose(x))[:, : self.nd]
        names = self.system.constraint_names
        still = [names[i] for i in np.flatnonzero(np.abs(slope).max(axis=1, initial=0.0) < 1e-12)]
        if still:
            return (
                f"no dynamic coordinate moves constraint {', '.join(map(repr, still))} here; leave it out "
                "(in a plane, point_to_point takes axes='xy')"
            )
        if self.nc and np.linalg.matrix_rank(slope, tol=1e-9) < self.nc:
            return f"constraints {', '.join(map(repr, names))} depend on each other here; leave one out"
        return "a coordinate moves no mass in this pose (gimbal lock)"

    def _split(self, x: ArrayLike) -> tuple[Array, Array, Array, Array]:
        state = vector(x, self.nx, "x")
        nq = self.system.tangent.nq
        q, rho, p, v = np.split(state, [nq - self.nk, nq, nq + self.nd])
        return q, rho, p, v


def _again(kind: type[MechanicalStep], system: System, dt: float, options: dict[str, Any]) -> MechanicalStep:
    return kind(system, dt, **options)
