"""The stage of direct optimal control: one step of the midpoint map as rows between two nodes.

Nodes are (q̄, p, h), stage inputs (v̄, u, lam) with v̄ independent (Kobilarov et al.):

    q̄⁺ = q̄ + h v̄,   p⁺ = p + h (L_q + F) − h D_q hᵀ lam,   h⁺ = h
    p + h/2 (L_q + F) − L_v − h D_q hᵀ lam = 0,   h(q̄⁺) = 0

with L, F at (q̄ + h/2 v̄, v̄): the equations of the step whose forces are held, without its solve. lam are forces. Balls
have the increments of steps/rotations; four rows of their quaternions keep the norm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca

from stepmap.optimal.direct.mechanism import Mechanism, Middle, Mode
from stepmap.optimal.direct.names import by_name, entries, momentum_names, velocity_names
from stepmap.optimal.direct.nlp.solve import HANDED
from stepmap.steps.rotations.increments import Increments

EFFORT = 0.01  # weight of effort that stands for work where a search begins


@dataclass(frozen=True, eq=False)
class Node:
    """Symbols of a node, and the constants and design parameters that go with them.

    Constants are the node's number k and all parameters; those in ``design`` are variables instead.
    """

    mechanism: Mechanism
    design: tuple[int, ...] = ()
    suffix: str = ""

    @cached_property
    def x(self) -> ca.SX:
        return ca.SX.sym(f"x{self.suffix}", self.mechanism.nx)

    @cached_property
    def designed(self) -> ca.SX:
        return ca.SX.sym("d", len(self.design))

    @cached_property
    def c(self) -> ca.SX:
        return ca.SX.sym("c", 1 + len(self.mechanism.system.parameters))

    @property
    def k(self) -> ca.SX:
        return self.c[0]

    @property
    def q(self) -> ca.SX:
        return self.x[: self.mechanism.nq]

    @property
    def p(self) -> ca.SX:
        return self.x[self.mechanism.nq : self.mechanism.nx - 1]

    @property
    def h(self) -> ca.SX:
        return self.x[self.mechanism.nx - 1]

    @cached_property
    def par(self) -> ca.SX:
        values = [self.c[1 + i] for i in range(len(self.mechanism.system.parameters))]
        for j, i in enumerate(self.design):
            values[i] = self.designed[j]
        return ca.vertcat(*values) if values else ca.SX(0, 1)

    @property
    def t(self) -> ca.SX:
        return self.k * self.h

    @cached_property
    def names(self) -> dict[str, ca.SX]:
        """What formulas at a node know."""
        system = self.mechanism.system
        momenta = entries(momentum_names(system), self.p)
        return by_name(self.mechanism, self.q, self.par) | momenta | {"t": self.t, "h": self.h}


@dataclass(frozen=True, eq=False)
class Stage:
    """Symbols of a stage in a mode, its equations, and what formulas at its middle know."""

    node: Node
    mode: Mode
    works: bool = False  # whether the work of inputs is split into parts s⁺ − s⁻, s ≥ 0, so that |work| is linear

    @property
    def mechanism(self) -> Mechanism:
        return self.node.mechanism

    @property
    def ns(self) -> int:
        """Variables of a stage: velocities, inputs, multipliers, and parts of the work."""
        return self.mechanism.n + self.mechanism.nu + self.mode.count + self.parts

    @property
    def parts(self) -> int:
        return 2 * self.mechanism.nu if self.works else 0

    @cached_property
    def s(self) -> ca.SX:
        return ca.SX.sym("s", self.ns)

    @cached_property
    def after(self) -> ca.SX:
        return ca.SX.sym("after", self.mechanism.nx)

    @property
    def v(self) -> ca.SX:
        return self.s[: self.mechanism.n]

    @property
    def u(self) -> ca.SX:
        n = self.mechanism.n
        return self.s[n : n + self.mechanism.nu] if self.mechanism.nu else ca.SX(0, 1)

    @property
    def lam(self) -> ca.SX:
        at = self.mechanism.n + self.mechanism.nu
        return self.s[at : at + self.mode.count] if self.mode.count else ca.SX(0, 1)

    @property
    def split(self) -> ca.SX:
        return self.s[self.ns - self.parts :] if self.parts else ca.SX(0, 1)

    @property
    def y(self) -> ca.SX:
        return ca.vertcat(self.node.x, self.s, self.after, self.node.designed)

    @cached_property
    def move(self) -> Increments:
        return self.mechanism.move(self.node.q, self.v, self.node.h)

    @property
    def q_middle(self) -> ca.SX:
        return self.move.middle

    @cached_property
    def middle(self) -> Middle:
        return self.mechanism.middle(self.q_middle, self.move.velocity, self.u, self.node.par)

    @cached_property
    def equations(self) -> ca.SX:
        """Rows that vanish on a step: those of the next node first, as solvers that know stages want them."""
        node, m, h = self.node, self.middle, self.node.h
        held = self.mechanism.held(node.q, node.par)
        move = self.move
        impulse = h * (self.mode.pick(held.slope).T @ self.lam) if self.mode.count else ca.SX.zeros(self.mechanism.nd)
        push = m.lq + m.force
        pushed = node.p - impulse
        rows = [self.after - ca.vertcat(move.after, move.through(pushed) + h * move.to_end(push), h)]
        rows.append(pushed + h / 2 * move.at_begin(push) - move.left_momentum(m.lv))
        if self.mode.count:
            rows.append(self.mode.kept(self.mechanism.held(move.after, node.par).residual, held.residual))
        if self.works:
            nu, split = self.mechanism.nu, self.split
            powers = self.mechanism.powers(self.q_middle, move.velocity, self.u, node.par)
            rows.append(h * powers - split[:nu] + split[nu:])
        return ca.vertcat(*rows)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the equations."""
        system = self.mechanism.system
        moved = [f"motion of {c.name}" for c in system.coordinates]
        pushed = [f"momentum of {name}" for name, _ in system.tangent.entries[: self.mechanism.nd]]
        held = (f"constraint {name}" for name in self.mode.labels)
        worked = (f"work of {i.name}" for i in system.inputs) if self.works else ()
        return (*moved, *pushed, HANDED, *pushed, *held, *worked)

    @cached_property
    def forces(self) -> ca.SX:
        """Constraint forces [N] during the step."""
        pull = self.mechanism.held(self.node.q, self.node.par).pull
        return self.mode.pick(pull) * self.lam

    @cached_property
    def names(self) -> dict[str, ca.SX]:
        """What formulas at the middle of a step know: the middle's values, inputs, and constraint forces."""
        system, node = self.mechanism.system, self.node
        after = self.move.after
        kinematic = {f"{c.name}_next": after[i] for i, c in enumerate(system.coordinates) if c.kinematic}
        return {
            **entries(self.mode.labels, self.forces),
            **by_name(self.mechanism, self.q_middle, node.par),
            **entries(tuple(i.name for i in system.inputs), self.u),
            **kinematic,
            **entries(velocity_names(system), self.move.velocity),
            **entries(momentum_names(system), self.middle.lv),
            "effort": ca.sumsqr(self.u),
            "work": ca.sum1(self.split) / node.h if self.works else ca.SX(0),
            "t": (node.k + 0.5) * node.h,
            "h": node.h,
        }


def depends(expression: ca.SX, symbols: Sequence[ca.SX]) -> bool:
    """Whether an expression depends on one of these columns."""
    everything = ca.vertcat(*symbols)
    return bool(everything.numel()) and any(ca.which_depends(expression, everything, 1, False))


def shown(names: Mapping[str, ca.SX]) -> str:
    return ", ".join(names)
