"""The layout of a state: what stands where in x, how two states differ, and how a state is moved.

x has nx stored numbers and ndx tangent dimensions. They are the same for plain vectors; a turning body stores a unit
quaternion, four numbers, and turns in three dimensions. Derivatives, weights, covariances and gains live in the tangent
space; only ``difference`` and ``retract`` lead from one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, rows
from stepmap.errors import ModelError
from stepmap.mechanics.system import System

MOMENTUM_UNITS = {"m": "kg m/s", "rad": "kg m²/s"}


class Copied(NamedTuple):
    """The tangent dimensions of a map of x = [q, rho, p, v] and u = [forces, rho_next] that copies rho_next.

    Its next rho is rho_next, its next v (rho_next − rho)/dt, and nothing of it depends on v.
    """

    dynamic: int  # of q, and of p
    kinematic: int  # of rho, and of v

    @property
    def without_rates(self) -> int:
        """Those of q, rho and p."""
        return 2 * self.dynamic + self.kinematic


class Layout:
    """The layout of a plain vector: parts by name, each with the names and units of its entries."""

    def __init__(self, parts: Mapping[str, Sequence[tuple[str, str]]]) -> None:
        self.parts = {name: tuple(entries) for name, entries in parts.items()}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the stored numbers."""
        return tuple(name for part in self.parts.values() for name, _ in part)

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Units of the stored numbers; empty where there is none."""
        return tuple(unit for part in self.parts.values() for _, unit in part)

    @property
    def tangent_names(self) -> tuple[str, ...]:
        """Names of the tangent dimensions."""
        return self.names

    @property
    def nx(self) -> int:
        """Stored numbers."""
        return len(self.names)

    @property
    def ndx(self) -> int:
        """Tangent dimensions."""
        return self.nx

    @property
    def copied(self) -> Copied | None:
        """What the derivatives of all maps with this layout have in common, where anything is known of them."""
        return None

    @property
    def plain(self) -> bool:
        """Whether ``difference`` is subtraction and ``retract`` addition."""
        return type(self).difference is Layout.difference and type(self).retract is Layout.retract

    @cached_property
    def slices(self) -> Mapping[str, slice]:
        """Where each part stands in x."""
        places, at = {}, 0
        for name, part in self.parts.items():
            places[name] = slice(at, at + len(part))
            at += len(part)
        return places

    def __getitem__(self, part: str) -> slice:
        """Where a part stands in x: ``x[..., layout["q"]]``."""
        try:
            return self.slices[part]
        except KeyError:
            raise ModelError(f"layout: no part is called {part!r}; there are {', '.join(self.parts)}") from None

    @property
    def tangent_slices(self) -> Mapping[str, slice]:
        """Where each part stands in dx."""
        return self.slices

    def pose(self, x: ArrayLike) -> Array:
        """What sensors see and constraints bind, of one state or many; without a mechanism, x itself."""
        return np.asarray(x, dtype=float)

    def hold(self, x: ArrayLike, forces: ArrayLike | None = None) -> Array:
        """The input that holds what inputs move directly at x, with the given forces."""
        raise ModelError(f"{type(self).__name__} does not tell which input holds a state")

    def difference(self, a: ArrayLike, b: ArrayLike) -> Array:
        """The tangent vector (..., ndx) that leads from a to b: ``retract(a, difference(a, b))`` is b."""
        out: Array = np.asarray(b, dtype=float) - np.asarray(a, dtype=float)
        return out

    def retract(self, x: ArrayLike, dx: ArrayLike) -> Array:
        """The state (..., nx) reached from x along a tangent vector dx."""
        out: Array = np.asarray(x, dtype=float) + np.asarray(dx, dtype=float)
        return out

    def normalize(self, x: ArrayLike) -> Array:
        """x on its manifold; rounding may have led it off."""
        return np.asarray(x, dtype=float)


class MechanicalLayout(Layout):
    """The layout of a mechanism's state: q̄ = [q, rho] comes first, what moves it comes after.

    q̄ has nq stored numbers, and nd + nk tangent dimensions, those of dynamic and of kinematic coordinates.
    """

    nd: int
    nk: int
    forces: int

    def __init__(self, system: System, parts: Mapping[str, Sequence[tuple[str, str]]]) -> None:
        super().__init__(parts)
        self.tangent = system.tangent
        self.nq, self.nd = self.tangent.nq, self.tangent.nd
        self.nk, self.forces = len(system.kinematic), len(system.inputs)

    @property
    def ndx(self) -> int:
        return self.nx - self.nq + self.tangent.nv

    @property
    def plain(self) -> bool:
        return not self.tangent.balls

    @cached_property
    def tangent_names(self) -> tuple[str, ...]:
        return (*(name for name, _ in self.tangent.entries), *self.names[self.nq :])

    @cached_property
    def tangent_slices(self) -> Mapping[str, slice]:
        fewer = self.nq - self.tangent.nv
        moved = {name: slice(at.start - fewer, at.stop - fewer) for name, at in self.slices.items()}
        return {**moved, "q": slice(0, self.nd), "rho": slice(self.nd, self.nd + self.nk)}

    def difference(self, a: ArrayLike, b: ArrayLike) -> Array:
        if self.plain:
            return super().difference(a, b)
        a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
        moved = self.tangent.difference(a[..., : self.nq], b[..., : self.nq])
        return np.concatenate([moved, b[..., self.nq :] - a[..., self.nq :]], axis=-1)

    def retract(self, x: ArrayLike, dx: ArrayLike) -> Array:
        if self.plain:
            return super().retract(x, dx)
        x, dx, nv = np.asarray(x, dtype=float), np.asarray(dx, dtype=float), self.tangent.nv
        moved = self.tangent.retract(x[..., : self.nq], dx[..., :nv])
        return np.concatenate([moved, x[..., self.nq :] + dx[..., nv:]], axis=-1)

    def normalize(self, x: ArrayLike) -> Array:
        if self.plain:
            return super().normalize(x)
        x = np.asarray(x, dtype=float)
        return np.concatenate([self.tangent.normalize(x[..., : self.nq]), x[..., self.nq :]], axis=-1)

    def pose(self, x: ArrayLike) -> Array:
        """q̄ of one state or many, (..., nq)."""
        out: Array = np.asarray(x, dtype=float)[..., : self.nq]
        return out

    def _with_forces(self, held: Array, forces: ArrayLike | None) -> Array:
        """Inputs (..., nu): forces, zero where not given, and what holds the kinematic coordinates (..., nk)."""
        given = np.zeros(self.forces) if forces is None else rows(forces, self.forces, "forces")
        return np.concatenate([np.broadcast_to(given, (*held.shape[:-1], self.forces)), held], axis=-1)

    def momentum(self, pose: ArrayLike, velocity: ArrayLike) -> Array:
        """What x stores of a velocity v̄ of the step that ended at q̄, dynamic part, for one or many, (..., nd)."""
        raise NotImplementedError

    def state(self, pose: ArrayLike, velocity: ArrayLike) -> Array:
        """x (..., nx) of the pose that the last step reached with a velocity."""
        q, v = rows(pose, self.nq, "pose"), rows(velocity, self.tangent.nv, "velocity")
        return np.concatenate([q, self.momentum(q, v), v[..., self.nd :]], axis=-1)


def pose_entries(system: System) -> dict[str, list[tuple[str, str]]]:
    """The parts q and rho of a layout."""
    return {
        "q": [(c.name, c.unit) for c in system.dynamic],
        "rho": [(c.name, c.unit) for c in system.kinematic],
    }
