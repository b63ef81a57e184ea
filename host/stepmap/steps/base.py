"""What every step map of a mechanical system shares: checks, errors, and the calls into its kernel."""

from __future__ import annotations

from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, rows, vector
from stepmap.errors import ConvergenceError, ModelError, ShapeError
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.steps.kernel import DIVERGED, NOT_FINITE, OK, SINGULAR, Info, Kernel
from stepmap.steps.protocol import Curvature, Linearization, StepResult, Trajectory


class MechanicalStep:
    """A StepMap backed by a kernel. Immutable; x has 2 (nd + nk) entries, u has the forces and nk more."""

    def __init__(self, system: System, dt: float) -> None:
        if not isinstance(system, System):
            raise ModelError(f"system: expected a System from Builder.build(), got {type(system).__name__}")
        self.system = system
        self.dt = number(dt, "dt", "a number of seconds")
        if not self.dt > 0:
            raise ModelError(f"dt: must be positive, got {dt}")
        self.nd, self.nk = len(system.dynamic), len(system.kinematic)
        self.nc = len(system.constraint_names)
        self.nx = 2 * (self.nd + self.nk)
        self.nu = len(system.inputs) + self.nk

    @cached_property
    def kernel(self) -> Kernel:
        raise NotImplementedError

    def step(self, x: ArrayLike, u: ArrayLike) -> StepResult:
        """The next state from state x under input u."""
        x, u = self._point(x, u)
        info, after, multipliers = self.kernel.step(self.system.parameter_values, self.dt, x, u)
        self._require(info, x, u)
        return StepResult(after, multipliers, info.iterations)

    def linearize(self, x: ArrayLike, u: ArrayLike) -> Linearization:
        """The next state and its exact derivatives A (nx, nx), B (nx, nu)."""
        x, u = self._point(x, u)
        info, after, A, B = self.kernel.linearize(self.system.parameter_values, self.dt, x, u)
        self._require(info, x, u)
        return Linearization(after, A, B)

    def curvature(self, x: ArrayLike, u: ArrayLike, z: ArrayLike) -> Curvature:
        """Exact second derivatives of the next state contracted with z (nx)."""
        x, u = self._point(x, u)
        z = vector(z, self.nx, "z")
        info, xx, xu, uu = self.kernel.curvature(self.system.parameter_values, self.dt, x, u, z)
        self._require(info, x, u)
        return Curvature(xx, xu, uu)

    def rollout(self, x0: ArrayLike, U: ArrayLike) -> Trajectory:
        """N steps from x0 under inputs U (N, nu), in one compiled call."""
        x0 = vector(x0, self.nx, "x0")
        U = rows(U, self.nu, "U")
        if U.ndim != 2:
            raise ShapeError(f"U: expected (N, {self.nu}), got shape {U.shape}")
        self._check_lengths(U)
        info, X, multipliers = self.kernel.rollout(self.system.parameter_values, self.dt, x0, U)
        if info.status != OK:
            self._lost(info, X, U, "rollout")
        return Trajectory(self.dt * np.arange(len(U) + 1), X, U, multipliers)

    def follow(self, x0: ArrayLike, reference: Trajectory, gains: ArrayLike) -> Trajectory:
        """The projection operator: from x0 under u = ū − K (x − x̄) along a reference (eq. 12, Schultz & Murphey)."""
        x0 = vector(x0, self.nx, "x0")
        K = rows(gains, self.nx, "gains")
        if K.shape != (reference.steps, self.nu, self.nx):
            raise ShapeError(f"gains: expected {(reference.steps, self.nu, self.nx)}, got {K.shape}")
        self._fits(reference)
        info, X, U, multipliers = self.kernel.project(
            self.system.parameter_values, self.dt, x0, reference.x, reference.u, K
        )
        if info.status != OK:
            self._lost(info, X, U, "closed loop")
        return Trajectory(reference.t, X, U, multipliers)

    def linearize_many(self, X: ArrayLike, U: ArrayLike) -> tuple[Array, Array, Array]:
        """Next states (n, nx), A (n, nx, nx) and B (n, nx, nu) at n unrelated points (X, U), in one compiled call."""
        X, U = rows(X, self.nx, "X"), rows(U, self.nu, "U")
        if X.ndim != 2 or U.ndim != 2 or len(X) != len(U):
            raise ShapeError(f"X, U: expected one row a point in both, got shapes {X.shape} and {U.shape}")
        info, after, A, B = self.kernel.linearize_all(self.system.parameter_values, self.dt, X, U, None)
        if info.status != OK:
            self._fail(info, X[info.step], U[info.step], f"point {info.step}: ")
        return after, A, B

    def linearize_along(self, trajectory: Trajectory) -> tuple[Array, Array]:
        """A (N, nx, nx) and B (N, nx, nu) at the points of a trajectory, feasible or not."""
        self._fits(trajectory)
        X, U, wanted = trajectory.x[:-1], trajectory.u, np.ascontiguousarray(trajectory.x[1:])
        info, after, A, B = self.kernel.linearize_all(self.system.parameter_values, self.dt, X, U, wanted)
        if info.status != OK:
            self._fail(info, X[info.step], U[info.step], f"step {info.step} of the trajectory: ")
        # The next states told where to search; where the map gives others, they may have led to a wrong root.
        off = np.abs(after - wanted).max(axis=1, initial=0.0) > 1e-9 * (1.0 + np.abs(wanted).max(axis=1, initial=0.0))
        if off.any():
            _, A[off], B[off] = self.linearize_many(X[off], U[off])
        return A, B

    def curvature_along(self, trajectory: Trajectory, Z: ArrayLike) -> Curvature:
        """Z_kᵀ D²f at the points of a trajectory; Z is (N, nx)."""
        self._fits(trajectory)
        X, U, Z = trajectory.x[:-1], trajectory.u, rows(Z, self.nx, "Z")
        if Z.shape != (len(U), self.nx):
            raise ShapeError(f"Z: expected {(len(U), self.nx)}, got {Z.shape}")
        info, xx, xu, uu = self.kernel.curvature_all(self.system.parameter_values, self.dt, X, U, Z)
        if info.status != OK:
            self._fail(info, X[info.step], U[info.step], f"step {info.step} of the trajectory: ")
        return Curvature(xx, xu, uu)

    def _fits(self, trajectory: Trajectory) -> None:
        if trajectory.x.shape[1] != self.nx or trajectory.u.shape[1] != self.nu:
            raise ShapeError(
                f"trajectory: states have {trajectory.x.shape[1]} and inputs {trajectory.u.shape[1]} entries, "
                f"this step map has {self.nx} and {self.nu}"
            )

    def _point(self, x: ArrayLike, u: ArrayLike) -> tuple[Array, Array]:
        """x and u as arrays of the right shape; whether they are finite is left to the kernel, which looks anyway."""
        try:
            state, control = np.ascontiguousarray(x, dtype=float), np.ascontiguousarray(u, dtype=float)
        except (TypeError, ValueError) as error:
            raise ShapeError(f"x and u: expected numbers, got {x!r} and {u!r}") from error
        if state.shape != (self.nx,):
            raise ShapeError(f"x: expected {self.nx} numbers ({', '.join(self.state_names)}), got shape {state.shape}")
        if control.shape != (self.nu,):
            names = ", ".join(self.input_names)
            raise ShapeError(f"u: expected {self.nu} numbers ({names}), got shape {control.shape}")
        self._check_lengths(control)
        return state, control

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

    @property
    def state_names(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def input_names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def _require(self, info: Info, x: Array, u: Array) -> None:
        if info.status != OK:
            self._fail(info, x, u)

    def _lost(self, info: Info, X: Array, U: Array, what: str) -> NoReturn:
        """A simulation from finite arguments ended early: what is not finite in it grew without bound."""
        status = DIVERGED if info.status == NOT_FINITE else info.status
        k = info.step
        self._fail(info._replace(status=status), X[k], U[k], f"step {k} of the {what}: ")

    def _fail(self, info: Info, x: Array, u: Array, where: str = "") -> NoReturn:
        if info.status == NOT_FINITE:
            vector(x, self.nx, f"{where}x")
            vector(u, self.nu, f"{where}u")
        if info.status == SINGULAR:
            reason = f"its matrix is singular: {self._singularity(x)}"
        else:
            reason = "Newton's method did not converge: the input asks for a pose out of reach, or dt is too long"
        raise ConvergenceError(
            f"{where}the step of {self.system.name!r} at dt = {self.dt:g} s could not be solved; {reason} "
            f"(iterations {info.iterations}, residual {info.residual:.3g})",
            iterations=info.iterations,
            residual=info.residual,
            x=x.copy(),
        )

    def _singularity(self, x: Array) -> str:
        """What makes the step's matrix singular at a state, as far as the constraints tell."""
        slope = self.system.residuals_slope(x[: self.nd + self.nk])[:, : self.nd]
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
        nq = self.nd + self.nk
        q, rho, p, v = np.split(state, [self.nd, nq, nq + self.nd])
        return q, rho, p, v
