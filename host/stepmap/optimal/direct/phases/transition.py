"""The transition between phases, or from a cycle's end to its start, as rows of one block (Pekarek, ch. 4).

    p_N = M v⁻ + Aᵀ μ,   A v⁻ = 0          what the old contacts held back is taken off
    M v⁺ = M v⁻ − Bᵀ Λ,   B v⁺ = 0          plastic impact on the new ones, Λ ≥ 0 along their normals, in the cone
    q'_0 = ρ(q_N),   Tᵀ p'_0 = M v⁺         renaming; ρ is the identity between phases

v⁻, μ, v⁺, Λ are variables, so that the rows stay sparse and nothing is inverted. Steps keep the norm of a quaternion,
so around a cycle its four rows would depend on each other: three of them say the turn, and one the norm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.poses.quaternion import conjugate, product
from stepmap.optimal.direct.mechanism import Mode
from stepmap.optimal.direct.nlp.block import Block
from stepmap.optimal.direct.phases.cones import cones
from stepmap.optimal.direct.phases.renaming import Renaming
from stepmap.optimal.direct.stage import Node


@dataclass(frozen=True, eq=False)
class Transition:
    """From the end of a phase in one mode to the start of the next in another.

    ``footholds`` are places (by row of the constraints) at which feet stand that stick; ``landing`` are least speeds
    [m/s] at which gaps, named as before the transition, close; ``friction`` are ratios of contacts that stick.
    """

    last: Node
    first: Node
    before: Mode
    after: Mode
    renaming: Renaming | None
    footholds: Mapping[int, float]
    landing: Mapping[str, float]
    friction: Mapping[str, float | None] = field(default_factory=dict)

    @cached_property
    def _sizes(self) -> list[int]:
        n = self.last.mechanism.nd
        return [n, self.before.count, n, self.after.count]

    @property
    def size(self) -> int:
        """Variables of its own: v⁻, μ, v⁺, Λ."""
        return sum(self._sizes)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Impulses push."""
        low = np.full(self.size, -np.inf)
        for mode, at in ((self.before, self._sizes[0]), (self.after, self.size - self.after.count)):
            low[[at + i for i, kind in enumerate(mode.kinds) if kind is Row.GAP]] = 0.0
        return low, np.full(self.size, np.inf)

    @cached_property
    def _parts(self) -> tuple[list[ca.SX], list[ca.SX]]:
        """Equations, and what is not negative: speeds beyond their least values, impulses within their cones."""
        m, last, first = self.last.mechanism, self.last, self.first
        nd, system = m.nd, m.system
        v, mu, v_after, impulse = ca.vertsplit(self._own, np.cumsum([0, *self._sizes]).tolist())
        renamed, T = (last.q, ca.SX.eye(m.n)) if self.renaming is None else self.renaming.function(last.q, last.par)
        held, next_held = m.held(last.q, last.par), m.held(renamed, last.par)
        M, T = m.mass(last.q, last.par)[:nd, :nd], T[:nd, :nd]
        A, B = self.before.pick(held.slope), self.after.pick(next_held.slope) @ T
        there = m.held(first.q, last.par).residual
        closing = [i for i in self.after.rows if system.constraint_rows[i] is Row.GAP and i in self.fresh]
        equations = [
            self._joined(renamed),
            last.p - M @ v - A.T @ mu,
            A @ v,
            M @ (v_after - v) + B.T @ impulse,
            B @ v_after,
            T.T @ first.p - M @ v_after,
            *(there[i] for i in closing),
            *(there[i] - place for i, place in self.footholds.items()),
        ]
        speeds = [held.slope[system.constraint_names.index(name), :] @ v - slow for name, slow in self.landing.items()]
        return equations, [*speeds, *(row for row, _ in cones(self.after, impulse, self.friction))]

    def _joined(self, renamed: ca.SX) -> ca.SX:
        """Rows of the next start."""
        first = self.first.q
        rows = [first[i] - renamed[i] for i in range(first.numel())]
        for s, _ in self.last.mechanism.tangent.balls if self.renaming is not None else ():
            here = [first[s + k] for k in range(4)]
            turn = product(conjugate([renamed[s + k] for k in range(4)]), here)
            rows[s : s + 4] = [sum((e * e for e in here), ca.SX(-1)), *turn[1:]]
        return ca.vertcat(*rows)

    @cached_property
    def fresh(self) -> set[int]:
        """Rows of the new mode that do not hold already because those of the old one do."""
        m = self.last.mechanism
        system = m.system
        rng = np.random.default_rng(0)
        q = m.tangent.retract(system.configuration({}), rng.uniform(-0.2, 0.2, m.n))
        A = system.residuals_slope(q)[list(self.before.rows)]
        renamed, T = q, np.eye(m.n)
        if self.renaming is not None:
            renamed, T = self.renaming.pose(q), np.asarray(self.renaming.function(q, system.parameter_values)[1])
        slopes = system.residuals_slope(renamed) @ T
        rank = np.linalg.matrix_rank(A, tol=1e-9) if A.size else 0
        return {i for i in self.after.rows if np.linalg.matrix_rank(np.vstack([A, slopes[i]]), tol=1e-9) > rank}

    @cached_property
    def _own(self) -> ca.SX:
        return ca.SX.sym("z", self.size)

    @cached_property
    def block(self) -> Block:
        """Variables: the last node, the first one, its own, the design."""
        equations, more = self._parts
        y = ca.vertcat(self.last.x, self.first.x, self._own, self.last.designed)
        return Block(y, self.last.c, ca.vertcat(*equations, *more))

    @property
    def rows(self) -> tuple[Array, Array]:
        """Bounds of the rows."""
        low, high = np.zeros((2, 1, self.block.size))
        high[0, self.block.size - len(self._parts[1]) :] = np.inf
        return low, high

    @property
    def labels(self) -> tuple[str, ...]:
        cone = (f"cone of the landing of {name}" for _, name in cones(self.after, self._own, self.friction))
        names = [*(f"landing of {name}" for name in self.landing), *cone]
        return (*("transition",) * (self.block.size - len(names)), *names)

    def guess(self, v: Array, v_after: Array) -> Array:
        """Its own variables from velocities before and after."""
        nd = self.last.mechanism.nd
        return np.concatenate([v[:nd], np.zeros(self.before.count), v_after[:nd], np.zeros(self.after.count)])
