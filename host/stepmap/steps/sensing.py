"""Readings of a mechanism's sensors as a graph of the state. Those of rates see the velocity at the node.

    r(x, y)   with y from   E(x, y) = 0,  linear in y

A state of the midpoint step stores momenta p, and y = (q̇, μ) has the velocity and the impulses across constraints:

    M q̇ + M_qρ v + D_q hᵀ μ = p,   D_q h q̇ + D_ρ h v = 0

The Euler step stores rates; y is empty. Slopes are in the tangent space: H = r_x − r_y E_y⁻¹ E_x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.steps.kernels.equations import entries

if TYPE_CHECKING:
    from stepmap.steps.mechanical import MechanicalStep


@dataclass(frozen=True, eq=False)
class Sensing:
    """Readings r(x, y) and the balance E(x, y) = 0 as expressions, with their derivatives at dx = 0."""

    x: ca.SX
    y: ca.SX
    parameters: ca.SX
    readings: ca.SX
    readings_x: ca.SX  # (channels, ndx)
    readings_y: ca.SX
    balance: ca.SX
    balance_x: ca.SX
    balance_y: ca.SX

    @cached_property
    def _first(self) -> ca.Function:
        still = ca.substitute(self.balance, self.y, ca.SX.zeros(self.y.numel()))
        return ca.Function("first", [self.x, self.parameters], [still, ca.vec(ca.densify(self.balance_y).T)])

    @cached_property
    def _second(self) -> ca.Function:
        parts = (self.readings, self.readings_x, self.readings_y, self.balance_x)
        return ca.Function("second", [self.x, self.y, self.parameters], [ca.vec(ca.densify(e).T) for e in parts])

    def at(self, x: Array, parameters: Array) -> tuple[Array, Array]:
        """Readings (n, nz) and their slopes (n, nz, ndx) at states (n, nx)."""
        n, ny, nz = len(x), int(self.y.numel()), int(self.readings.numel())
        par = np.tile(parameters[:, None], n)
        still, matrix = (np.asarray(e).T for e in self._first(x.T, par))
        matrix = matrix.reshape(n, ny, ny)
        y = np.linalg.solve(matrix, -still[..., None])[..., 0] if ny else np.zeros((n, 0))
        r, rx, ry, ex = (np.asarray(e).T for e in self._second(x.T, y.T, par))
        slope = rx.reshape(n, nz, -1)
        if ny:
            slope = slope - ry.reshape(n, nz, ny) @ np.linalg.solve(matrix, ex.reshape(n, ny, -1))
        return r.reshape(n, nz), slope


def sensing(step: MechanicalStep) -> Sensing:
    """The readings of a step's mechanism on its states."""
    system, layout, e = step.system, step.layout, step.system.expressions
    if system.gap_names:
        raise ModelError(
            f"system {system.name!r}: a sensor of rates needs the velocity at a node, which gaps that open and close "
            "make uncertain; use markers and encoders"
        )
    nd, nq = step.nd, system.tangent.nq
    x, dx = ca.SX.sym("x", step.nx), ca.SX.sym("dx", step.ndx)
    if "p" in layout.parts:
        y = ca.SX.sym("y", nd + step.nc)
        v = ca.vertcat(entries(y, 0, nd), entries(x, nq + nd, step.nx))
        mass = ca.hessian(e.kinetic, e.v)[0][:nd, :]
        slope = e.centered(ca.jacobian(e.charted.residual, e.chart))
        parts = ca.Function("parts", [e.q, e.parameters], [mass, slope])
        mass, slope = parts(x[:nq], e.parameters)
        impulse = slope[:, :nd].T @ entries(y, nd, nd + step.nc)
        balance = ca.vertcat(mass @ v + impulse - x[nq : nq + nd], slope @ v)
    else:
        y, v, balance = ca.SX(0, 1), x[nq:], ca.SX(0, 1)
    seen = ca.Function("seen", [e.q, e.v, e.parameters], [e.readings])
    readings = seen(x[:nq], v, e.parameters)
    moved = step.equations.retract(x, dx)

    def slopes(value: ca.SX) -> tuple[ca.SX, ca.SX]:
        """In dx at 0, and in y."""
        along = ca.jacobian(ca.substitute(value, x, moved), dx)
        return ca.sparsify(ca.substitute(along, dx, ca.SX.zeros(step.ndx))), ca.sparsify(ca.jacobian(value, y))

    return Sensing(x, y, e.parameters, readings, *slopes(readings), balance, *slopes(balance))
