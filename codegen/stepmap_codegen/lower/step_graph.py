"""The midpoint step and its exact linearization as expressions, with a fixed number of Newton iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import casadi as ca

from stepmap.steps.kernels.equations import entries
from stepmap.steps.variational import VariationalStep


def solve_static(matrix: ca.SX, right: ca.SX) -> ca.SX:
    """matrix⁻¹ right by elimination in the given order, without pivoting.

    The order [q, lam] is safe: the block of q is −M/dt and a little more, definite, and the Schur complement of the
    constraints is too. One reciprocal a pivot; constant pivots cost nothing.
    """
    n = matrix.shape[0]
    a = [[matrix[i, j] for j in range(n)] for i in range(n)]
    b = [[right[i, j] for j in range(right.shape[1])] for i in range(n)]
    inverse = []
    for k in range(n):
        inverse.append(1 / a[k][k])
        for i in range(k + 1, n):
            if a[i][k].is_zero():
                continue
            factor = a[i][k] * inverse[k]
            for j in range(k + 1, n):
                a[i][j] = a[i][j] - factor * a[k][j]
            b[i] = [x - factor * y for x, y in zip(b[i], b[k], strict=True)]
    for k in reversed(range(n)):
        for j in range(k + 1, n):
            b[k] = [x - a[k][j] * y for x, y in zip(b[k], b[j], strict=True)]
        b[k] = [x * inverse[k] for x in b[k]]
    return ca.sparsify(ca.vertcat(*(ca.horzcat(*row) for row in b)))


class StepGraph:
    """The map and its linearization as expressions of x and u.

    ``rows`` are the constraints that hold in it, all by default. A map without any that is linear in the unknowns takes
    one iteration with ``direct``.
    """

    def __init__(
        self, step: VariationalStep, newton: int, rows: Sequence[int] | None = None, *, direct: bool = False
    ) -> None:
        self.step, self.newton, self.direct = step, newton, direct
        e, par = step.system.expressions, step.system.parameter_values
        self.rows = None if rows is None or len(rows) == step.nc else list(rows)
        self.nd, self.nk, self.nc = step.nd, step.nk, step.nc if self.rows is None else len(self.rows)
        self.nq, self.nf = step.nd + step.nk, len(step.system.inputs)
        f = step.functions

        def bind(function: ca.Function, position: int) -> Callable[..., list[ca.SX]]:
            def call(*arguments: ca.SX) -> list[ca.SX]:
                full = [*arguments[:position], ca.DM(par), *arguments[position:]]
                out: Any = function(*full)
                parts = out if isinstance(out, tuple) else (out,)
                return [ca.sparsify(part.T) for part in parts]

            return call

        self.first = bind(f.first.casadi, 3)
        self.second = bind(f.second_by_graph.casadi, 3)
        self.con = bind(f.con.casadi, 1)
        self.con2 = bind(f.con2.casadi, 1)
        self.names = [name for name, _ in f.second_by_graph.outputs]
        self.active = f.active
        self.e = e

    def map(self, x: ca.SX, u: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX]:
        """(next state, q̄ next, lam) by a fixed number of Newton iterations."""
        q1 = x[: self.nq]
        q2, lam = q1[: self.nd], ca.SX(self.nc, 1)
        jacobian1 = self._con(q1)[1][:, : self.nd]
        for _ in range(1 if self.direct and self._linear else self.newton + 1):
            # The first turn, from rest, predicts q + dt M⁻¹ p on the linearized constraint.
            dz = solve_static(*self.newton_step(x, u, q2, lam, jacobian1))
            q2, lam = q2 + entries(dz, 0, self.nd), lam + entries(dz, self.nd, self.nd + self.nc)
        after, q2b = self.after(x, u, q2)
        return after, q2b, lam

    def newton_step(self, x: ca.SX, u: ca.SX, q2: ca.SX, lam: ca.SX, jacobian1: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Matrix and right side of Newton's step from (q2, lam); ``jacobian1`` is that of the constraints at x."""
        dt, q1 = self.step.dt, x[: self.nq]
        q2b = ca.vertcat(q2, entries(u, self.nf, self.nf + self.nk))
        b = self._blocks(q1, q2b, u)
        h, jacobian2 = self._con(q2b)
        p = x[self.nq : self.nq + self.nd]
        G = p + dt / 2 * b["Lq"] - b["Lv"] + self.step.left * dt * b["F"] - jacobian1.T @ lam
        matrix = self._matrix(b["D12"], jacobian1, jacobian2[:, : self.nd])
        return matrix, -ca.vertcat(G, h)

    def after(self, x: ca.SX, u: ca.SX, q2: ca.SX) -> tuple[ca.SX, ca.SX]:
        """(next state, q̄ next) where the dynamic coordinates come to q2."""
        dt, q1 = self.step.dt, x[: self.nq]
        rho2 = entries(u, self.nf, self.nf + self.nk)
        q2b = ca.vertcat(q2, rho2)
        lq, lv, force = self.first((q1 + q2b) / 2, (q2b - q1) / dt, entries(u, 0, self.nf))
        p2 = dt / 2 * lq + lv
        if self.step.left < 1:  # what held forces give at the end
            p2 = p2 + (1 - self.step.left) * dt * force
        return ca.vertcat(q2b, p2, (rho2 - entries(q1, self.nd, self.nq)) / dt), q2b

    def linearization(self, x: ca.SX, u: ca.SX, q2b: ca.SX, lam: ca.SX) -> ca.SX:
        """A = ∂x_next/∂x at a solved step; sparse."""
        dt, nd, nk, nq = self.step.dt, self.nd, self.nk, self.nq
        matrix, right, left, momentum = self.slopes(x, u, q2b, lam)
        D = solve_static(matrix, right)
        momentum = left @ D[:nd, :] + momentum
        rho = ca.horzcat(ca.SX(nk, nd), -ca.SX.eye(nk) / dt, ca.SX(nk, nd))
        live = ca.vertcat(D[:nd, :], ca.SX(nk, nq + nd), momentum, rho)
        return ca.sparsify(ca.horzcat(live, ca.SX(2 * nq, nk)))

    def slopes(self, x: ca.SX, u: ca.SX, q2b: ca.SX, lam: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
        """(M, R, N, S) at a solved step: M D = R are the slopes D of (q next, lam) along (q̄, p), and N D[:nd] + S those
        of the next momentum.
        """
        nd, nq = self.nd, self.nq
        q1 = x[:nq]
        b = self._blocks(q1, q2b, u)
        jacobian1, jacobian2 = self._con(q1)[1], self._con(q2b)[1]
        bend = self.con2(q1, self._every(lam))[0][:nd, :] if self.nc else ca.SX(nd, nq)
        gw = ca.vertcat(
            ca.horzcat(b["D11"] - bend, ca.SX.eye(nd)),
            ca.SX(self.nc, nq + nd),
        )
        matrix = self._matrix(b["D12"], jacobian1[:, :nd], jacobian2[:, :nd])
        return matrix, -gw, b["D22"][:, :nd], ca.horzcat(b["D21"], ca.SX(nd, nd))

    def _con(self, q: ca.SX) -> tuple[ca.SX, ca.SX]:
        if not self.nc:
            return ca.SX(0, 1), ca.SX(0, self.nq)
        h, jacobian = self.con(q)
        return (h, jacobian) if self.rows is None else (h[self.rows], jacobian[self.rows, :])

    def _every(self, lam: ca.SX) -> ca.SX:
        """Multipliers of all constraints: 0 of those that do not hold."""
        if self.rows is None:
            return lam
        full = ca.SX(self.step.nc, 1)
        full[self.rows] = lam
        return full

    @cached_property
    def _linear(self) -> bool:
        """Whether the equations are linear in what is solved for."""
        q1, q2, u = (ca.SX.sym(name, n) for name, n in (("q1", self.nq), ("q2", self.nq), ("u", self.step.nu)))
        return not self.nc and not ca.depends_on(self._blocks(q1, q2, u)["D12"], q2[: self.nd])

    def _matrix(self, d12: ca.SX, jacobian1: ca.SX, jacobian2: ca.SX) -> ca.SX:
        top = ca.horzcat(d12[:, : self.nd], -jacobian1.T)
        return ca.vertcat(top, ca.horzcat(jacobian2, ca.SX(self.nc, self.nc)))

    def _blocks(self, q1: ca.SX, q2: ca.SX, u: ca.SX) -> dict[str, ca.SX]:
        dt = self.step.dt
        values = self.second((q1 + q2) / 2, (q2 - q1) / dt, entries(u, 0, self.nf))
        out = dict(zip(self.names, values, strict=True))
        for name in ("Lqq", "Lqv", "Lvq", "Lvv", "Fq", "Fv"):
            wide = ca.SX(self.nd, self.nq)
            wide[:, self.active] = out[name]
            out[name] = ca.sparsify(wide)
        qq, vv, qv, vq = dt / 4 * out["Lqq"], out["Lvv"] / dt, out["Lqv"] / 2, out["Lvq"] / 2
        out["D11"], out["D12"] = qq - qv - vq + vv, qq + qv - vq - vv
        out["D21"], out["D22"] = qq - qv + vq - vv, qq + qv + vq + vv
        left, right = self.step.left, 1 - self.step.left
        for name, share in (("D11", left), ("D12", left), ("D21", right), ("D22", right)):
            turned, moved = share * dt / 2 * out["Fq"], share * out["Fv"]
            out[name] = out[name] + turned + moved if name.endswith("2") else out[name] + turned - moved
        return out
