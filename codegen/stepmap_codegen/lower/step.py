"""Step maps as expressions: a kind with a lowering of its own, and all others from their equations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import casadi as ca

from stepmap.errors import ModelError
from stepmap.steps.layout import MechanicalLayout
from stepmap.steps.variational import VariationalStep
from stepmap_codegen.lower.equation_graph import EquationGraph
from stepmap_codegen.lower.step_graph import StepGraph

Binary: TypeAlias = Callable[[ca.SX, ca.SX], ca.SX]


@dataclass(frozen=True, eq=False)
class LoweredStep:
    """One step of a map as expressions of x and u, with its layout and the chart of its states."""

    layout: MechanicalLayout
    x: ca.SX
    u: ca.SX
    after: ca.SX  # x_next
    A: ca.SX  # (ndx, ndx): ∂x_next/∂x in the tangent space, sparse
    constraints: tuple[ca.SX, ca.SX] | None  # h at x and ∂h/∂q, where there are any
    retract: Binary
    difference: Binary

    def sets(self, i: int) -> int | None:
        """The entry of the next state that input i is, as the next value of a kinematic coordinate; None for forces."""
        found = [k for k in range(self.after.numel()) if ca.is_equal(self.after[k], self.u[i])]
        return found[0] if found else None


def lower_step(step: Any, newton: int) -> LoweredStep:
    """The step with ``newton`` iterations after the first."""
    x, u = ca.SX.sym("x", step.nx), ca.SX.sym("u", step.nu)
    if isinstance(step, VariationalStep) and step.opens and not step.layout.plain:
        raise ModelError(
            f"system {step.name!r} has gaps ({', '.join(step.system.gap_names)}) and balls "
            f"({', '.join(ball.name for ball in step.system.balls)}): no code is generated for both together",
            hint="Take wires (b.distance) for strings that stay taut; simulation and optimization know both.",
        )
    if isinstance(step, VariationalStep) and step.layout.plain:
        graph = StepGraph(step, newton)
        after, q2, lam = graph.map(x, u)
        A = graph.linearization(x, u, q2, lam)
        bound = bound_rows(graph.con(x[: graph.nq]), graph.nd) if graph.nc else None
    elif hasattr(step, "equations"):
        generic = EquationGraph(step, newton)
        after, z = generic.map(x, u)
        A = generic.linearization(x, u, z)
        bound = bound_rows(generic.constraints(x), step.nd) if step.nc else None
        after = normalized(step, after)
    else:
        raise ModelError(
            f"step: {type(step).__name__} has no equations to generate code from; see Equations in stepmap.steps"
        )
    chart = step.equations

    def retract(state: ca.SX, dx: ca.SX) -> ca.SX:
        return normalized(step, chart.retract(state, dx))

    return LoweredStep(step.layout, x, u, after, A, bound, retract, chart.difference)


def normalized(step: Any, x: ca.SX) -> ca.SX:
    """x with its quaternions back at length 1, by q (3 − |q|²)/2: one Newton step for 1/|q|, products only.

    What rounding leaves them off by is squared: |q| − 1 stays below 1e-8 in words of 32 bits.
    """
    balls = step.system.tangent.balls if isinstance(step.layout, MechanicalLayout) else []
    if not balls:
        return x
    out = ca.SX(x)
    for at, _ in balls:
        q = x[at : at + 4]
        out[at : at + 4] = q * (1.5 - 0.5 * ca.dot(q, q))
    return out


def bound_rows(constraints: list[ca.SX], nd: int) -> tuple[ca.SX, ca.SX]:
    h, J = constraints
    return h, J[:, :nd]
