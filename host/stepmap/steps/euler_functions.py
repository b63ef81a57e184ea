"""Generated functions of the continuous dynamics: accelerations and multipliers from (q̄, v̄, u, rhö).

    r_q = M a + …  = 0,   r_h = d²h/dt² = 0        both linear in z = [a, lam]

are written once as expressions; matrix, right-hand side and all derivatives in w = (q̄, v̄, u, rhö) follow from them.
"""

from __future__ import annotations

from functools import cached_property

import casadi as ca

from stepmap.graph.function import GraphFunction, symmetric
from stepmap.mechanics.expressions import Expressions


class RateFunctions:
    def __init__(self, expressions: Expressions, dynamic: int) -> None:
        self.e, self.nd = expressions, dynamic
        self.nk = expressions.q.numel() - dynamic
        self.nc = expressions.residual.numel()
        self.rho = ca.SX.sym("rho_rate2", self.nk)
        self.a = ca.SX.sym("a", dynamic)
        self.lam = ca.SX.sym("lam", self.nc)

    @cached_property
    def _residual(self) -> ca.SX:
        e, nd = self.e, self.nd
        acceleration = ca.vertcat(self.a, self.rho)
        lv = ca.gradient(e.lagrangian, e.v)[:nd]
        lq = ca.gradient(e.lagrangian, e.q)[:nd]
        along = ca.vertcat(e.v, acceleration)
        motion = ca.jtimes(lv, ca.vertcat(e.q, e.v), along) - lq - e.force
        speed = ca.jtimes(e.residual, e.q, e.v)
        pull = ca.jacobian(e.residual, e.q[:nd]).T @ self.lam
        return ca.densify(ca.vertcat(motion + pull, ca.jtimes(speed, ca.vertcat(e.q, e.v), along)))

    @property
    def _z(self) -> ca.SX:
        return ca.vertcat(self.a, self.lam)

    @property
    def _w(self) -> ca.SX:
        return ca.vertcat(self.e.q, self.e.v, self.e.u, self.rho)

    @property
    def _arguments(self) -> tuple[ca.SX, ...]:
        return self.e.q, self.e.v, self.e.u, self.rho, self.e.parameters

    @cached_property
    def rate(self) -> GraphFunction:
        matrix = ca.jacobian(self._residual, self._z)
        right = -ca.substitute(self._residual, self._z, ca.SX.zeros(self._z.numel()))
        return GraphFunction("rate", self._arguments, (("matrix", matrix), ("right", right), ("pull", self.e.pull)))

    @cached_property
    def slope(self) -> GraphFunction:
        jacobian = ca.jacobian(self._residual, self._w)
        return GraphFunction("rate_slope", (*self._arguments, self.a, self.lam), (("slope", jacobian),))

    @cached_property
    def bend(self) -> GraphFunction:
        mu = ca.SX.sym("mu", self._z.numel())
        contracted = ca.dot(self._residual, mu)
        gradient = ca.gradient(contracted, self._z)
        return GraphFunction(
            "rate_bend",
            (*self._arguments, self.a, self.lam, mu),
            (
                ("ww", symmetric(ca.hessian(contracted, self._w)[0])),
                ("zw", ca.jacobian(gradient, self._w)),
            ),
        )

    @property
    def first_order(self) -> tuple[GraphFunction, ...]:
        return (self.rate, self.slope)

    @property
    def second_order(self) -> tuple[GraphFunction, ...]:
        return (self.bend,)
