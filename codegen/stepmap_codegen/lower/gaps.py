"""Steps of a system with gaps as expressions: one per set of gaps that stay closed, and what decides between them.

On a board nothing is located. A step without closed gaps is tried first and taken where it violates none; where it
does, the step with that gap closed at its end is a plastic catch. A gap closed before it carries half of its impulse in
p, which a step without it must not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import casadi as ca

from stepmap.errors import ModelError
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.gaps import Contact
from stepmap.steps.mechanical import MechanicalStep
from stepmap.steps.variational import VariationalStep
from stepmap_codegen.lower.blocks import identifier
from stepmap_codegen.lower.step_graph import StepGraph, solve_static

MOST = 2  # gaps: there is a step per set of them


@dataclass(frozen=True, eq=False)
class Branch:
    """The step with some gaps closed; it is right where ``excess`` is not positive, the last one everywhere."""

    closed: tuple[int, ...]  # by their places among the gaps
    after: ca.SX
    A: ca.SX
    excess: ca.SX | None


class Gaps:
    """The gaps of a step map: symbols of their modes, 1 where closed, and a branch per set of closed ones."""

    def __init__(self, step: VariationalStep, newton: int, x: ca.SX, u: ca.SX) -> None:
        kinds = step.system.constraint_rows
        self.step, self.newton, self.x, self.u = step, newton, x, u
        self.rows = [i for i, kind in enumerate(kinds) if kind is Row.GAP]
        self.equalities = [i for i, kind in enumerate(kinds) if kind is Row.EQUALITY]
        self.names = [step.system.constraint_names[i] for i in self.rows]
        _require(step, self.names)
        self.modes = [ca.SX.sym(f"mode_{name}") for name in self.names]
        self.nd, self.nq = step.nd, step.nd + step.nk

    @property
    def fields(self) -> list[str]:
        """Names of the fields of the modes."""
        return [f"mode_{identifier(name)}" for name in self.names]

    @cached_property
    def _at(self) -> tuple[ca.SX, ca.SX]:
        """All rows of h at x, and their slopes in q̄."""
        return self._rows_at(self.x[: self.nq])

    def _rows_at(self, q: ca.SX) -> tuple[ca.SX, ca.SX]:
        e = self.step.system.expressions
        made = ca.Function("rows", [e.q, e.parameters], [e.residual, ca.jacobian(e.residual, e.q)])
        h, J = made(q, ca.DM(self.step.system.parameter_values))
        return h, ca.sparsify(J)

    @cached_property
    def mass(self) -> ca.SX:
        """The mass matrix at x, all coordinates."""
        e = self.step.system.expressions
        made = ca.Function("mass", [e.q, e.parameters], [ca.hessian(e.kinetic, e.v)[0]])
        return ca.sparsify(made(self.x[: self.nq], ca.DM(self.step.system.parameter_values)))

    def slope(self, gap: int) -> ca.SX:
        """∂h/∂q of a gap at x, a row."""
        return self._at[1][self.rows[gap], : self.nd]

    def response(self, gap: int) -> ca.SX:
        """M⁻¹ ∂h/∂qᵀ: how an impulse of the gap changes the velocity of q."""
        return solve_static(self.mass[: self.nd, : self.nd], ca.densify(self.slope(gap).T))

    def released(self, p: ca.SX, gap: int) -> ca.SX:
        """p without what a gap holds back: the gap then opens or closes as fast as its bodies move by themselves."""
        nd, nq = self.nd, self.nq
        v_rho = self.x[nq + nd :]
        D, response = self._at[1][self.rows[gap], :], self.response(gap)
        free = ca.dot(response, p - self.mass[:nd, nd:] @ v_rho) + D[:, nd:] @ v_rho
        return p - D[:, :nd].T @ (free / ca.dot(D[:, :nd].T, response))

    @cached_property
    def branches(self) -> list[Branch]:
        count = len(self.names)
        return [self._branch(closed) for n in range(count + 1) for closed in combinations(range(count), n)]

    def _branch(self, closed: tuple[int, ...]) -> Branch:
        rows = sorted([*self.equalities, *(self.rows[i] for i in closed)])
        nd, nq = self.nd, self.nq
        p = self.x[nq : nq + nd]
        for gap in range(len(self.names)):
            if gap not in closed:
                p = ca.if_else(ca.le(0.5, self.modes[gap]), self.released(p, gap), p)
        x = ca.vertcat(self.x[:nq], p, self.x[nq + nd :])
        graph = StepGraph(self.step, self.newton, rows, direct=True)
        after, q2, lam = graph.map(x, self.u)
        A = graph.linearization(x, self.u, q2, lam)
        h, _ = self._rows_at(q2)
        beyond = [h[self.rows[gap]] for gap in range(len(self.names)) if gap not in closed]
        pushing = [-lam[rows.index(self.rows[gap])] for gap in closed]
        excess = ca.mmax(ca.vertcat(*beyond, *pushing)) if beyond else None
        return Branch(closed, after, A, excess)

    def projections(self) -> list[tuple[tuple[int, ...], ca.SX, ca.SX]]:
        """(closed gaps, q moved onto them, what is at most ½ where it is these): closed or violated ones."""
        h, J = self._at
        held = [
            ca.if_else(ca.le(0.5, mode), 1, ca.if_else(ca.le(0, h[self.rows[gap]]), 1, 0))
            for gap, mode in enumerate(self.modes)
        ]
        made = []
        for n in range(len(held) + 1):
            for closed in combinations(range(len(held)), n):
                rows = sorted([*self.equalities, *(self.rows[i] for i in closed)])
                if rows:
                    D = J[rows, : self.nd]
                    moved = self.x[: self.nd] - D.T @ solve_static(D @ D.T, h[rows])
                    off = sum((1 - held[i] if i in closed else held[i] for i in range(len(held))), ca.SX(0))
                    made.append((closed, moved, off))
        return made


def lower_gaps(step: MechanicalStep, newton: int, x: ca.SX, u: ca.SX) -> Gaps | None:
    """The gaps of a step map; None where it has none. Raises ModelError for those that no code can be generated for."""
    if not step.system.gap_names:
        return None
    if not isinstance(step, VariationalStep):
        raise ModelError(
            f"step: {type(step).__name__} of {step.system.name!r} has gaps, and no code; use sm.discretize"
        )
    return Gaps(step, newton, x, u)


def _require(step: VariationalStep, names: list[str]) -> None:
    if len(names) > MOST:
        raise ModelError(
            f"system {step.system.name!r} has {len(names)} gaps ({', '.join(names)}), and a board takes {MOST}: its "
            "code has a step for every set of closed ones; tie what never opens with b.distance or b.point_on_plane"
        )
    for c in step.system.constraints:
        if isinstance(c, Contact) and (c.restitution > 0 or c.sticks):
            what = f"bounces (restitution {c.restitution:g})" if c.restitution > 0 else "sticks (friction math.inf)"
            raise ModelError(
                f"contact {c.name!r} {what}, and code is only for contacts that slide and do not bounce; "
                "use restitution=0 and friction=None"
            )
