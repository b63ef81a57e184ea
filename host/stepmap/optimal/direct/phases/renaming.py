"""How coordinates at the start of a cycle follow from those at its end: q' = ρ(q), momenta by p = Tᵀ p', T = Dρ.

T is between tangent spaces: a ball's three dimensions are turns about its axes before and after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.optimal.direct.mechanism import Mechanism
from stepmap.optimal.direct.names import Formula, by_name, expression
from stepmap.optimal.gaits.names import spread


@dataclass(frozen=True, eq=False)
class Renaming:
    """ρ by formulas of coordinates, parameters and frames' positions; a coordinate without one keeps its value."""

    mechanism: Mechanism
    formulas: Mapping[str, Formula]

    def __post_init__(self) -> None:
        _ = self.by_coordinate
        q = self.mechanism.system.configuration({})
        T = np.asarray(self.function(q, self.mechanism.system.parameter_values)[1])
        if not np.isfinite(T).all() or np.linalg.matrix_rank(T, tol=1e-9) < len(T):
            raise ModelError(
                "periodic: different poses get the same coordinates, or none: every coordinate must come back",
                hint="Give a formula for each coordinate that changes its role.",
            )

    @cached_property
    def by_coordinate(self) -> dict[str, Formula]:
        """The formulas by coordinates, those of a ball by its entries."""
        return spread(self.mechanism.system, self.formulas)

    @cached_property
    def function(self) -> ca.Function:
        """ρ and T of (q̄, parameters)."""
        system = self.mechanism.system
        q, par = ca.SX.sym("q", self.mechanism.nq), ca.SX.sym("par", len(system.parameters))
        names, formulas = by_name(self.mechanism, q, par) | {"t": ca.SX(0)}, self.by_coordinate
        parts = [
            expression(formulas[c.name], names, f"periodic {c.name!r}") if c.name in formulas else q[i]
            for i, c in enumerate(system.coordinates)
        ]
        renamed = ca.densify(ca.vertcat(*parts))
        slope = self.mechanism.tangent.slope_of(renamed, ca.jacobian(renamed, q), q)
        return ca.Function("renaming", [q, par], [renamed, ca.densify(slope)])

    def pose(self, q: Array) -> Array:
        """ρ(q)."""
        return np.asarray(self.function(q, self.mechanism.system.parameter_values)[0])[:, 0]
