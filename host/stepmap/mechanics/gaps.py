"""Gaps h(q̄) ≤ 0: strings that go slack and contacts that open. The force of a closed one is ≥ 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.constraints import Constraint, Distance, Row
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.kinematics import Kinematics
from stepmap.mechanics.quantity import number


@dataclass(frozen=True)
class String(Distance):
    """|Δ| ≤ length, in the smooth form of the wire: |Δ|² − length² ≤ 0."""

    @property
    def rows(self) -> tuple[Row, ...]:
        return (Row.GAP,)

    restitution = 0.0


@dataclass(frozen=True)
class Contact:
    """A point at z ≥ 0 in a plane's frame. A foot that sticks has rows of its x and y there, which keep their values.

    The force of the gap pushes: it is the normal force, positive while the contact is closed.
    """

    name: str
    point: Frame
    plane: Frame
    restitution: float
    sticks: bool

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}.x", f"{self.name}.y") if self.sticks else (self.name,)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (Row.GAP, Row.TANGENT, Row.TANGENT) if self.sticks else (Row.GAP,)

    def residual(self, kinematics: Kinematics) -> ca.SX:
        place = self._place(kinematics)
        return ca.vertcat(-place[2], place[0], place[1]) if self.sticks else -place[2]

    def gap(self, kinematics: Kinematics) -> ca.SX:
        """How deep the point is in the plane; the rows of a foot that sticks hold wherever it stands."""
        depth = -self._place(kinematics)[2]
        return ca.vertcat(depth, ca.SX.zeros(2)) if self.sticks else depth

    def pull(self, kinematics: Kinematics) -> ca.SX:
        return ca.SX.ones(len(self.labels))

    def _place(self, kinematics: Kinematics) -> ca.SX:
        plane = kinematics.pose[self.plane.index]
        return ca.densify(plane.rotation.T @ (kinematics.position(self.point) - plane.origin))


def contact(name: str, point: Frame, plane: Frame, restitution: Any, friction: Any) -> Contact:
    """The contact, once its numbers are possible."""
    what = f"contact {name!r}"
    bounce = number(restitution, f"restitution of {what}")
    if not 0 <= bounce <= 1:
        raise ModelError(f"restitution of {what}: must be between 0 (stays) and 1 (no loss), got {bounce:g}")
    if friction is None or friction == math.inf:
        return Contact(name, point, plane, bounce, friction is not None)
    ratio = number(friction, f"friction of {what}", "a number, math.inf or None")
    if ratio < 0:
        raise ModelError(f"friction of {what}: must not be negative, got {ratio:g}; None slides, math.inf sticks")
    raise ModelError(
        f"friction of {what}: a finite coefficient ({ratio:g}) is not supported; None slides, math.inf sticks",
        hint="With math.inf, step.outside_cone(trajectory, coefficient) tells where it would slip.",
    )


def require_movable(labels: Sequence[str], rows: Sequence[Row], jacobian: ca.SX) -> None:
    """Raises ModelError for gaps that no dynamic coordinate moves: their row of ∂h/∂q has no entry."""
    moved = set(ca.sparsify(jacobian).sparsity().row())
    still = [label for i, label in enumerate(labels) if rows[i] is Row.GAP and i not in moved]
    if still:
        raise ModelError(
            f"no dynamic coordinate moves gap {', '.join(map(repr, still))}; leave it out, or tie it to a frame that "
            "can move"
        )


def violations(values: Array, rows: Sequence[Row]) -> Array:
    """Entries of h, or of gaps in metres, that do not hold; 0 for open gaps and for tangents."""
    kinds = np.array(rows)
    out: Array = np.where(kinds == Row.EQUALITY, values, np.where(kinds == Row.GAP, np.maximum(values, 0.0), 0.0))
    return out


def gap_names(constraints: Sequence[Constraint]) -> tuple[str, ...]:
    """Names of the rows that may open."""
    return tuple(label for c in constraints for label, row in zip(c.labels, c.rows, strict=True) if row is Row.GAP)


def modes_of(rows: Sequence[Row]) -> list[list[int]]:
    """Rows that hold while one gap alone is closed, per gap: its own, and those of all constraints that never open."""
    always = [i for i, row in enumerate(rows) if row is Row.EQUALITY]
    modes: list[list[int]] = []
    for i, row in enumerate(rows):
        if row is Row.GAP:
            modes.append([*always, i])
        elif row is Row.TANGENT:
            modes[-1].append(i)
    return modes


def existing(names: Sequence[str], contacts: Sequence[str] | None) -> tuple[str, ...]:
    """Of a system's gaps those that a map has, all where None; raises ModelError for what is no gap."""
    if contacts is None:
        return tuple(names)
    if isinstance(contacts, str) or not all(isinstance(name, str) for name in contacts):
        raise ModelError(f"contacts: expected names of gaps, got {contacts!r}")
    for name in contacts:
        if name not in names:
            raise ModelError(f"contacts: no gap is called {name!r}; there are {', '.join(names) or 'none'}")
    return tuple(name for name in names if name in contacts)
