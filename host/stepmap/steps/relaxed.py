"""The midpoint step with relaxed gaps: smooth everywhere, for searching through slack phases and contacts.

A gap is closed with a force a ≥ 0, or open by b ≥ 0, and one of them is zero. Relaxed, their product is κ:

    φ(a, b) = a + b − √(a² + b² + 2κ) = 0,   a = λ / λ₀ from q̄_k,   b = −h(q̄_{k+1}) / h₀

so each force depends smoothly on the motion, and derivatives of both orders are those of the equations. a counts the
force in units of the weight of all masses, b the opening in units of 10 mm: a string that carries everything is short
of its length by κ times 10 mm. What has been found this way is rolled out through the
event step (optimal/events/relaxed.py).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.gaps import existing
from stepmap.mechanics.gravity import gravity
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.steps.kernels.compiled import Kernel
from stepmap.steps.kernels.equations import Equations, entries
from stepmap.steps.rotations.maps import Rotation
from stepmap.steps.variational import Forces, VariationalStep

KAPPA = 1e-4
OPENING = 0.01  # m
FALL = 9.81  # m/s², for mechanisms without gravity


class RelaxedStep(VariationalStep):
    """The midpoint step whose gaps have a force times opening of ``kappa``, in units of weight and 10 mm.

    ``contacts`` names the gaps that exist; all of them by default. Impacts leave no speed, and contacts slide.
    """

    opens = True  # its gaps

    def __init__(
        self,
        system: System,
        dt: float,
        forces: Forces = "held",
        kappa: float = KAPPA,
        contacts: Sequence[str] | None = None,
        rotation: Rotation = "exp",
    ) -> None:
        super().__init__(system, dt, forces, rotation)
        self.kappa = _positive(kappa)
        self.contacts = None if contacts is None else existing(system.gap_names, contacts)
        require_relaxable(system)

    @property
    def options(self) -> dict[str, Any]:
        return {**super().options, "kappa": self.kappa, "contacts": self.contacts}

    def with_kappa(self, kappa: float) -> Self:
        """The same step with another κ; what is compiled is shared."""
        made = copy.copy(self)
        made.__dict__ |= {"equations": self.equations, "kernel": self.kernel, "kappa": _positive(kappa)}
        made.__dict__.pop("parameter_values", None)
        made.__dict__.pop("layout", None)  # it refers to its step
        return made

    @cached_property
    def parameter_values(self) -> Array:
        """Those of the system, and κ, the unit of forces [N] and that of openings [m]."""
        return np.array([*self.system.parameter_values, self.kappa, _weight(self.system), OPENING])

    @cached_property
    def kernel(self) -> Kernel:
        return self.from_equations()

    @cached_property
    def equations(self) -> Equations:
        """Those of the midpoint step, with φ in place of the rows of gaps and a in place of their impulses."""
        smooth, e, nd = self.smooth_equations(), self.system.expressions, self.nd
        kappa, unit, opening = (ca.SX.sym(name) for name in ("kappa", "unit", "opening"))
        q1, q2 = smooth.x[: self.layout.nq], smooth.after[: self.layout.nq]
        pull = ca.Function("pull", [e.q, e.parameters], [e.pull])
        first, last = pull(q1, e.parameters), pull(q2, e.parameters)
        rows, impulses = [], []
        for i, row in enumerate(self.system.constraint_rows):
            a, h = smooth.z[nd + i], smooth.residual[nd + i]
            if row is Row.GAP:
                b = -h / (last[i] * opening)
                exists = self.contacts is None or self.system.constraint_names[i] in self.contacts
                rows.append(a + b - ca.sqrt(a**2 + b**2 + 2 * kappa) if exists else a)
                impulses.append(a * unit * smooth.dt / first[i])
            else:
                rows.append(h)
                impulses.append(a)
        given = ca.vertcat(smooth.z[:nd], *impulses)
        moved, forces = (ca.substitute(part, smooth.z, given) for part in (smooth.residual[:nd], smooth.multipliers))
        return Equations(
            smooth.x,
            smooth.u,
            smooth.z,
            smooth.dt,
            ca.vertcat(e.parameters, kappa, unit, opening),
            residual=ca.vertcat(moved, *rows),
            after=smooth.after,
            multipliers=forces if self.nc else entries(smooth.z, 0, 0),
            guess=smooth.guess,
            decisive=nd + self.nc,
            damped=True,
            smoothing=int(e.parameters.numel()),
            ndx=smooth.ndx,
            retract=smooth.retract,
            difference=smooth.difference,
        )


def _positive(kappa: float) -> float:
    value = number(kappa, "kappa")
    if not value > 0:
        raise ModelError(f"kappa: must be positive, got {kappa}; the smaller, the nearer to gaps that close")
    return value


def _weight(system: System) -> float:
    """Of all masses [N]; 1 N where there is none, only moments of inertia."""
    parameters = ca.vertcat(*system.symbols) if system.symbols else ca.SX(0, 1)
    total = sum((body.mass for body in system.bodies), ca.SX(0))
    mass = float(ca.Function("mass", [parameters], [total])(system.parameter_values))
    return mass * (float(np.linalg.norm(gravity(system))) or FALL) or 1.0


def require_relaxable(system: System) -> None:
    """Raises ModelError where a gap bounces or sticks."""
    for constraint in system.constraints:
        bounce = getattr(constraint, "restitution", 0.0)
        if bounce > 0:
            raise ModelError(
                f"gaps: contact {constraint.name!r} has a restitution of {bounce:g}, and a relaxed one leaves no "
                "speed; search on the event step (gaps='events'), or set restitution=0"
            )
        if Row.TANGENT in constraint.rows:
            raise ModelError(
                f"gaps: contact {constraint.name!r} sticks, and a relaxed one slides; search on the event step "
                "(gaps='events'), or set friction=None"
            )
