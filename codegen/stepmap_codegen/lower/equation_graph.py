"""Any kind of step from its equations, G(x, u, z) = 0 and x_next = Y(x, u, z), with a fixed number of iterations."""

from __future__ import annotations

from typing import Any

import casadi as ca

from stepmap.graph.function import GraphFunction
from stepmap.steps.kernels.equations import Equations
from stepmap_codegen.lower.step_graph import solve_static


class EquationGraph:
    """The map and its linearization as expressions of x and u; those of the midpoint step, too, but more of them."""

    def __init__(self, step: Any, newton: int) -> None:
        self.step = step
        self.equations: Equations = step.equations
        self.iterations = 1 if self.equations.linear else newton + 1

    def _call(self, function: GraphFunction, *arguments: ca.SX) -> list[ca.SX]:
        """Outputs with the time step and the parameters put in."""
        out: Any = function.casadi(*arguments, ca.DM(self.step.dt), ca.DM(self.step.parameter_values))
        parts = out if isinstance(out, tuple) else (out,)
        return [ca.sparsify(part.T) for part in parts]

    def map(self, x: ca.SX, u: ca.SX) -> tuple[ca.SX, ca.SX]:
        """(next state, unknowns z) by Newton's method from the guess of the equations."""
        (z,) = self._call(self.equations.start, x, u)
        for _ in range(self.iterations if z.numel() else 0):
            G, Gz = self._call(self.equations.newton, x, u, z)
            z = z - solve_static(Gz, G)
        after, _ = self._call(self.equations.output, x, u, z)
        return ca.densify(after), z

    def linearization(self, x: ca.SX, u: ca.SX, z: ca.SX) -> ca.SX:
        """A = Y_x − Y_z G_z⁻¹ G_x at a solved step, by the implicit function theorem; sparse."""
        n = self.equations.tangent
        Gz, Gw, Yz, Yw = self._call(self.equations.slopes, x, u, z)[:4]
        if not z.numel():
            return ca.sparsify(Yw[:, :n])
        return ca.sparsify(Yw[:, :n] - Yz @ solve_static(Gz, Gw[:, :n]))

    def constraints(self, x: ca.SX) -> list[ca.SX]:
        """The constraints at a state, and their derivatives in the tangent space of q̄."""
        e, nq = self.step.system.expressions, self.step.system.tangent.nq
        slope = e.centered(ca.jacobian(e.charted.residual, e.chart))
        bound = ca.Function("bound", [e.q, e.parameters], [e.residual, slope])
        return [ca.sparsify(part) for part in bound(x[:nq], ca.DM(self.step.parameter_values))]
