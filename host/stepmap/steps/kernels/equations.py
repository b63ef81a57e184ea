"""The equations of a kind of step, written once as a graph.

    G(x, u, z, dt) = 0  for the unknowns z,   x_next = Y(x, u, z, dt),   constraint forces m(x, u, z, dt)

All that a step map offers follows from them by differentiation: the evaluator without a compiler (implicit.py), the
library that runtime/implicit.c is compiled to, and what the code generator unrolls. A kind with a runtime of its own,
such as the midpoint step, is tested against them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import casadi as ca

from stepmap.graph.function import GraphFunction, symmetric
from stepmap.graph.library import Order

Binary = Callable[[ca.SX, ca.SX], ca.SX]


def entries(vector: ca.SX, begin: int, end: int) -> ca.SX:
    """Entries begin … end of a column; slicing a single number would give a row when empty."""
    return vector[begin:end] if end > begin else ca.SX(0, 1)


def _sum(x: ca.SX, dx: ca.SX) -> ca.SX:
    return x + dx


def _difference(a: ca.SX, b: ca.SX) -> ca.SX:
    return b - a


@dataclass(frozen=True, eq=False)
class Equations:
    """A step as expressions of symbols. ``retract`` and ``difference`` are those of the state's layout, as expressions.

    Newton's method on z begins at ``guess``, an expression of x, u, dt and parameters; it ends when the first
    ``decisive`` unknowns no longer change. Where G is linear in z, that is one turn; where it bends sharply, steps are
    ``damped``. Where that is not enough, the parameter ``smoothing``, if there is one, rounds the corners off: Newton's
    method then begins with 1 in its place.
    """

    x: ca.SX
    u: ca.SX
    z: ca.SX
    dt: ca.SX
    parameters: ca.SX
    residual: ca.SX
    after: ca.SX
    multipliers: ca.SX
    guess: ca.SX
    decisive: int
    linear: bool = False
    damped: bool = False
    smoothing: int | None = None
    ndx: int | None = None
    retract: Binary = _sum
    difference: Binary = _difference
    _w: ca.SX = field(init=False)

    def __post_init__(self) -> None:
        dx = ca.SX.sym("dx", self.x.numel() if self.ndx is None else self.ndx)
        object.__setattr__(self, "_w", ca.vertcat(dx, self.u, self.dt))

    @property
    def nx(self) -> int:
        """Stored numbers of the state."""
        return int(self.x.numel())

    @property
    def tangent(self) -> int:
        """Tangent dimensions of the state."""
        return self.nx if self.ndx is None else self.ndx

    @property
    def _point(self) -> tuple[ca.SX, ...]:
        return self.x, self.u, self.z, self.dt, self.parameters

    @cached_property
    def start(self) -> GraphFunction:
        """(z) where Newton's method begins."""
        return GraphFunction("start", (self.x, self.u, self.dt, self.parameters), (("z", self.guess),))

    @cached_property
    def newton(self) -> GraphFunction:
        """(G, G_z) at a point."""
        return GraphFunction("newton", self._point, (("G", self.residual), ("Gz", ca.jacobian(self.residual, self.z))))

    @cached_property
    def output(self) -> GraphFunction:
        """(x_next, constraint forces) at a solution."""
        return GraphFunction("output", self._point, (("x", self.after), ("m", self.multipliers)))

    @cached_property
    def _moved(self) -> tuple[ca.SX, ca.SX, ca.SX, Callable[[ca.SX], ca.SX]]:
        """G, difference of x_next and m as functions of (dx, u, dt) and z, and what puts dx = 0 into a result."""
        dx = self._w[: self.tangent]
        moved = self.retract(self.x, dx)
        here = ca.SX.sym("here", self.nx)
        G, Y, m = (ca.substitute(e, self.x, moved) for e in (self.residual, self.after, self.multipliers))
        change = self.difference(here, Y)

        def at_zero(expression: ca.SX) -> ca.SX:
            put = ca.substitute(expression, here, self.after)
            return ca.substitute(put, dx, ca.SX.zeros(dx.numel()))

        return G, change, m, at_zero

    @cached_property
    def slopes(self) -> GraphFunction:
        """(G_z, G_w, Y_z, Y_w, m_z, m_w) at a solution, w = (dx, u, dt)."""
        G, Y, m, at_zero = self._moved
        outputs = []
        for name, e in (("G", G), ("Y", Y), ("m", m)):
            outputs += [(f"{name}{s}", at_zero(ca.jacobian(e, by))) for s, by in (("z", self.z), ("w", self._w))]
        return GraphFunction("slopes", self._point, tuple(outputs))

    @cached_property
    def tilts(self) -> GraphFunction:
        """(G, Y) by the parameters, at a solution."""
        here = ca.SX.sym("here", self.nx)
        Y = ca.jacobian(self.difference(here, self.after), self.parameters)
        outputs = (("Gt", ca.jacobian(self.residual, self.parameters)), ("Yt", ca.substitute(Y, here, self.after)))
        return GraphFunction("tilts", self._point, outputs)

    @cached_property
    def bends(self) -> GraphFunction:
        """Hessian of eta · Y + nu · m + mu · G in (w, z), at a solution."""
        G, Y, m, at_zero = self._moved
        eta, nu, mu = (ca.SX.sym(name, e.numel()) for name, e in (("eta", Y), ("nu", m), ("mu", G)))
        total = ca.dot(eta, Y) + ca.dot(nu, m) + ca.dot(mu, G)
        hessian = ca.hessian(total, ca.vertcat(self._w, self.z))[0]
        return GraphFunction("bends", (*self._point, eta, nu, mu), (("H", symmetric(at_zero(hessian))),))

    @cached_property
    def change(self) -> GraphFunction:
        """(dx) from a state to another."""
        a, b = ca.SX.sym("a", self.nx), ca.SX.sym("b", self.nx)
        return GraphFunction("difference", (a, b), (("dx", self.difference(a, b)),))

    @property
    def model(self) -> ca.Function:
        outputs = [self.residual, self.after, self.multipliers, self.guess]
        a, b, dx = ca.SX.sym("a", self.nx), ca.SX.sym("b", self.nx), ca.SX.sym("dx", self.tangent)
        chart = [self.retract(a, dx), self.difference(a, b)]
        return ca.Function("model", [*self._point, a, b, dx], outputs + chart)

    def of(self, order: Order) -> tuple[GraphFunction, ...]:
        """Those that a library of this order needs."""
        functions = (self.start, self.newton, self.output, self.slopes, self.change)
        more = {Order.FIRST: (), Order.PARAMETERS: (self.tilts,)}
        return (*functions, *more.get(order, (self.bends,)))

    @property
    def sizes(self) -> dict[str, object]:
        """What runtime/implicit.c has to know."""
        return {
            "NX": self.nx,
            "NDX": self.tangent,
            "NV": int(self.u.numel()),
            "NZ": int(self.z.numel()),
            "NC": int(self.multipliers.numel()),
            "DECISIVE": self.decisive,
            "LINEAR": int(self.linear),
            "DAMPED": int(self.damped),
            "NPAR": int(self.parameters.numel()),
            "SMOOTHING": -1 if self.smoothing is None else self.smoothing,
        }
