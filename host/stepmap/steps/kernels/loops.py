"""Whole trajectories step by step: the loops of a kernel that has none of its own."""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.steps.kernels.info import OK, Info
from stepmap.steps.layout import Layout
from stepmap.steps.limits import InputBounds


class Loops:
    """What a kernel needs besides what it has of one point: a step and its derivatives."""

    layout: Layout
    nc: int

    def step(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array]:
        raise NotImplementedError

    def linearize(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array]:
        raise NotImplementedError

    def curvature(self, par: Array, dt: float, x: Array, u: Array, z: Array) -> tuple[Info, Array, Array, Array]:
        raise NotImplementedError

    def sensitivity(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array, Array]:
        raise NotImplementedError

    def tilted(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array, Array]:
        raise NotImplementedError

    def second_sensitivity(self, par: Array, dt: float, x: Array, u: Array, z: Array, m: Array) -> tuple[Info, Array]:
        raise NotImplementedError

    def rollout(self, par: Array, dt: Array, x0: Array, U: Array) -> tuple[Info, Array, Array]:
        states, multipliers = np.full((len(U) + 1, len(x0)), np.nan), np.full((len(U), self.nc), np.nan)
        states[0] = x0
        info = Info(OK, 0, 0.0)
        for k, length in enumerate(each(dt, len(U))):
            info, after, forces = self.step(par, length, states[k], U[k])
            if info.status != OK:
                return info._replace(step=k), states, multipliers
            states[k + 1], multipliers[k] = after, forces
        return info, states, multipliers

    def rollout_many(self, par: Array, dt: Array, X0: Array, U: Array) -> tuple[Info, Array, Array, Array]:
        m, n = len(X0), U.shape[-2]
        X, multipliers, done = np.empty((m, n + 1, X0.shape[1])), np.empty((m, n, self.nc)), np.full(m, n)
        worst = Info(OK, 0, 0.0)
        for j in range(m):
            info, X[j], multipliers[j] = self.rollout(par, dt, X0[j], U if U.ndim == 2 else U[j])
            if info.status != OK:
                done[j] = info.step
                worst = worst if worst.status != OK else info._replace(start=j)
        return worst, X, multipliers, done

    def project(
        self, par: Array, dt: Array, x0: Array, X: Array, U: Array, K: Array, within: InputBounds | None = None
    ) -> tuple[Info, Array, Array, Array]:
        states, inputs, multipliers = np.empty((len(U) + 1, len(x0))), np.array(U), np.empty((len(U), self.nc))
        states[0] = x0
        info = Info(OK, 0, 0.0)
        for k, length in enumerate(each(dt, len(U))):
            inputs[k] -= K[k] @ self.layout.difference(X[k], states[k])
            if within is not None:
                inputs[k] = within.clamp(inputs[k], states[k])
            info, states[k + 1], multipliers[k] = self.step(par, length, states[k], inputs[k])
            if info.status != OK:
                return info._replace(step=k), states, inputs, multipliers
        return info, states, inputs, multipliers

    def linearize_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array]:
        n, ndx, nu = len(U), self.layout.ndx, U.shape[1]
        after, A, B = np.empty(X.shape), np.empty((n, ndx, ndx)), np.empty((n, ndx, nu))
        info = Info(OK, 0, 0.0)
        for k, length in enumerate(each(dt, n)):
            info, after[k], *slopes = self.linearize(par, length, X[k], U[k])
            if info.status != OK:
                return info._replace(step=k), after, A, B
            A[k], B[k] = slopes
        return info, after, A, B

    def curvature_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None, Z: Array
    ) -> tuple[Info, Array, Array, Array]:
        n, ndx, nu = len(U), self.layout.ndx, U.shape[1]
        xx, xu, uu = np.empty((n, ndx, ndx)), np.empty((n, ndx, nu)), np.empty((n, nu, nu))
        info = Info(OK, 0, 0.0)
        for k, length in enumerate(each(dt, n)):
            info, *bends = self.curvature(par, length, X[k], U[k], Z[k])
            if info.status != OK:
                return info._replace(step=k), xx, xu, uu
            xx[k], xu[k], uu[k] = bends
        return info, xx, xu, uu

    def sensitivity_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array, Array]:
        n, ndx = len(U), self.layout.ndx
        ns = ndx + U.shape[1] + 1
        after, forces = np.empty(X.shape), np.empty((n, self.nc))
        Y, M = np.empty((n, ndx, ns)), np.empty((n, self.nc, ns))
        info = Info(OK, 0, 0.0)
        for k, length in enumerate(each(dt, n)):
            info, *found = self.sensitivity(par, length, X[k], U[k])
            if info.status != OK:
                return info._replace(step=k), after, forces, Y, M
            after[k], forces[k], Y[k], M[k] = found
        return info, after, forces, Y, M

    def parameters_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array, Array]:
        n, ndx, nu = len(U), self.layout.ndx, U.shape[1]
        after, A = np.empty(X.shape), np.empty((n, ndx, ndx))
        B, T = np.empty((n, ndx, nu)), np.empty((n, ndx, len(par)))
        info = Info(OK, 0, 0.0)
        for k, length in enumerate(each(dt, n)):
            info, *found = self.tilted(par, length, X[k], U[k])
            if info.status != OK:
                return info._replace(step=k), after, A, B, T
            after[k], A[k], B[k], T[k] = found
        return info, after, A, B, T

    def second_sensitivity_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None, Z: Array, N: Array
    ) -> tuple[Info, Array]:
        n, ns = len(U), self.layout.ndx + U.shape[1] + 1
        H = np.empty((n, ns, ns))
        info = Info(OK, 0, 0.0)
        for k, length in enumerate(each(dt, n)):
            info, found = self.second_sensitivity(par, length, X[k], U[k], Z[k], N[k])
            if info.status != OK:
                return info._replace(step=k), H
            H[k] = found
        return info, H


def each(dt: Array, n: int) -> Array:
    """Lengths of n steps; ``dt`` has one for all, or one per step."""
    return np.broadcast_to(dt, (n,))
