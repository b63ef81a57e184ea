"""A system as CasADi expressions of (q̄, v̄, u, parameters): the one graph everything else is read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import casadi as ca

from stepmap.mechanics.bodies import lump
from stepmap.mechanics.kinematics import Kinematics

if TYPE_CHECKING:
    from stepmap.mechanics.system import System


@dataclass(frozen=True)
class Expressions:
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

    @property
    def lagrangian(self) -> ca.SX:
        return self.kinetic - self.potential


def express(system: System) -> Expressions:
    """The expressions of a system."""
    n = len(system.coordinates)
    nd = len(system.dynamic)
    index = {c.name: i for i, c in enumerate(system.coordinates)}
    q, v, virtual_v = ca.SX.sym("q", n), ca.SX.sym("v", n), ca.SX.sym("w", n)
    u = ca.SX.sym("u", len(system.inputs))
    parameters = ca.vertcat(*system.symbols) if system.symbols else ca.SX(0, 1)
    real = Kinematics(system.frames, index, q, v)
    virtual = Kinematics(system.frames, index, q, virtual_v)

    links = lump(system.bodies)
    kinetic = sum((link.kinetic(real) for link in links), ca.SX(0))
    weight = sum((link.potential(real, system.gravity) for link in links), ca.SX(0))
    potential = sum((p.energy(real) for p in system.potentials), weight)
    power = sum((f.power(real, virtual, u) for f in system.forces), ca.SX(0))
    force = ca.gradient(power, virtual_v)[:nd]
    # P is linear in v*, so its gradient holds no v*; evaluate at zero to drop the symbol from the graph.
    force = _bound(ca.substitute(force, virtual_v, ca.SX.zeros(n)), system, real, u)

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
    )


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
