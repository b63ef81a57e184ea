"""How coordinates at the start of a cycle follow from those at its end: q' = ρ(q), momenta by p = Tᵀ p', T = Dρ."""

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
from stepmap.text import nearest


@dataclass(frozen=True, eq=False)
class Renaming:
    """ρ by formulas of coordinates, parameters and frames' positions; a coordinate without one keeps its value."""

    mechanism: Mechanism
    formulas: Mapping[str, Formula]

    def __post_init__(self) -> None:
        names = [c.name for c in self.mechanism.system.coordinates]
        if not isinstance(self.formulas, Mapping):
            raise ModelError(f"periodic: expected a mapping from coordinates to formulas, got {self.formulas!r}")
        for name in self.formulas:
            if name not in names:
                raise ModelError(f"periodic: no coordinate is called {name!r}", hint=nearest(str(name), names))
        q = self.mechanism.system.configuration({})
        T = np.asarray(self.function(q, self.mechanism.system.parameter_values)[1])
        if not np.isfinite(T).all() or np.linalg.matrix_rank(T, tol=1e-9) < len(T):
            raise ModelError(
                "periodic: different poses get the same coordinates, or none: every coordinate must come back",
                hint="Give a formula for each coordinate that changes its role.",
            )

    @cached_property
    def function(self) -> ca.Function:
        """ρ and T of (q̄, parameters)."""
        system = self.mechanism.system
        q, par = ca.SX.sym("q", self.mechanism.nq), ca.SX.sym("par", len(system.parameters))
        names = by_name(self.mechanism, q, par) | {"t": ca.SX(0)}
        parts = [
            expression(self.formulas[c.name], names, f"periodic {c.name!r}") if c.name in self.formulas else q[i]
            for i, c in enumerate(system.coordinates)
        ]
        renamed = ca.densify(ca.vertcat(*parts))
        return ca.Function("renaming", [q, par], [renamed, ca.densify(ca.jacobian(renamed, q))])

    def pose(self, q: Array) -> Array:
        """ρ(q)."""
        return np.asarray(self.function(q, self.mechanism.system.parameter_values)[0])[:, 0]
