"""The compiled kernel of a step with events and balls: its second derivatives are differences of exact first ones.

They are central differences of sixth order of η·D f, with the order of events frozen, in the tangent spaces of a point
and of its next state: as exact as rounding lets them be, 1e-9 relative, at the cost of six derivatives per column.
"""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.graph.library import Order, Recipe
from stepmap.steps.events.kernel import EventKernel, Point
from stepmap.steps.kernels.info import DIVERGED, OK, Info
from stepmap.steps.layout import MechanicalLayout

SPACING = 2e-3
WEIGHTS = ((1, 45 / 60), (2, -9 / 60), (3, 1 / 60))
LEVELS = 6  # of spacings, each a quarter of the one before
ENOUGH = 1e-9  # agreement of two of them


class BallEventKernel(EventKernel):
    """An EventKernel in tangent spaces; constraint forces and dt have first derivatives only."""

    def __init__(self, recipe: Recipe, sizes: tuple[int, int, int, int], layout: MechanicalLayout) -> None:
        super().__init__(recipe, sizes, None, (Order.FIRST, Order.FIRST))
        self.layout = layout

    def curvature(self, par: Array, dt: float, x: Array, u: Array, z: Array) -> tuple[Info, Array, Array, Array]:
        n = self.ndx
        info, H = self._second(par, dt, x, u, z, np.zeros(self.nc))
        return info, H[:n, :n], H[:n, n:-1], H[n:-1, n:-1]

    def curvature_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None, Z: Array
    ) -> tuple[Info, Array, Array, Array]:
        info, H = self.second_sensitivity_all(par, dt, X, U, guess, Z, np.zeros((len(U), self.nc)))
        n = self.ndx
        xx, xu, uu = (np.ascontiguousarray(part) for part in (H[:, :n, :n], H[:, :n, n:-1], H[:, n:-1, n:-1]))
        return info, xx, xu, uu

    def second_sensitivity_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None, Z: Array, N: Array
    ) -> tuple[Info, Array]:
        ns = self.ndx + self.nu + 1
        out, info = np.empty((len(U), ns, ns)), Info(OK, 0, 0.0)
        lengths = np.broadcast_to(dt, len(U))
        for k in range(len(U)):
            info, out[k] = self._second(par, float(lengths[k]), X[k], U[k], Z[k], N[k])
            if info.status != OK:
                return info._replace(step=k), out
        return info, out

    def _second(self, par: Array, dt: float, x: Array, u: Array, z: Array, m: Array) -> tuple[Info, Array]:
        """Second derivatives of zᵀ x_next + mᵀ multipliers in (dx, u, dt)."""
        ns, about = len(z) + len(u) + 1, Point(dt, x, u)
        info, after, *_ = self.frozen(par, about, about)
        H = np.zeros((ns, ns))
        gradient = _Gradient(self, par, about, after, z, m)
        for i in range(ns):
            if info.status != OK:
                break
            info, H[i] = gradient.slope(i, SPACING * (dt if i == ns - 1 else 1.0))
        return info, (H + H.T) / 2


class _Gradient:
    """The gradient of zᵀ x_next + mᵀ multipliers in (dx, u, dt) about a point, with its order of events."""

    def __init__(self, kernel: BallEventKernel, par: Array, about: Point, after: Array, z: Array, m: Array) -> None:
        self.kernel, self.par, self.about, self.after, self.z, self.m = kernel, par, about, after, z, m

    def slope(self, i: int, spacing: float) -> tuple[Info, Array]:
        """Its derivative in column i: of spacings that fall by four, the one whose neighbour agrees best.

        Wide ones err by what a slow impact bends, and may lose the order of events; narrow ones by rounding.
        """
        found, before, least = None, None, np.inf
        info = Info(OK, 0, 0.0)
        for level in range(LEVELS):
            info, now = self._difference(i, spacing / 4**level)
            if now is not None and before is not None:
                apart = float(np.abs(now - before).max(initial=0.0))
                if apart < least:
                    found, least = now, apart
                if apart <= ENOUGH * max(1.0, float(np.abs(now).max(initial=0.0))):
                    break
            before = now
        if found is None:
            return (info if info.status != OK else info._replace(status=DIVERGED)), np.zeros(
                len(self._point(i, 0.0)[0])
            )
        return Info(OK, info.iterations, 0.0), found

    def _difference(self, i: int, spacing: float) -> tuple[Info, Array | None]:
        total: Array | float = 0.0
        info = Info(OK, 0, 0.0)
        for k, weight in WEIGHTS:
            for sign in (1, -1):
                info, value = self._at(i, sign * k * spacing)
                if info.status != OK:
                    return info, None
                total = total + sign * weight / spacing * value
        return info, np.asarray(total)

    def _point(self, i: int, shift: float) -> tuple[Array, Point]:
        layout, n, about = self.kernel.layout, len(self.z), self.about
        moved = np.zeros(n + len(about.u) + 1)
        moved[i] = shift
        x = np.ascontiguousarray(layout.retract(about.x, moved[:n]))
        return moved, Point(about.dt + moved[-1], x, about.u + moved[n:-1])

    def _at(self, i: int, shift: float) -> tuple[Info, Array]:
        layout = self.kernel.layout
        moved, point = self._point(i, shift)
        info, x2, _, Y, M = self.kernel.frozen(self.par, self.about, point)
        if info.status != OK:
            return info, moved
        nv = layout.tangent.nv
        end = layout.tangent.retract_slope(layout.difference(self.after, x2)[:nv])
        back = self.z.copy()
        back[:nv] = np.linalg.solve(end.T, back[:nv])
        out: Array = back @ Y + self.m @ M
        out[:nv] = out[:nv] @ layout.tangent.retract_slope(moved[:nv])
        return info, out
