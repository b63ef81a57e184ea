"""The jump of a landing: what the old contacts held back taken off, the new ones struck, and all renamed.

    M v⁻ + Aᵀ μ = p,   A v⁻ = 0                                 Q_N of Pekarek's thesis, ch. 3
    M v⁺ + Bᵀ Λ = M v⁻,   B v⁺ = 0                              plastic impact
    q' = ρ(q),   Tᵀ p' = M v⁺                                   renaming, T = Dρ

All equations are linear, and derivatives follow by the implicit function theorem.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError
from stepmap.optimal.gaits.modes import Mode
from stepmap.optimal.gaits.renaming import Renaming
from stepmap.steps.kernels.equations import Equations
from stepmap.steps.kernels.implicit import ImplicitKernel
from stepmap.steps.kernels.info import OK
from stepmap.steps.layout import Layout


class Jumped(NamedTuple):
    x: Array  # after renaming
    slope: Array  # (ndx, ndx): its derivative by the state before
    impulses: Array  # N s, in the rows of the new mode


@dataclass(frozen=True, eq=False)
class Jump:
    """From the rows of a mode to those of the next, both in names before the landing; without a renaming names stay."""

    before: Mode
    after: Mode
    renaming: Renaming | None = None

    @cached_property
    def equations(self) -> Equations:
        system = self.before.system
        e, tangent = system.expressions, system.tangent
        n, nq = tangent.nd, tangent.nq
        x, u, dt = ca.SX.sym("x", nq + n), ca.SX.sym("u", 0), ca.SX.sym("dt")
        slope = e.centered(ca.jacobian(e.charted.residual, e.chart))
        mass = ca.hessian(e.kinetic, e.v)[0]
        T = ca.SX.eye(n) if self.renaming is None else self.renaming.slope
        renamed = e.q if self.renaming is None else self.renaming.expression
        parts = ca.Function(
            "parts", [e.q, e.parameters], [mass, slope[self.before.rows, :], slope[self.after.rows, :], T, renamed]
        )
        M, A, B, T, renamed = parts(x[:nq], e.parameters)
        sizes = [n, A.shape[0], n, B.shape[0], n]
        z = ca.SX.sym("z", sum(sizes))
        before, mu, after, impulse, p = ca.vertsplit(z, np.cumsum([0, *sizes]).tolist())
        held = M @ before
        residual = ca.vertcat(
            held + A.T @ mu - x[nq:], A @ before, M @ after + B.T @ impulse - held, B @ after, T.T @ p - M @ after
        )
        return Equations(
            x,
            u,
            z,
            dt,
            e.parameters,
            residual=residual,
            after=ca.vertcat(renamed, p),
            multipliers=impulse,
            guess=ca.SX.zeros(z.numel()),
            decisive=int(z.numel()),
            linear=True,
            ndx=2 * n,
            retract=tangent.retract_of,
            difference=tangent.difference_of,
        )

    @cached_property
    def _kernel(self) -> ImplicitKernel:
        # of the layout the kernel asks for the number of tangent dimensions only
        return ImplicitKernel(self.equations, Layout({"dx": [(f"dx{i}", "") for i in range(self.equations.tangent)]}))

    def __call__(self, x: Array, parameters: Array) -> Jumped:
        """The state after it, with its derivative."""
        info, after, impulses, Y, _ = self._kernel.sensitivity(parameters, 1.0, x, np.zeros(0))
        if info.status != OK:
            raise ConvergenceError(
                "a landing has no solution: the rows of its contacts depend on each other in this pose",
                iterations=info.iterations,
                residual=info.residual,
                x=x,
            )
        return Jumped(after, Y[:, :-1], impulses)
