"""A mechanism that stands on its closed contacts, without the coordinates that say where: what a board computes with.

Rooted in its foot, a robot needs no multipliers while it stands. The landing is angular momentum about the new foot:

    M v = P,   q' = ρ(q),   Tᵀ P' = P,   T = Dρ

of which the parts of the coordinates that are left are kept: impulses of the new contact act on the others only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.expressions import Expressions
from stepmap.mechanics.system import System
from stepmap.optimal.gaits.modes import Mode
from stepmap.optimal.gaits.renaming import Renaming
from stepmap.steps.kinds import discretize
from stepmap.steps.variational import VariationalStep

SAME = 1e-9  # of slopes


@dataclass(frozen=True, eq=False)
class StandingSystem(System):
    """The mechanism of a mode; coordinates that its contacts hold are numbers."""

    whole: System | None = None
    free: tuple[int, ...] = ()  # of the coordinates of ``whole``
    held: tuple[float, ...] = ()  # what the others are

    @cached_property
    def expressions(self) -> Expressions:
        assert self.whole is not None
        e, n = self.whole.expressions, len(self.free)
        q, v = ca.SX.sym("q", n), ca.SX.sym("v", n)
        names = ["kinetic", "potential", "force", "positions", "rotations", "readings"]
        put = ca.Function("standing", [e.q, e.v, e.u, e.parameters], [getattr(e, name) for name in names])
        made = put(self.lifted(q), self.lifted(v, still=True), e.u, e.parameters)
        parts = dict(zip(names, made, strict=True))
        parts["force"] = parts["force"][list(self.free)]
        none = ca.SX(0, 1)
        fields: dict[str, Any] = {name: ca.densify(part) for name, part in parts.items()}
        fields |= {"q": q, "v": v, "chart": q, "residual": none, "gap": none, "pull": none}
        return dataclasses.replace(e, **fields)

    def lifted(self, q: ca.SX, *, still: bool = False) -> ca.SX:
        """All coordinates of the whole mechanism, or with ``still`` their velocities."""
        assert self.whole is not None
        out = ca.SX(len(self.whole.coordinates), 1)
        for place, i in enumerate(self.free):
            out[i] = q[place]
        for i, value in zip(self._others, self.held, strict=True):
            out[i] = 0.0 if still else value
        return out

    def pose(self, q: Array) -> Array:
        """q̄ of the whole mechanism."""
        assert self.whole is not None
        out = np.zeros((*q.shape[:-1], len(self.whole.coordinates)))
        out[..., list(self.free)] = q
        out[..., self._others] = self.held
        return out

    @property
    def _others(self) -> list[int]:
        assert self.whole is not None
        return [i for i in range(len(self.whole.coordinates)) if i not in self.free]

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.whole, self.free, self.held, tuple(p.value for p in self.parameters))


def standing(system: System, closed: tuple[str, ...], pose: Array) -> StandingSystem:
    """The mechanism on its closed contacts, where they hold some of its coordinates and nothing else."""
    held = _held(system, closed)
    free = tuple(i for i in range(len(system.coordinates)) if i not in held)
    return _made(system, free, tuple(float(pose[i]) for i in held))


def _held(system: System, closed: tuple[str, ...]) -> list[int]:
    """Coordinates that the contacts hold; ModelError where they hold sums of others, too."""
    mode = Mode(system, closed)
    poses = np.random.default_rng(0).uniform(-0.5, 0.5, (3, len(system.coordinates)))
    slopes = np.abs(np.array([mode.slope(pose) for pose in poses])).max(axis=(0, 1))
    held = [i for i, size in enumerate(slopes) if size > SAME]
    if not mode.rows or len(held) != len(mode.rows):
        names = ", ".join(system.coordinates[i].name for i in held) or "nothing"
        raise ModelError(
            f"system {system.name!r}: a board needs coordinates rooted in the foot that stands, and "
            f"{', '.join(map(repr, closed)) or 'no contact'} holds {len(mode.rows)} combinations of {names}",
            hint="Begin the mechanism at its stance foot (x, y, then relative angles), as biped_planar does.",
        )
    return held


def _made(system: System, free: tuple[int, ...], held: tuple[float, ...]) -> StandingSystem:
    kept = {f.name: getattr(system, f.name) for f in dataclasses.fields(System)}
    kept |= {"coordinates": tuple(system.coordinates[i] for i in free), "constraints": ()}
    return StandingSystem(**kept, whole=system, free=free, held=held)


def _again(whole: System, free: tuple[int, ...], held: tuple[float, ...], values: tuple[float, ...]) -> StandingSystem:
    made = _made(whole, free, held)
    names = [p.name for p in made.parameters]
    return dataclasses.replace(
        made, parameters=made.with_parameters(**dict(zip(names, values, strict=True))).parameters
    )


@dataclass(frozen=True, eq=False)
class Touchdown:
    """The landing of a mechanism that stands: which gap closes, and the state after it in new names."""

    system: StandingSystem
    renaming: Renaming
    row: int  # of the gap that closes, in h of the whole mechanism

    @cached_property
    def parts(self) -> ca.Function:
        """q → (M of what is free, M v of all by v, T, q', height of the foot); parameters are those of the system."""
        system, whole = self.system, self.renaming.system
        e, free = whole.expressions, list(system.free)
        M = ca.hessian(e.kinetic, e.v)[0]
        given = ca.Function(
            "whole", [e.q, e.parameters], [M, self.renaming.slope, self.renaming.expression, -e.gap[self.row]]
        )
        q = ca.SX.sym("q", len(free))
        M, T, renamed, height = given(system.lifted(q), ca.DM(system.parameter_values))
        outputs = [M[free, free], M[:, free], T, renamed[free], height]
        return ca.Function("landing", [q], [ca.sparsify(part) for part in outputs])

    def __call__(self, x: Array) -> Array:
        """The state after the landing."""
        n, free = len(self.system.free), list(self.system.free)
        M, wide, T, renamed, _ = (np.asarray(ca.DM(part)) for part in self.parts(x[:n]))
        p = np.linalg.solve(T.T, wide @ np.linalg.solve(M, x[n:]))[free]
        return np.concatenate([renamed[:, 0], p])

    def heights(self, x: Array) -> Array:
        """Of the foot that lands [m], of states (runs, 2n)."""
        found: Array = np.asarray(self._height(x[:, : len(self.system.free)].T))[0]
        return found

    @cached_property
    def _height(self) -> Callable[..., ca.DM]:
        q = ca.SX.sym("q", len(self.system.free))
        made: Callable[..., ca.DM] = ca.Function("height", [q], [ca.densify(self.parts(q)[4])])
        return made


def stance_step(system: StandingSystem, dt: float) -> VariationalStep:
    """The map of a mechanism that stands."""
    return discretize(system, dt)
