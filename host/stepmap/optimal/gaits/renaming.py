"""Renaming: the coordinates after a landing by those before it, q' = ρ(q), where legs change their roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.system import System
from stepmap.optimal.gaits.names import Formula, expressed, spread

ALIKE = 1e-7  # relative, between numbers that formulas give in two ways


@dataclass(frozen=True, eq=False)
class Renaming:
    """q' = ρ(q) by formulas; a coordinate without one keeps its name. Momenta follow by p = Tᵀ p', T = Dρ between
    tangent spaces.

    The renamed mechanism must be the same one: its energies as before, and each contact in the place of another.
    """

    system: System
    formulas: Mapping[str, Formula] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.system.kinematic:
            raise ModelError(
                f"periodic: {self.system.kinematic[0].name!r} is a kinematic coordinate, and gaits have none yet; "
                "drive it by a force"
            )
        self._require_same_mechanism()
        _ = self.partners

    @cached_property
    def expression(self) -> ca.SX:
        """ρ as an expression of the system's q and parameters."""
        e, formulas = self.system.expressions, spread(self.system, self.formulas)
        parts = [
            expressed(self.system, formulas[c.name], f"periodic {c.name}") if c.name in formulas else e.q[i]
            for i, c in enumerate(self.system.coordinates)
        ]
        return ca.densify(ca.vertcat(*parts))

    @cached_property
    def slope(self) -> ca.SX:
        """T = Dρ."""
        q = self.system.expressions.q
        return ca.densify(self.system.tangent.slope_of(self.expression, ca.jacobian(self.expression, q), q))

    @cached_property
    def _functions(self) -> ca.Function:
        e = self.system.expressions
        return ca.Function("renaming", [e.q, e.parameters], [self.expression, self.slope])

    def pose(self, q: Array) -> Array:
        """ρ(q)."""
        return np.asarray(self._functions(q, self.system.parameter_values)[0])[:, 0]

    def matrix(self, q: Array) -> Array:
        """T at q."""
        return np.asarray(self._functions(q, self.system.parameter_values)[1])

    @cached_property
    def partners(self) -> dict[str, str]:
        """By the name of each contact, that of the one whose place it takes."""
        slopes = [(q, self.pose(q), self.matrix(q)) for q in self.poses]
        found: dict[str, str] = {}
        at = dict(zip((c.name for c in self.system.constraints), self._places(), strict=True))
        gaps = [c.name for c in self.system.constraints if c.rows[0] is Row.GAP]
        for name in gaps:
            for other in gaps:
                if len(at[name]) == len(at[other]) and all(self._takes(at[name], at[other], *s) for s in slopes):
                    found[name] = other
        for name in gaps:
            if name not in found:
                raise ModelError(
                    f"the periodic map does not fit the contacts: {name!r} takes the place of no contact, its point "
                    "does not move after renaming as the point of any contact did before",
                    hint='Give formulas for all coordinates that say where a foot is, such as y = "swing.y".',
                )
        return found

    def _takes(self, rows: list[int], others: list[int], q: Array, renamed: Array, T: Array) -> bool:
        """Whether the rows after renaming are the others before it, but for the sign of tangents, and constants."""
        after, before = self.system.residuals_slope(renamed)[rows] @ T, self.system.residuals_slope(q)[others]
        heights = self.system.gaps(renamed)[rows[0]] - self.system.gaps(q)[others[0]]
        scale = 1.0 + float(np.abs(before).max())
        normal = np.abs(after[0] - before[0]).max() <= ALIKE * scale and abs(heights) <= ALIKE
        tangents = all(
            min(np.abs(a - b).max(), np.abs(a + b).max()) <= ALIKE * scale
            for a, b in zip(after[1:], before[1:], strict=True)
        )
        return bool(normal and tangents)

    def _places(self) -> list[list[int]]:
        at, out = 0, []
        for constraint in self.system.constraints:
            out.append(list(range(at, at + len(constraint.rows))))
            at += len(constraint.rows)
        return out

    @cached_property
    def poses(self) -> Array:
        """Poses about the start, at which formulas are compared."""
        tangent = self.system.tangent
        moves = np.random.default_rng(0).uniform(-0.2, 0.2, (3, tangent.nv))
        return tangent.retract(self.system.configuration({}), moves)

    def _require_same_mechanism(self) -> None:
        for q in self.poses:
            renamed, T = self.pose(q), self.matrix(q)
            if not (np.isfinite(renamed).all() and np.isfinite(T).all()):
                raise ModelError("periodic: the formulas have no finite value near the start")
            self._require_attitudes(renamed)
            if np.linalg.cond(T) > 1e9:
                raise ModelError("periodic: different poses get the same names; every coordinate must come back")
            M = self.system.mass_matrix(q)
            off = np.abs(T.T @ self.system.mass_matrix(renamed) @ T - M).max() / np.abs(M).max()
            if off > ALIKE:
                raise ModelError(
                    f"periodic: the renamed mechanism is another one: its masses differ by {100 * off:.2g} %",
                    hint="Legs that change their roles must be equal, and all coordinates need the formulas for it.",
                )

    def _require_attitudes(self, renamed: Array) -> None:
        for (at, _), ball in zip(self.system.tangent.balls, self.system.balls, strict=True):
            norm = float(np.linalg.norm(renamed[at : at + 4]))
            if abs(norm - 1) > ALIKE:
                raise ModelError(
                    f"periodic: the formulas of {ball.name!r} make a quaternion of the norm {norm:.4g}, not 1",
                    hint="A mirror is a change of signs: (w, -x, y, -z) where y points to the side.",
                )
