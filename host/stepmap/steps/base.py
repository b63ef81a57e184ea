"""What every step map with a kernel shares: checks, errors, and the calls into it."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, numbers, rows, vector
from stepmap.errors import ConvergenceError, ShapeError
from stepmap.graph.library import Order, Recipe
from stepmap.steps.kernels.compiled import Kernel, choose
from stepmap.steps.kernels.equations import Equations
from stepmap.steps.kernels.implicit import ImplicitKernel
from stepmap.steps.kernels.info import DIVERGED, NOT_FINITE, OK, SINGULAR, Info
from stepmap.steps.layout import Layout
from stepmap.steps.lengths import length_of, lengths_of, times
from stepmap.steps.limits import InputBounds
from stepmap.steps.protocol import (
    Curvature,
    LengthSensitivity,
    Linearization,
    Rollouts,
    SecondSensitivity,
    StepResult,
    Steps,
    Trajectory,
)


class KernelStep:
    """A StepMap backed by a kernel. Immutable."""

    dt: float
    nu: int
    nc: int

    def __getstate__(self) -> dict[str, Any]:
        """What it was made with; graphs and libraries are made or found again."""
        return {k: e for k, e in vars(self).items() if not isinstance(getattr(type(self), k, None), cached_property)}

    @cached_property
    def equations(self) -> Equations:
        """The step as a graph; all else follows from it."""
        raise NotImplementedError

    @cached_property
    def kernel(self) -> Kernel:
        """The arithmetic, compiled from the equations; a kind may have a faster runtime of its own."""
        return self.from_equations()

    def from_equations(self) -> Kernel:
        """The kernel that runtime/implicit.c is, compiled with the equations."""
        recipe = Recipe("implicit.c", self.equations, self.equations.sizes)
        sizes = self.nx, self.ndx, self.nu, self.nc
        return choose(recipe, sizes, self.evaluated, (Order.FIRST, Order.SECOND))

    def evaluated(self) -> ImplicitKernel:
        """The kernel from the equations alone, without a compiler: what the compiled one is tested against."""
        return ImplicitKernel(self.equations, self.layout)

    @cached_property
    def layout(self) -> Layout:
        raise NotImplementedError

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    @cached_property
    def parameter_values(self) -> Array:
        """Values of the model's parameters, passed to the kernel with every call."""
        return np.zeros(0)

    @cached_property
    def nx(self) -> int:
        return self.layout.nx

    @cached_property
    def ndx(self) -> int:
        return self.layout.ndx

    @property
    def state_names(self) -> tuple[str, ...]:
        return self.layout.names

    @property
    def input_names(self) -> tuple[str, ...]:
        raise NotImplementedError

    # one step ---------------------------------------------------------------------------------------------------

    def step(self, x: ArrayLike, u: ArrayLike) -> StepResult:
        """The next state from state x under input u."""
        x, u = self._point(x, u)
        info, after, multipliers = self.kernel.step(self.parameter_values, self.dt, x, u)
        self._require(info, x, u)
        return StepResult(after, multipliers, info.iterations)

    def linearize(self, x: ArrayLike, u: ArrayLike) -> Linearization:
        """The next state and its exact derivatives A (ndx, ndx), B (ndx, nu)."""
        x, u = self._point(x, u)
        info, after, A, B = self.kernel.linearize(self.parameter_values, self.dt, x, u)
        self._require(info, x, u)
        return Linearization(after, A, B)

    def curvature(self, x: ArrayLike, u: ArrayLike, z: ArrayLike) -> Curvature:
        """Exact second derivatives of the next state contracted with z (ndx)."""
        x, u = self._point(x, u)
        z = vector(z, self.ndx, "z")
        info, xx, xu, uu = self.kernel.curvature(self.parameter_values, self.dt, x, u, z)
        self._require(info, x, u)
        return Curvature(xx, xu, uu)

    def length_sensitivity(self, x: ArrayLike, u: ArrayLike, dt: float | None = None) -> LengthSensitivity:
        """The next state and the constraint forces with their derivatives in x, u and the length of the step."""
        x, u = self._point(x, u)
        lengths = self._lengths_of(dt, 1)
        info, after, forces, Y, M = self.kernel.sensitivity_all(self.parameter_values, lengths, x[None], u[None], None)
        self._require(info, x, u)
        n = self.ndx
        Y, M = Y[0], M[0]
        return LengthSensitivity(after[0], forces[0], Y[:, :n], Y[:, n:-1], Y[:, -1], M[:, :n], M[:, n:-1], M[:, -1])

    def second_sensitivity(
        self, x: ArrayLike, u: ArrayLike, z: ArrayLike, m: ArrayLike | None = None, dt: float | None = None
    ) -> SecondSensitivity:
        """Exact second derivatives of zᵀ x_next + mᵀ multipliers in x, u and the length of the step."""
        x, u = self._point(x, u)
        z, weights = vector(z, self.ndx, "z"), np.zeros(self.nc) if m is None else vector(m, self.nc, "m")
        lengths = self._lengths_of(dt, 1)
        info, H = self.kernel.second_sensitivity_all(
            self.parameter_values, lengths, x[None], u[None], None, z[None], weights[None]
        )
        self._require(info, x, u)
        return SecondSensitivity.of(H[0], self.ndx)

    # many unrelated points --------------------------------------------------------------------------------------

    def step_many(self, X: ArrayLike, U: ArrayLike, *, strict: bool = True) -> Steps:
        """One step from each of n points (X, U), in one compiled call; U may be one input (nu) for all.

        Raises where a step has no solution, unless not ``strict``: then ``failed`` tells.
        """
        U = numbers(U, "U")
        many = self.rollout_many(X, U if U.ndim == 1 else U[:, None], strict=strict)
        return Steps(many.x[:, 1], many.multipliers[:, 0], many.steps < 1)

    def rollout_many(
        self, X0: ArrayLike, U: ArrayLike, *, dt: ArrayLike | None = None, strict: bool = True
    ) -> Rollouts:
        """N steps from each of m starts, in one compiled call, bit for bit what ``rollout`` gives.

        U is (N, nu) for all starts, or (m, N, nu). Raises where a rollout has no solution, unless not ``strict``: then
        ``steps`` tells how far each came.
        """
        X0, U = rows(X0, self.nx, "X0"), rows(U, self.nu, "U")
        U = U[None] if U.ndim == 1 else U
        if X0.ndim != 2 or U.ndim not in (2, 3) or (U.ndim == 3 and len(U) != len(X0)):
            raise ShapeError(
                f"X0, U: expected (m, {self.nx}) with (N, {self.nu}) or (m, N, {self.nu}), got {X0.shape}, {U.shape}"
            )
        self._check_lengths(U.reshape(math.prod(U.shape[:-1]), self.nu))
        lengths = self._lengths_of(dt, U.shape[-2])
        info, X, forces, done = self.kernel.rollout_many(self.parameter_values, lengths, X0, U)
        if info.status != OK:
            if strict:
                j, k = info.start, info.step
                self._lost(info, X[j], U if U.ndim == 2 else U[j], f"rollout from start {j}", k, lengths)
            for i in np.flatnonzero(done < U.shape[-2]):
                X[i, done[i] + 1 :], forces[i, done[i] :] = np.nan, np.nan
        return Rollouts(times(lengths, U.shape[-2]), X, forces, np.asarray(done, dtype=int))

    def linearize_many(self, X: ArrayLike, U: ArrayLike) -> tuple[Array, Array, Array]:
        """Next states (n, nx), A (n, ndx, ndx) and B (n, ndx, nu) at n unrelated points, in one compiled call."""
        X, U = self._points(X, U)
        info, after, A, B = self.kernel.linearize_all(self.parameter_values, self._lengths_of(None, 1), X, U, None)
        self._require_all(info, X, U, "point {}: ")
        return after, A, B

    # trajectories -----------------------------------------------------------------------------------------------

    def rollout(self, x0: ArrayLike, U: ArrayLike, dt: ArrayLike | None = None) -> Trajectory:
        """N steps from x0 under inputs U (N, nu), in one compiled call; ``dt`` may give each step its length (N)."""
        x0 = vector(x0, self.nx, "x0")
        U = rows(np.array(U) if isinstance(U, np.ndarray) else U, self.nu, "U")  # the trajectory keeps it
        if U.ndim != 2:
            raise ShapeError(f"U: expected (N, {self.nu}), got shape {U.shape}")
        self._check_lengths(U)
        lengths = self._lengths_of(dt, len(U))
        info, X, multipliers = self.kernel.rollout(self.parameter_values, lengths, x0, U)
        if info.status != OK:
            self._lost(info, X, U, "rollout", info.step, lengths)
        return Trajectory(times(lengths, len(U)), X, U, multipliers)

    def follow(
        self,
        x0: ArrayLike,
        reference: Trajectory,
        gains: ArrayLike,
        dt: ArrayLike | None = None,
        *,
        within: InputBounds | None = None,
    ) -> Trajectory:
        """From x0 under u = ū − K (x − x̄) along a reference, clamped ``within`` limits (eq. 12, Schultz & Murphey)."""
        x0 = vector(x0, self.nx, "x0")
        K = rows(gains, self.ndx, "gains")
        if K.shape != (reference.steps, self.nu, self.ndx):
            raise ShapeError(f"gains: expected {(reference.steps, self.nu, self.ndx)}, got {K.shape}")
        self._fits(reference)
        lengths = self._lengths_of(dt, reference.steps)
        along = lengths, x0, reference.x, reference.u, K
        info, X, U, multipliers = self.kernel.project(self.parameter_values, *along, within)
        if info.status != OK:
            self._lost(info, X, U, "closed loop", info.step, lengths)
        return Trajectory(reference.t, X, U, multipliers)

    def linearize_along(self, trajectory: Trajectory, dt: ArrayLike | None = None) -> tuple[Array, Array]:
        """A (N, ndx, ndx) and B (N, ndx, nu) along a trajectory, feasible or not; ``dt`` as of ``rollout``."""
        self._fits(trajectory)
        X, U, wanted = trajectory.x[:-1], trajectory.u, np.ascontiguousarray(trajectory.x[1:])
        lengths = self._lengths_of(dt, len(U))
        info, after, A, B = self.kernel.linearize_all(self.parameter_values, lengths, X, U, wanted)
        self._require_all(info, X, U, "step {} of the trajectory: ", lengths)
        # The next states told where to search; where the map gives others, they may have led to a wrong root.
        off = np.abs(after - wanted).max(axis=1, initial=0.0) > 1e-9 * (1.0 + np.abs(wanted).max(axis=1, initial=0.0))
        if off.any():
            chosen = lengths if len(lengths) == 1 else lengths[off]
            found = self.kernel.linearize_all(self.parameter_values, chosen, X[off], U[off], None)
            there = found[0]._replace(step=int(np.flatnonzero(off)[found[0].step]))
            self._require_all(there, X, U, "step {} of the trajectory: ")
            _, _, A[off], B[off] = found
        return A, B

    def curvature_along(self, trajectory: Trajectory, Z: ArrayLike, dt: ArrayLike | None = None) -> Curvature:
        """Z_kᵀ D²f at the points of a trajectory; Z is (N, ndx)."""
        X, U, Z = self._points_of(trajectory, Z)
        lengths = self._lengths_of(dt, len(U))
        info, xx, xu, uu = self.kernel.curvature_all(self.parameter_values, lengths, X, U, trajectory.x[1:], Z)
        self._require_all(info, X, U, "step {} of the trajectory: ", lengths)
        return Curvature(xx, xu, uu)

    def length_sensitivity_along(self, trajectory: Trajectory, dt: ArrayLike | None = None) -> LengthSensitivity:
        """``length_sensitivity`` at the points of a trajectory; all arrays have one row per step."""
        self._fits(trajectory)
        X, U, wanted = trajectory.x[:-1], trajectory.u, trajectory.x[1:]
        lengths = self._lengths_of(dt, len(U))
        info, after, forces, Y, M = self.kernel.sensitivity_all(self.parameter_values, lengths, X, U, wanted)
        self._require_all(info, X, U, "step {} of the trajectory: ", lengths)
        n = self.ndx
        parts = (Y[..., :n], Y[..., n:-1], Y[..., -1], M[..., :n], M[..., n:-1], M[..., -1])
        return LengthSensitivity(after, forces, *parts)

    def second_sensitivity_along(
        self, trajectory: Trajectory, Z: ArrayLike, M: ArrayLike | None = None, dt: ArrayLike | None = None
    ) -> SecondSensitivity:
        """``second_sensitivity`` at the points of a trajectory; Z is (N, ndx), M is (N, nc)."""
        X, U, Z = self._points_of(trajectory, Z)
        weights = np.zeros((len(U), self.nc)) if M is None else rows(M, self.nc, "M")
        if weights.shape != (len(U), self.nc):
            raise ShapeError(f"M: expected {(len(U), self.nc)}, got {weights.shape}")
        lengths, wanted = self._lengths_of(dt, len(U)), trajectory.x[1:]
        info, H = self.kernel.second_sensitivity_all(self.parameter_values, lengths, X, U, wanted, Z, weights)
        self._require_all(info, X, U, "step {} of the trajectory: ", lengths)
        return SecondSensitivity.of(H, self.ndx)

    # checks -----------------------------------------------------------------------------------------------------

    def _points(self, X: ArrayLike, U: ArrayLike) -> tuple[Array, Array]:
        X, U = rows(X, self.nx, "X"), rows(U, self.nu, "U")
        if X.ndim != 2 or U.ndim != 2 or len(X) != len(U):
            raise ShapeError(f"X, U: expected one row per point in both, got shapes {X.shape} and {U.shape}")
        return X, U

    def _points_of(self, trajectory: Trajectory, Z: ArrayLike) -> tuple[Array, Array, Array]:
        self._fits(trajectory)
        weights = rows(Z, self.ndx, "Z")
        if weights.shape != (trajectory.steps, self.ndx):
            raise ShapeError(f"Z: expected {(trajectory.steps, self.ndx)}, got {weights.shape}")
        return trajectory.x[:-1], trajectory.u, weights

    @cached_property
    def _own_length(self) -> Array:
        return np.array([self.dt])

    def _lengths_of(self, dt: ArrayLike | None, n: int) -> Array:
        return self._own_length if dt is None else lengths_of(dt, n)

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
        """Raises where an input asks for what cannot be; a map of a mechanism looks at lengths of strings."""

    def _require(self, info: Info, x: Array, u: Array) -> None:
        if info.status != OK:
            self._fail(info, x, u)

    def _require_all(self, info: Info, X: Array, U: Array, where: str, dt: Array | None = None) -> None:
        """Raises with the point that failed, whose number goes into ``where``."""
        if info.status != OK:
            self._fail(info, X[info.step], U[info.step], where.format(info.step), length_of(dt, info.step))

    def _lost(self, info: Info, X: Array, U: Array, what: str, k: int, dt: Array) -> NoReturn:
        """A simulation from finite arguments ended early: what is not finite in it grew without bound."""
        status = DIVERGED if info.status == NOT_FINITE else info.status
        self._fail(info._replace(status=status), X[k], U[k], f"step {k} of the {what}: ", length_of(dt, k))

    def _fail(self, info: Info, x: Array, u: Array, where: str = "", dt: float | None = None) -> NoReturn:
        if info.status == NOT_FINITE:
            vector(x, self.nx, f"{where}x")
            vector(u, self.nu, f"{where}u")
        if info.status == SINGULAR:
            reason = f"its matrix is singular: {self._singularity(x)}"
        else:
            reason = "Newton's method did not converge: the input asks for a pose out of reach, or dt is too long"
        raise ConvergenceError(
            f"{where}the step of {self.name!r} at dt = {dt or self.dt:g} s could not be solved; {reason} "
            f"(iterations {info.iterations}, residual {info.residual:.3g})",
            iterations=info.iterations,
            residual=info.residual,
            x=x.copy(),
        )

    def _singularity(self, x: Array) -> str:
        """What makes the step's matrix singular at a state, as far as it can be told."""
        return "its equations have no unique solution here"
