"""A system as CasADi expressions of (q̄, v̄, u, parameters): the one graph everything else is read from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import casadi as ca

from stepmap.mechanics.bodies import Link, lump
from stepmap.mechanics.equations import composite
from stepmap.mechanics.kinematics import Kinematics

if TYPE_CHECKING:
    from stepmap.mechanics.system import System


FEW = 8  # coordinates for which differentiating the energy's graph is good enough


@dataclass(frozen=True)
class Expressions:
    """Those of a system. Where nothing turns freely, ``chart`` is q itself and ``charted`` are these expressions.

    With balls, q has four stored numbers per ball and v three. Slopes and Hessians in q̄ are then taken in the tangent
    space: ``e.centered(ca.jacobian(e.charted.residual, e.chart))``, the derivative by a turn c about the child's axes,
    exp(ĉ) after the quaternion, at c = 0.
    """

    q: ca.SX  # q̄, dynamic coordinates first
    v: ca.SX
    u: ca.SX
    parameters: ca.SX
    kinetic: ca.SX
    potential: ca.SX
    force: ca.SX  # generalized force on the dynamic coordinates
    residual: ca.SX  # h(q̄), as the step solves it
    gap: ca.SX  # the same in metres
    pull: ca.SX  # force along the gap for a unit multiplier of the residual
    positions: ca.SX  # (3, frames), world
    rotations: ca.SX  # (3, 3 frames), from the frames' axes to the world's
    readings: ca.SX  # sensors' channels
    chart: ca.SX  # what q̄ is differentiated by: ordinary coordinates, and three numbers c per ball
    closed_hessian: Callable[[], ca.SX] | None = None  # of the Lagrangian in (q̄, v̄), its upper triangle in closed form
    turns: ca.SX | None = None  # the c of all balls
    moved: Expressions | None = None  # expressions that hold c

    @property
    def lagrangian(self) -> ca.SX:
        return self.kinetic - self.potential

    @property
    def charted(self) -> Expressions:
        """The expressions to differentiate by ``chart``."""
        return self if self.moved is None else self.moved

    def hessian(self) -> ca.SX:
        """Upper triangle of the charted Lagrangian's Hessian in (chart, v̄), in the form of fewer operations."""
        by_graph = self.hessian_by_graph()
        if self.closed_hessian is None or self.chart.numel() <= FEW:
            return by_graph
        return min(by_graph, self.closed_hessian(), key=self._operations)

    def hessian_by_graph(self) -> ca.SX:
        """The same, by differentiating the energy along the tree: made of velocities in the bodies' own axes."""
        return ca.triu(ca.hessian(self.charted.lagrangian, ca.vertcat(self.chart, self.v))[0])

    def _operations(self, expression: ca.SX) -> int:
        count: int = ca.Function("count", [self.q, self.v, self.parameters], [ca.cse(expression)]).n_instructions()
        return count

    def centered(self, expression: ca.SX) -> ca.SX:
        """A derivative in the chart at its centre."""
        if self.turns is None:
            return expression
        return ca.substitute(expression, self.turns, ca.SX.zeros(self.turns.numel()))


def express(system: System) -> Expressions:
    """The expressions of a system."""
    tangent = system.tangent
    q, v, u = ca.SX.sym("q", tangent.nq), ca.SX.sym("v", tangent.nv), ca.SX.sym("u", len(system.inputs))
    if not tangent.balls:
        return _express(system, q, v, u, q, None)
    turns = ca.SX.sym("c", 3 * len(tangent.balls))
    chart = ca.SX(tangent.nv, 1)
    stored, places = tangent.ordinary
    for i, at in zip(stored.tolist(), places.tolist(), strict=True):
        chart[at] = q[i]
    for number, (_, at) in enumerate(tangent.balls):
        chart[at : at + 3] = turns[3 * number : 3 * number + 3]
    moved = _express(system, q, v, u, chart, turns)
    here: dict[str, Any] = {
        f.name: moved.centered(getattr(moved, f.name))
        for f in dataclasses.fields(moved)
        if f.name not in ("q", "v", "u", "parameters", "chart", "closed_hessian", "turns", "moved")
    }
    return dataclasses.replace(moved, **here, moved=moved)


def _express(system: System, q: ca.SX, v: ca.SX, u: ca.SX, chart: ca.SX, turns: ca.SX | None) -> Expressions:
    tangent = system.tangent
    virtual_v = ca.SX.sym("w", tangent.nv)
    parameters = ca.vertcat(*system.symbols) if system.symbols else ca.SX(0, 1)
    real = Kinematics(system.frames, tangent, q, v, turns)
    virtual = Kinematics(system.frames, tangent, q, virtual_v, turns)

    links = lump(system.bodies)
    kinetic = sum((link.kinetic(real) for link in links), ca.SX(0))
    kinetic = sum((rotor.kinetic(real) for rotor in system.rotors), kinetic)
    weight = sum((link.potential(real, system.gravity) for link in links), ca.SX(0))
    potential = sum((p.energy(real) for p in system.potentials), weight)
    power = sum((f.power(real, virtual, u) for f in system.forces), ca.SX(0))
    force = ca.gradient(power, virtual_v)[: tangent.nd]
    # P is linear in v*, so its gradient holds no v*; evaluate at zero to drop the symbol from the graph.
    force = _bound(ca.substitute(force, virtual_v, ca.SX.zeros(tangent.nv)), system, real, u)

    def stack(parts: list[ca.SX]) -> ca.SX:
        return ca.densify(ca.vertcat(*parts)) if parts else ca.SX(0, 1)

    return Expressions(
        q=q,
        v=v,
        u=u,
        parameters=parameters,
        kinetic=ca.densify(kinetic),
        potential=ca.densify(potential),
        force=ca.densify(force),
        residual=stack([c.residual(real) for c in system.constraints]),
        gap=stack([c.gap(real) for c in system.constraints]),
        pull=stack([c.pull(real) for c in system.constraints]),
        positions=ca.densify(ca.horzcat(*(pose.origin for pose in real.pose))),
        rotations=ca.densify(ca.horzcat(*(pose.rotation for pose in real.pose))),
        readings=stack([s.reading(real) for s in system.sensors]),
        chart=chart,
        closed_hessian=None if tangent.balls else partial(_closed_hessian, system, links, real),
        turns=turns,
    )


def _closed_hessian(system: System, links: Sequence[Link], real: Kinematics) -> ca.SX:
    """Upper triangle of the Lagrangian's Hessian: closed for bodies, by the graph for what else has energy."""
    others = sum((rotor.kinetic(real) for rotor in system.rotors), ca.SX(0))
    others -= sum((p.energy(real) for p in system.potentials), ca.SX(0))
    by_graph = ca.triu(ca.hessian(others, ca.vertcat(real.q, real.v))[0])
    return by_graph + composite.hessian(system.frames, links, system.gravity, real)


def _bound(force: ca.SX, system: System, real: Kinematics, u: ca.SX) -> ca.SX:
    """A force with entries of q̄, v̄ and u in place of the symbols that stand for them in expressions."""
    used = {symbol.element_hash() for symbol in ca.symvar(force)}
    found = [(i.symbol, u[i.index]) for i in system.inputs if i.symbol.element_hash() in used]
    for c in system.coordinates:
        found += [(c.symbol, real.coordinate(c))] if c.symbol.element_hash() in used else []
        found += [(c.rate, real.rate(c))] if c.rate.element_hash() in used else []
    if not found:
        return force
    symbols, values = (ca.vertcat(*column) for column in zip(*found, strict=True))
    return ca.substitute(force, symbols, values)
