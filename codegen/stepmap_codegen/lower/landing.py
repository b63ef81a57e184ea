"""The landing of a robot that walks as a guarded block: the estimate and its covariance in the names after it.

The board learns of it at the next tick, with its age a. The estimate has gone on through the ground until then, so it
is taken back, jumps, and goes on with the new velocity:

    x⁻ = (q − a v, p),   (q', p') = J(x⁻),   q ← q' + a v'

What that leaves out is added to the covariance, as much of it as the first estimate has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np

from stepmap_codegen.lower.blocks import Named, Sketch, identifier
from stepmap_codegen.lower.plant import Gait
from stepmap_codegen.lower.step_graph import solve_static
from stepmap_codegen.model.program import BlockRole, Field, Role

ROW, STEPS, AGE = "walk_row", "walk_steps", "walk_age"
WRAPS = 4095  # steps after which their number begins at 0 again
BLOCK = "landing"


@dataclass(frozen=True, eq=False)
class Landing:
    """The jump as expressions of the estimate, and the fields of a program that walks."""

    gait: Gait
    x: ca.SX
    period: float  # s

    @property
    def contact(self) -> str:
        """The field that is 1 in the tick in which the foot has come down."""
        return f"contact_{identifier(self.gait.contact)}"

    @property
    def fields(self) -> list[Field]:
        last, name = float(self.gait.steps + self.gait.beyond), self.gait.contact
        return [
            Field(self.contact, Role.MODE, "", 0.0, 1.0, label=f"{name}: 1 where it has come down"),
            Field(AGE, Role.MODE, "s", 0.0, self.period, label=f"since {name} has come down"),
            Field(ROW, Role.MODE, "", 0.0, last, label="row of the schedule in use"),
            Field(STEPS, Role.MODE, "", 0.0, float(WRAPS), label="landings since the start"),
        ]

    @cached_property
    def _age(self) -> ca.SX:
        return ca.SX.sym(AGE)

    def _velocity(self, x: ca.SX) -> ca.SX:
        n = x.numel() // 2
        return solve_static(self.gait.touchdown.parts(x[:n])[0], x[n:])

    def _jumped(self, x: ca.SX) -> ca.SX:
        """The state after the impact, in new names."""
        n, free = x.numel() // 2, list(self.gait.touchdown.system.free)
        _, wide, T, renamed, _ = self.gait.touchdown.parts(x[:n])
        momentum = ca.sparsify(wide @ self._velocity(x))
        order = _pivots(np.asarray(ca.DM(ca.Function("T", [x], [T])(0.1 * np.arange(1, 2 * n + 1)))).T)
        p = solve_static(ca.sparsify(T.T[order, :]), ca.densify(momentum[order]))
        return ca.densify(ca.vertcat(renamed, p[free]))

    @cached_property
    def _parts(self) -> tuple[ca.SX, ca.SX]:
        """The state after the landing at the present tick, and the slope of the jump."""
        n = self.x.numel() // 2
        x = ca.SX.sym("x", 2 * n)
        jumped = self._jumped(x)
        jump = ca.Function("jump", [x], [jumped, ca.sparsify(ca.jacobian(jumped, x))])
        before = ca.vertcat(self.x[:n] - self._age * self._velocity(self.x), self.x[n:])
        after, slope = jump(before)
        later = after[:n] + self._age * self._velocity(after)
        return ca.densify(ca.vertcat(later, after[n:])), slope

    @property
    def after(self) -> ca.SX:
        """The state at the tick that knows of the landing."""
        return self._parts[0]

    @property
    def slope(self) -> ca.SX:
        """The derivative of the jump."""
        return self._parts[1]

    def sketch(self, state: Named, x_fields: list[str], landed: Named) -> Sketch:
        """The block; ``landed`` are fields of the filter after it."""
        contact, steps = ca.SX.sym(self.contact), ca.SX.sym(STEPS)
        outputs = [
            *zip(x_fields, ca.vertsplit(self.after), strict=True),
            *landed,
            (STEPS, ca.if_else(ca.le(WRAPS, steps), 0.0, steps + 1.0)),
            (self.contact, ca.SX(0)),
        ]
        return Sketch(
            BLOCK,
            BlockRole.LANDING,
            f"renames the estimate where {self.gait.contact} has come down",
            [*state, (self.contact, contact), (AGE, self._age), (STEPS, steps)],
            outputs,
            (ca.SX(0.5), contact),
        )


def _pivots(matrix: np.ndarray) -> list[int]:
    """An order of rows in which elimination needs no pivoting."""
    left, order = np.array(matrix, dtype=float), []
    rows = list(range(len(left)))
    for k in range(len(left)):
        best = max(rows, key=lambda i: abs(left[i, k]))
        rows.remove(best)
        order.append(best)
        for i in rows:
            left[i] -= left[i, k] / left[best, k] * left[best]
    return order
