"""A kernel from equations alone, on CasADi's own evaluator: no compiler, no runtime, two orders of magnitude slower.

It is an independent second implementation that the tests hold every compiled runtime against.
"""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.graph.function import GraphFunction
from stepmap.steps.kernels.equations import Equations
from stepmap.steps.kernels.info import DIVERGED, NOT_FINITE, OK, SINGULAR, Info
from stepmap.steps.kernels.loops import Loops
from stepmap.steps.layout import Layout

MAX_ITERATIONS = 60
ENOUGH = 1e-9  # relative change that ends Newton's method
SHORTEST = 1 / 4096  # part of a damped step


def call(function: GraphFunction, *arguments: Array | float) -> list[Array]:
    """The function's outputs as row-major arrays."""
    out = function.casadi(*arguments)
    parts = out if isinstance(out, tuple) else (out,)
    return [np.asarray(part).T for part in parts]


def _relative(dz: Array, z: Array, count: int) -> float:
    """The largest change of the first unknowns, relative to them."""
    return float(np.max(np.abs(dz[:count]) / (1 + np.abs(z[:count])), initial=0.0))


class ImplicitKernel(Loops):
    """Newton's method on G = 0, then derivatives by the implicit function theorem."""

    def __init__(self, equations: Equations, layout: Layout) -> None:
        self.e, self.layout = equations, layout
        self.nc = int(equations.multipliers.numel())

    def _solve(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array]:
        if not (np.isfinite(x).all() and np.isfinite(u).all()):
            return Info(NOT_FINITE, 0, 0.0), np.zeros(self.e.z.numel())
        z = call(self.e.start, x, u, dt, par)[0][:, 0]
        if not len(z):
            return Info(OK, 0, 0.0), z
        info, root = self._newton(par, dt, x, u, z)
        at = self.e.smoothing
        if info.status == OK or at is None:
            return info, root
        smooth, turns = np.array(par), info.iterations
        smooth[at] = max(1.0, par[at])
        while True:  # with the corners rounded off first, and sharpened tenfold each time
            info, z = self._newton(smooth, dt, x, u, z)
            turns += info.iterations
            if info.status != OK or smooth[at] <= par[at]:
                return info._replace(iterations=turns), z
            smooth[at] = max(par[at], 0.1 * smooth[at])

    def _newton(self, par: Array, dt: float, x: Array, u: Array, z: Array) -> tuple[Info, Array]:
        residual = np.inf
        for iteration in range(1, MAX_ITERATIONS + 1):
            G, matrix = call(self.e.newton, x, u, z, dt, par)
            residual = float(np.abs(G).max(initial=0.0))
            try:
                dz = np.linalg.solve(matrix, -G[:, 0])
            except np.linalg.LinAlgError:
                return Info(SINGULAR, iteration, residual), z
            size = _relative(dz, z, self.e.decisive)
            if not np.isfinite(size):
                return Info(SINGULAR if self.e.linear else DIVERGED, iteration, residual), z
            if self.e.damped and size > ENOUGH:
                dz = self._shortened(par, dt, x, u, z, dz, matrix)
                if not len(dz):
                    return Info(DIVERGED, iteration, residual), z
            z = z + dz
            if self.e.linear or size <= ENOUGH:  # the next would be its square
                return Info(OK, iteration, residual), z
        return Info(DIVERGED, MAX_ITERATIONS, residual), z

    def _shortened(self, par: Array, dt: float, x: Array, u: Array, z: Array, dz: Array, matrix: Array) -> Array:
        """The part of dz from whose end the Newton step with the same matrix is shorter than dz; empty without one."""
        size, length = _relative(dz, z, len(z)), 1.0
        while length >= SHORTEST:
            G, _ = call(self.e.newton, x, u, z + length * dz, dt, par)
            if _relative(np.linalg.solve(matrix, -G[:, 0]), z, len(z)) <= (1 - length / 4) * size:
                return length * dz
            length /= 2
        return np.zeros(0)

    def step(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array]:
        info, z = self._solve(par, dt, x, u)
        if info.status != OK:
            return info, x, np.full(self.nc, np.nan)
        after, forces = call(self.e.output, x, u, z, dt, par)
        return info, after[:, 0], forces[:, 0] if self.nc else np.zeros(0)

    def _slopes(self, par: Array, dt: float, x: Array, u: Array, z: Array) -> tuple[Array, Array, Array, Array]:
        """G_z, dz/dw, dx_next/dw and dm/dw."""
        gz, gw, yz, yw, mz, mw = call(self.e.slopes, x, u, z, dt, par)
        D = np.linalg.solve(gz, -gw) if len(z) else np.zeros((0, gw.shape[1]))
        return gz, D, yw + yz @ D, mw + mz @ D

    def sensitivity(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array, Array]:
        ns = self.layout.ndx + len(u) + 1
        info, z = self._solve(par, dt, x, u)
        if info.status != OK:
            return info, x, np.zeros(self.nc), np.zeros((self.layout.ndx, ns)), np.zeros((self.nc, ns))
        after, forces = call(self.e.output, x, u, z, dt, par)
        _, _, Y, M = self._slopes(par, dt, x, u, z)
        return info, after[:, 0], forces[:, 0] if self.nc else np.zeros(0), Y, M

    def tilted(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array, Array]:
        n = self.layout.ndx
        info, z = self._solve(par, dt, x, u)
        if info.status != OK:
            return info, x, np.zeros((n, n)), np.zeros((n, len(u))), np.zeros((n, len(par)))
        after, _ = call(self.e.output, x, u, z, dt, par)
        gz, _, yz, *_ = call(self.e.slopes, x, u, z, dt, par)
        _, _, Y, _ = self._slopes(par, dt, x, u, z)
        gt, yt = call(self.e.tilts, x, u, z, dt, par)
        T = yt + yz @ np.linalg.solve(gz, -gt) if len(z) else yt
        return info, after[:, 0], Y[:, :n], Y[:, n:-1], T

    def second_sensitivity(self, par: Array, dt: float, x: Array, u: Array, z: Array, m: Array) -> tuple[Info, Array]:
        ns = self.layout.ndx + len(u) + 1
        info, root = self._solve(par, dt, x, u)
        if info.status != OK or not (np.isfinite(z).all() and np.isfinite(m).all()):
            return info if info.status != OK else Info(NOT_FINITE, 0, 0.0), np.zeros((ns, ns))
        gz, _, yz, _, mz, _ = call(self.e.slopes, x, u, root, dt, par)
        _, D, _, _ = self._slopes(par, dt, x, u, root)
        mu = np.linalg.solve(gz.T, -(yz.T @ z + mz.T @ m)) if len(root) else np.zeros(0)
        H = call(self.e.bends, x, u, root, dt, par, z, m, mu)[0]
        along = np.vstack([np.eye(ns), D])
        return info, along.T @ H @ along

    def linearize(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array]:
        n = self.layout.ndx
        info, after, _, Y, _ = self.sensitivity(par, dt, x, u)
        return info, after, Y[:, :n], Y[:, n:-1]

    def curvature(self, par: Array, dt: float, x: Array, u: Array, z: Array) -> tuple[Info, Array, Array, Array]:
        n = self.layout.ndx
        info, H = self.second_sensitivity(par, dt, x, u, z, np.zeros(self.nc))
        return info, H[:n, :n], H[:n, n:-1], H[n:-1, n:-1]
