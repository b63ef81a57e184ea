"""Kernels without a C compiler: the same equations in numpy on CasADi's own evaluator.

Slower by two orders of magnitude, and an independent second implementation that the tests hold against the C runtime.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from stepmap.arrays import Array
from stepmap.graph.function import GraphFunction
from stepmap.steps.euler_functions import RateFunctions
from stepmap.steps.kernel import DIVERGED, NOT_FINITE, OK, SINGULAR, Info
from stepmap.steps.midpoint_functions import ModelFunctions


def call(function: GraphFunction, *arguments: Array) -> list[Array]:
    """The function's outputs as row-major arrays."""
    out = function.casadi(*arguments)
    parts = out if isinstance(out, tuple) else (out,)
    return [np.asarray(part).T for part in parts]


class Loops:
    """Whole trajectories step by step."""

    nc: int

    def step(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array]:
        raise NotImplementedError

    def linearize(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array]:
        raise NotImplementedError

    def curvature(self, par: Array, dt: float, x: Array, u: Array, z: Array) -> tuple[Info, Array, Array, Array]:
        raise NotImplementedError

    def rollout(self, par: Array, dt: float, x0: Array, U: Array) -> tuple[Info, Array, Array]:
        still = np.zeros((len(U), U.shape[1], len(x0)))
        info, X, _, multipliers = self.project(par, dt, x0, np.zeros((len(U) + 1, len(x0))), U, still)
        return info, X, multipliers

    def project(
        self, par: Array, dt: float, x0: Array, X: Array, U: Array, K: Array
    ) -> tuple[Info, Array, Array, Array]:
        states, inputs, multipliers = np.empty((len(U) + 1, len(x0))), np.array(U), np.empty((len(U), self.nc))
        states[0] = x0
        info = Info(OK, 0, 0.0)
        for k in range(len(U)):
            inputs[k] -= K[k] @ (states[k] - X[k])
            info, states[k + 1], multipliers[k] = self.step(par, dt, states[k], inputs[k])
            if info.status != OK:
                return info._replace(step=k), states, inputs, multipliers
        return info, states, inputs, multipliers

    def linearize_all(
        self, par: Array, dt: float, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array]:
        n, nx, nu = len(U), X.shape[1], U.shape[1]
        after, A, B = np.empty((n, nx)), np.empty((n, nx, nx)), np.empty((n, nx, nu))
        info = Info(OK, 0, 0.0)
        for k in range(n):
            info, after[k], *slopes = self.linearize(par, dt, X[k], U[k])
            if info.status != OK:
                return info._replace(step=k), after, A, B
            A[k], B[k] = slopes
        return info, after, A, B

    def curvature_all(self, par: Array, dt: float, X: Array, U: Array, Z: Array) -> tuple[Info, Array, Array, Array]:
        n, nx, nu = len(U), X.shape[1], U.shape[1]
        xx, xu, uu = np.empty((n, nx, nx)), np.empty((n, nx, nu)), np.empty((n, nu, nu))
        info = Info(OK, 0, 0.0)
        for k in range(n):
            info, *bends = self.curvature(par, dt, X[k], U[k], Z[k])
            if info.status != OK:
                return info._replace(step=k), xx, xu, uu
            xx[k], xu[k], uu[k] = bends
        return info, xx, xu, uu


class InterpretedMidpoint(Loops):
    """Midpoint variational step; the equations are those of runtime/midpoint.c."""

    def __init__(self, functions: ModelFunctions, nk: int, nu: int) -> None:
        self.f, self.nd, self.nk, self.nu = functions, functions.nd, nk, nu
        self.nc = functions.e.residual.numel()
        self.nq = self.nd + nk
        self.active = np.array(functions.active)

    @cached_property
    def _widen(self) -> Array:
        """Active columns placed among all of q̄."""
        wide = np.zeros((len(self.active), self.nq))
        wide[np.arange(len(self.active)), self.active] = 1.0
        return wide

    def _ends(self, x: Array, u: Array, q2: Array) -> tuple[Array, Array]:
        return x[: self.nq], np.concatenate([q2, u[self.nu :]])

    def _blocks(self, dt: float, q1: Array, q2: Array, u: Array, par: Array) -> dict[str, Array]:
        names = [name for name, _ in self.f.second.outputs]
        out = dict(zip(names, call(self.f.second, (q1 + q2) / 2, (q2 - q1) / dt, u[: self.nu], par), strict=True))
        for name in ("Lqq", "Lqv", "Lvq", "Lvv", "Fq", "Fv"):
            out[name] = out[name] @ self._widen
        qq, vv = dt / 4 * out["Lqq"], out["Lvv"] / dt
        qv, vq = out["Lqv"] / 2, out["Lvq"] / 2
        out["D11"] = qq - qv - vq + vv + dt / 2 * out["Fq"] - out["Fv"]
        out["D12"] = qq + qv - vq - vv + dt / 2 * out["Fq"] + out["Fv"]
        out["D21"] = qq - qv + vq - vv
        out["D22"] = qq + qv + vq + vv
        return out

    def _constraints(self, q: Array, par: Array) -> tuple[Array, Array]:
        if not self.nc:
            return np.zeros(0), np.zeros((0, self.nq))
        h, jacobian = call(self.f.con, q, par)
        return h[:, 0], jacobian

    def _solve(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array]:
        nd = self.nd
        q2, lam = x[:nd].copy(), np.zeros(self.nc)
        if not (np.isfinite(x).all() and np.isfinite(u).all()):
            return Info(NOT_FINITE, 0, 0.0), q2, lam
        jacobian1 = self._constraints(x[: self.nq], par)[1][:, :nd]
        before = residual = np.inf
        for iteration in range(1, 61):
            q1b, q2b = self._ends(x, u, q2)
            b = self._blocks(dt, q1b, q2b, u, par)
            h, jacobian2 = self._constraints(q2b, par)
            momentum = x[self.nq : self.nq + nd] + dt / 2 * b["Lq"][:, 0] - b["Lv"][:, 0] + dt * b["F"][:, 0]
            G = np.concatenate([momentum - jacobian1.T @ lam, h])
            residual = float(np.abs(G).max())
            matrix = self._matrix(b["D12"], jacobian1, jacobian2)
            try:
                dz = np.linalg.solve(matrix, -G)
            except np.linalg.LinAlgError:
                return Info(SINGULAR, iteration, residual), q2, lam
            size = float(np.max(np.abs(dz[:nd]) / (1 + np.abs(q2))))
            if not np.isfinite(size):
                return Info(DIVERGED, iteration, residual), q2, lam
            q2, lam = q2 + dz[:nd], lam + dz[nd:]
            if size <= 1e-9 or (size <= 1e-11 and size >= 0.5 * before):
                return Info(OK, iteration, residual), q2, lam
            before = size
        return Info(DIVERGED, 60, residual), q2, lam

    def _matrix(self, d12: Array, jacobian1: Array, jacobian2: Array) -> Array:
        nd, nc = self.nd, self.nc
        return np.block([[d12[:, :nd], -jacobian1[:, :nd].T], [jacobian2[:, :nd], np.zeros((nc, nc))]])

    def _next(self, dt: float, x: Array, q2b: Array, lq: Array, lv: Array) -> Array:
        rho_rate = (q2b[self.nd :] - x[self.nd : self.nq]) / dt
        return np.concatenate([q2b, dt / 2 * lq[:, 0] + lv[:, 0], rho_rate])

    def step(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array]:
        info, q2, lam = self._solve(par, dt, x, u)
        if info.status != OK:
            return info, x, lam
        q1b, q2b = self._ends(x, u, q2)
        lq, lv, _ = call(self.f.first, (q1b + q2b) / 2, (q2b - q1b) / dt, u[: self.nu], par)
        pull = call(self.f.pull, q1b, par)[0][:, 0] if self.nc else np.zeros(0)
        return info, self._next(dt, x, q2b, lq, lv), pull * lam / dt

    def _derivatives(
        self, par: Array, dt: float, x: Array, u: Array, q2: Array, lam: Array
    ) -> tuple[dict[str, Array], Array, Array, Array]:
        """Blocks, G_z, D = dz/dw and dp2/dw, with w = (q, rho, p, forces, rho_next)."""
        nd, nk, nq, nu, nc = self.nd, self.nk, self.nq, self.nu, self.nc
        q1b, q2b = self._ends(x, u, q2)
        b = self._blocks(dt, q1b, q2b, u, par)
        jacobian1, jacobian2 = self._constraints(q1b, par)[1], self._constraints(q2b, par)[1]
        bend = call(self.f.con2, q1b, par, lam)[0][:nd] if nc else np.zeros((nd, nq))
        gw = np.zeros((nd + nc, nq + nd + nu + nk))
        gw[:nd, :nq] = b["D11"] - bend
        gw[:nd, nq : nq + nd] = np.eye(nd)
        gw[:nd, nq + nd : nq + nd + nu] = dt * b["Fu"]
        gw[:nd, nq + nd + nu :] = b["D12"][:, nd:]
        gw[nd:, nq + nd + nu :] = jacobian2[:, nd:]
        gz = self._matrix(b["D12"], jacobian1, jacobian2)
        D = np.linalg.solve(gz, -gw)
        P = b["D22"][:, :nd] @ D[:nd]
        P[:, :nq] += b["D21"]
        P[:, nq + nd + nu :] += b["D22"][:, nd:]
        return b, gz, D, P

    def linearize(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array]:
        nd, nk, nq = self.nd, self.nk, self.nq
        nx, nv, direct = 2 * nq, self.nu + nk, nq + nd
        A, B = np.zeros((nx, nx)), np.zeros((nx, nv))
        info, q2, lam = self._solve(par, dt, x, u)
        if info.status != OK:
            return info, x, A, B
        b, _, D, P = self._derivatives(par, dt, x, u, q2, lam)
        for rows, block in ((slice(0, nd), D[:nd]), (slice(nq, direct), P)):
            A[rows, :direct], B[rows] = block[:, :direct], block[:, direct:]
        rho = np.arange(nk)
        B[nd + rho, self.nu + rho] = 1.0
        A[direct + rho, nd + rho] = -1.0 / dt
        B[direct + rho, self.nu + rho] = 1.0 / dt
        return info, self._next(dt, x, self._ends(x, u, q2)[1], b["Lq"], b["Lv"]), A, B

    def curvature(self, par: Array, dt: float, x: Array, u: Array, z: Array) -> tuple[Info, Array, Array, Array]:
        nd, nk, nq, nu, nc = self.nd, self.nk, self.nq, self.nu, self.nc
        nx, direct, nw = 2 * nq, nq + nd, nq + nd + nu + nk
        xx, xu = np.zeros((nx, nx)), np.zeros((nx, nu + nk))
        info, q2, lam = self._solve(par, dt, x, u)
        if info.status != OK or not np.isfinite(z).all():
            return info if info.status != OK else Info(NOT_FINITE, 0, 0.0), xx, xu, np.zeros((nu + nk, nu + nk))
        q1b, q2b = self._ends(x, u, q2)
        b, gz, D, _ = self._derivatives(par, dt, x, u, q2, lam)
        eta = z[nq : nq + nd]
        mu = np.linalg.solve(gz.T, -np.concatenate([z[:nd] + b["D22"][:, :nd].T @ eta, np.zeros(nc)]))
        parts = (dt / 2 * (eta + mu[:nd]), eta - mu[:nd], dt * mu[:nd])
        S = call(self.f.third, (q1b + q2b) / 2, (q2b - q1b) / dt, u[:nu], par, *parts)[0]
        # y = (q̄1, q̄2, u, lam) as a function of w; the Hessian in y is carried over by one congruence.
        na = len(self.active)
        size = 2 * nq + nu + nc
        to_mid = np.zeros((2 * na + nu, size))
        to_mid[:na, :nq] = to_mid[:na, nq : 2 * nq] = self._widen / 2
        to_mid[na : 2 * na, :nq], to_mid[na : 2 * na, nq : 2 * nq] = -self._widen / dt, self._widen / dt
        to_mid[2 * na :, 2 * nq : 2 * nq + nu] = np.eye(nu)
        H = to_mid.T @ S @ to_mid
        if nc:
            H[nq : 2 * nq, nq : 2 * nq] += call(self.f.con2, q2b, par, mu[nd:])[0]
            cross, bend = call(self.f.con3, q1b, par, lam, mu[:nd])
            H[:nq, :nq] -= bend
            H[2 * nq + nu :, :nq] -= cross
            H[:nq, 2 * nq + nu :] -= cross.T
        y = np.zeros((size, nw))
        y[:nq, :nq] = np.eye(nq)
        y[nq : nq + nd], y[2 * nq + nu :] = D[:nd], D[nd:]
        y[nq + nd : 2 * nq, direct + nu :] = np.eye(nk)
        y[2 * nq : 2 * nq + nu, direct : direct + nu] = np.eye(nu)
        C = y.T @ H @ y
        xx[:direct, :direct], xu[:direct] = C[:direct, :direct], C[:direct, direct:]
        return info, xx, xu, C[direct:, direct:]

    def dynamics(
        self, par: Array, x: Array, u: Array, derivatives: bool
    ) -> tuple[Info, Array, Array, Array | None, Array | None]:
        raise TypeError("the midpoint step has no continuous rate; ask the euler kernel")


class InterpretedEuler(Loops):
    """Continuous dynamics and the explicit Euler step; the equations are those of runtime/euler.c."""

    def __init__(self, functions: RateFunctions, nu: int) -> None:
        self.f, self.nd, self.nk, self.nc, self.nu = functions, functions.nd, functions.nk, functions.nc, nu
        self.nq = self.nd + self.nk

    def _solve(self, par: Array, x: Array, u: Array) -> tuple[Info, tuple[Array, ...], Array, Array]:
        split = (x[: self.nq], x[self.nq :], u[: self.nu], u[self.nu :], par)
        if not (np.isfinite(x).all() and np.isfinite(u).all()):
            return Info(NOT_FINITE, 1, 0.0), split, np.zeros((0, 0)), np.zeros(self.nd + self.nc)
        matrix, right, pull = call(self.f.rate, *split)
        try:
            z = np.linalg.solve(matrix, right[:, 0])
        except np.linalg.LinAlgError:
            return Info(SINGULAR, 1, 0.0), split, matrix, np.zeros(self.nd + self.nc)
        self_pull = pull[:, 0] if self.nc else np.zeros(0)
        return Info(OK, 1, 0.0), (*split, self_pull), matrix, z

    def dynamics(
        self, par: Array, x: Array, u: Array, derivatives: bool
    ) -> tuple[Info, Array, Array, Array | None, Array | None]:
        info, split, matrix, z = self._solve(par, x, u)
        if info.status != OK:
            return info, x, z[self.nd :], None, None
        rate = np.concatenate([x[self.nq :], z[: self.nd], u[self.nu :]])
        multipliers = split[5] * z[self.nd :]
        if not derivatives:
            return info, rate, multipliers, None, None
        D = self._slope(split, matrix, z)
        nx, nq, nd = 2 * self.nq, self.nq, self.nd
        A, B = np.zeros((nx, nx)), np.zeros((nx, self.nu + self.nk))
        A[:nq, nq:] = np.eye(nq)
        A[nq : nq + nd], B[nq : nq + nd] = D[:nd, :nx], D[:nd, nx:]
        B[nq + nd :, self.nu :] = np.eye(self.nk)
        return info, rate, multipliers, A, B

    def _slope(self, split: tuple[Array, ...], matrix: Array, z: Array) -> Array:
        slope = call(self.f.slope, *split[:5], z[: self.nd], z[self.nd :])[0]
        return np.linalg.solve(matrix, -slope)

    def step(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array]:
        info, rate, multipliers, _, _ = self.dynamics(par, x, u, False)
        return info, x + dt * rate, multipliers

    def linearize(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array]:
        info, rate, _, A, B = self.dynamics(par, x, u, True)
        if A is None or B is None:
            return info, x, np.zeros((0, 0)), np.zeros((0, 0))
        return info, x + dt * rate, np.eye(len(x)) + dt * A, dt * B

    def curvature(self, par: Array, dt: float, x: Array, u: Array, z: Array) -> tuple[Info, Array, Array, Array]:
        nx = 2 * self.nq
        info, split, matrix, solution = self._solve(par, x, u)
        if info.status != OK or not np.isfinite(z).all():
            empty = np.zeros((0, 0))
            return info if info.status != OK else Info(NOT_FINITE, 1, 0.0), empty, empty, empty
        D = self._slope(split, matrix, solution)
        mu = np.linalg.solve(matrix.T, np.concatenate([-dt * z[self.nq : self.nq + self.nd], np.zeros(self.nc)]))
        ww, zw = call(self.f.bend, *split[:5], solution[: self.nd], solution[self.nd :], mu)
        C = ww + D.T @ zw + zw.T @ D
        return info, C[:nx, :nx], C[:nx, nx:], C[nx:, nx:]
