"""The functions that the midpoint step generates of a model.

The midpoint step sees the Lagrangian L and the force F only at (q̄m, vm), and the constraints h at a configuration.
So everything up to the contracted second derivative of the step needs six functions, and a seventh for units; the
forces of constraints have derivatives of their own:

    first   L_q  L_v  F                                      dynamic rows
    second  the same and their derivatives in (q̄a, v̄a, u)    a: the coordinates L or F depend on
    third   Hessian in (q̄a, v̄a, u) of  L_q·a + L_v·b + F·c    contracted, so no third-order tensor is formed
    con     h  D h
    pull    force along the gap of each constraint for a unit multiplier
    con2    Hessian of  m·h  in q̄
    pull1, pull2   Jacobian of pull, and the Hessian of  m·pull,  in q̄
    con3    J = D(D_q h · d)  and the Hessian of  m·(D_q h · d)  in q̄
    slope, conslope   derivatives by the parameters: of L_q, L_v, F at the midpoint; of h(q̄2) and D_q h(q̄1)ᵀ m

Outputs are row-major dense arrays whose structural zeros are never written. Derivatives by q̄ are those in its chart,
which is q̄ itself, and for balls a turn about the child's axes.
"""

from __future__ import annotations

from functools import cached_property

import casadi as ca

from stepmap.graph.function import GraphFunction, symmetric
from stepmap.graph.library import Order
from stepmap.mechanics.equations import composite
from stepmap.mechanics.expressions import Expressions


class ModelFunctions:
    """The generated functions of a model, made when first asked for."""

    FORMULAS = (composite, Expressions)

    def __init__(self, expressions: Expressions, dynamic: int) -> None:
        self.e, self.nd = expressions, dynamic
        self.active = _active(expressions, dynamic)

    @cached_property
    def _gradient(self) -> tuple[ca.SX, ca.SX]:
        e = self.e
        lq = e.centered(ca.gradient(e.charted.lagrangian, e.chart))
        return lq[: self.nd], ca.gradient(e.lagrangian, e.v)[: self.nd]

    @cached_property
    def _bend(self) -> ca.SX:
        """Upper triangle of the Lagrangian's Hessian in (q̄a, v̄a)."""
        return self._of_active(self.e.hessian())

    def _of_active(self, hessian: ca.SX) -> ca.SX:
        some = [*self.active, *(self.e.chart.numel() + i for i in self.active)]
        return hessian[some, some]

    @property
    def _arguments(self) -> tuple[ca.SX, ...]:
        return self.e.q, self.e.v, self.e.u, self.e.parameters

    @cached_property
    def first(self) -> GraphFunction:
        lq, lv = self._gradient
        return GraphFunction("first", self._arguments, (("Lq", lq), ("Lv", lv), ("F", self.e.force)))

    @cached_property
    def second(self) -> GraphFunction:
        return self._second(self._bend)

    @cached_property
    def second_by_graph(self) -> GraphFunction:
        """The same from bodies' own axes, in which numbers stay small: for integers."""
        return self._second(self._of_active(self.e.hessian_by_graph()))

    def _second(self, bend: ca.SX) -> GraphFunction:
        e, nd, active, moved = self.e, self.nd, self.active, self.e.charted
        lq, lv = self._gradient
        n = len(active)
        qa, va = e.chart[active], e.v[active]
        hessian = ca.triu2symm(e.centered(bend))
        rows = list(range(nd))  # active starts with the dynamic coordinates
        q, v = list(range(n)), list(range(n, 2 * n))
        shifted = [n + i for i in rows]
        return GraphFunction(
            "second",
            self._arguments,
            (
                ("Lq", lq),
                ("Lv", lv),
                ("F", e.force),
                ("Lqq", hessian[rows, q]),
                ("Lqv", hessian[rows, v]),
                ("Lvq", hessian[shifted, q]),
                ("Lvv", hessian[shifted, v]),
                ("Fq", e.centered(ca.jacobian(moved.force, qa))),
                ("Fv", ca.jacobian(e.force, va)),
                ("Fu", ca.jacobian(e.force, e.u)),
            ),
        )

    @cached_property
    def third(self) -> GraphFunction:
        e, nd, moved = self.e, self.nd, self.e.charted
        a, b, c = ca.SX.sym("a", nd), ca.SX.sym("b", nd), ca.SX.sym("c", nd)
        y = ca.vertcat(e.chart[self.active], e.v[self.active], e.u)
        # Differentiating the Hessian along (a, b) gives a smaller graph than the Hessian of the derivative.
        rest = y.numel() - self._bend.size1()
        hessian = ca.diagcat(ca.cse(self._bend), ca.SX(rest, rest))
        contracted = ca.jtimes(hessian, ca.vertcat(e.chart[:nd], e.v[:nd]), ca.vertcat(a, b))
        contracted += ca.triu(ca.hessian(ca.dot(moved.force, c), y)[0])
        hessian = symmetric(e.centered(contracted))
        return GraphFunction("third", (*self._arguments, a, b, c), (("S", hessian),))

    @cached_property
    def con(self) -> GraphFunction:
        e = self.e
        jacobian = e.centered(ca.jacobian(e.charted.residual, e.chart))
        return GraphFunction("con", (e.q, e.parameters), (("h", e.residual), ("Dh", jacobian)))

    @cached_property
    def pull(self) -> GraphFunction:
        return GraphFunction("pull", (self.e.q, self.e.parameters), (("pull", self.e.pull),))

    @cached_property
    def con2(self) -> GraphFunction:
        e = self.e
        m = ca.SX.sym("m", e.residual.numel())
        hessian = symmetric(e.centered(ca.hessian(ca.dot(e.charted.residual, m), e.chart)[0]))
        return GraphFunction("con2", (e.q, e.parameters, m), (("H", hessian),))

    @cached_property
    def con3(self) -> GraphFunction:
        e = self.e
        m, d = ca.SX.sym("m", e.residual.numel()), ca.SX.sym("d", self.nd)
        q, residual = e.chart[: self.nd], e.charted.residual
        upper = ca.cse(ca.triu(ca.hessian(ca.dot(residual, m), e.chart)[0]))
        hessian = symmetric(e.centered(ca.jtimes(upper, q, d)))
        jacobian = e.centered(ca.jacobian(ca.jtimes(residual, q, d), e.chart))
        return GraphFunction("con3", (e.q, e.parameters, m, d), (("J", jacobian), ("H", hessian)))

    @cached_property
    def pull1(self) -> GraphFunction:
        slope = self.e.centered(ca.jacobian(self.e.charted.pull, self.e.chart))
        return GraphFunction("pull1", (self.e.q, self.e.parameters), (("Dpull", slope),))

    @cached_property
    def pull2(self) -> GraphFunction:
        e = self.e
        m = ca.SX.sym("m", e.pull.numel())
        hessian = symmetric(e.centered(ca.hessian(ca.dot(e.charted.pull, m), e.chart)[0]))
        return GraphFunction("pull2", (e.q, e.parameters, m), (("Hpull", hessian),))

    @cached_property
    def slope(self) -> GraphFunction:
        lq, lv = self._gradient
        parts = (("Lqt", lq), ("Lvt", lv), ("Ft", self.e.force))
        slopes = tuple((name, ca.jacobian(part, self.e.parameters)) for name, part in parts)
        return GraphFunction("slope", self._arguments, slopes)

    @cached_property
    def conslope(self) -> GraphFunction:
        e = self.e
        q2, m = ca.SX.sym("q2", e.q.numel()), ca.SX.sym("m", e.residual.numel())
        jacobian = e.centered(ca.jacobian(e.charted.residual, e.chart[: self.nd]))
        there = ca.substitute(e.residual, e.q, q2)
        slopes = (("ht", there), ("Jt", jacobian.T @ m))
        outputs = tuple((name, ca.jacobian(part, e.parameters)) for name, part in slopes)
        return GraphFunction("conslope", (e.q, q2, m, e.parameters), outputs)

    @property
    def model(self) -> ca.Function:
        e = self.e
        return ca.Function("model", [e.q, e.v, e.u, e.parameters], [e.lagrangian, e.force, e.residual, e.pull])

    def of(self, order: Order) -> tuple[GraphFunction, ...]:
        """Those that a library of this order needs."""
        first = (self.first, self.second, self.con, self.con2, self.pull)
        if order is Order.FIRST:
            return first
        if order is Order.PARAMETERS:
            return (*first, self.slope, self.conslope)
        second = (*first, self.third, self.con3)
        return second if order is Order.SECOND else (*second, self.pull1, self.pull2)


class GapFunctions(ModelFunctions):
    """Those of a chain of segments:

    speed       D(D h · d)  of a velocity d of q̄
    speed2      Hessian of  m·(D h · d)  in q̄
    speedslope  derivatives of D h · d by the parameters
    """

    @cached_property
    def speed(self) -> GraphFunction:
        e = self.e
        d = ca.SX.sym("d", e.chart.numel())
        slope = e.centered(ca.jacobian(ca.jtimes(e.charted.residual, e.chart, d), e.chart))
        return GraphFunction("speed", (e.q, e.parameters, d), (("Dspeed", slope),))

    @cached_property
    def speed2(self) -> GraphFunction:
        e = self.e
        m, d = ca.SX.sym("m", e.residual.numel()), ca.SX.sym("d", e.chart.numel())
        upper = ca.cse(ca.triu(ca.hessian(ca.dot(e.charted.residual, m), e.chart)[0]))
        hessian = symmetric(e.centered(ca.jtimes(upper, e.chart, d)))
        return GraphFunction("speed2", (e.q, e.parameters, m, d), (("Hspeed", hessian),))

    @cached_property
    def speedslope(self) -> GraphFunction:
        e = self.e
        d = ca.SX.sym("d", e.chart.numel())
        speeds = e.centered(ca.jtimes(e.charted.residual, e.chart, d))
        return GraphFunction("speedslope", (e.q, e.parameters, d), (("St", ca.jacobian(speeds, e.parameters)),))

    def of(self, order: Order) -> tuple[GraphFunction, ...]:
        first = (self.first, self.second, self.con, self.con2, self.pull, self.pull1, self.speed)
        if order is Order.FIRST:
            return first
        if order is Order.PARAMETERS:
            return (*first, self.slope, self.conslope, self.speedslope)
        return (*first, self.third, self.pull2, self.speed2)


def _active(e: Expressions, nd: int) -> list[int]:
    """The dynamic coordinates, then those kinematic ones that L or F depend on through position or velocity."""
    n = e.chart.numel()
    everything = ca.vertcat(e.charted.lagrangian, e.charted.force)
    in_q, in_v = (ca.which_depends(everything, s, 1, False) for s in (e.chart, e.v)) if n else ([], [])
    return [i for i in range(n) if i < nd or in_q[i] or in_v[i]]
