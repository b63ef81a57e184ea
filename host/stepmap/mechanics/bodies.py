"""Rigid bodies: kinetic energy and gravity, bodies on one moving frame lumped into one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.kinematics import Kinematics, relative
from stepmap.mechanics.quantity import Scalar, scalar

ROUNDED = 0.01  # part by which moments from a table may be rounded
NOTHING = 1e-9  # part of the largest moment that counts as none


@dataclass(frozen=True)
class Body:
    """A rigid body whose centre of mass is the frame's origin; inertia in the frame's axes."""

    frame: Frame
    mass: ca.SX
    inertia: ca.SX  # 3x3
    rounded: float = ROUNDED  # part by which a moment may exceed the sum of the other two


@dataclass(frozen=True)
class Link:
    """All bodies that move with one frame: total mass, its centre, inertia about that centre."""

    frame: Frame
    mass: ca.SX
    center: ca.SX
    inertia: ca.SX

    def kinetic(self, kinematics: Kinematics) -> ca.SX:
        twist = kinematics.twist[self.frame.index]
        velocity = twist.linear + ca.cross(twist.angular, self.center)
        spin = ca.dot(twist.angular, self.inertia @ twist.angular)
        return (self.mass * ca.dot(velocity, velocity) + spin) / 2

    def potential(self, kinematics: Kinematics, gravity: Sequence[ca.SX]) -> ca.SX:
        pose = kinematics.pose[self.frame.index]
        height = pose.origin + pose.rotation @ self.center
        return -self.mass * ca.dot(ca.vertcat(*gravity), height)


def inertia_matrix(inertia: Any, what: str) -> ca.SX:
    """Principal moments (3) or a full matrix (3x3) as a 3x3 expression."""
    if not isinstance(inertia, (list, tuple, np.ndarray)):
        raise ModelError(f"{what}: expected three principal moments or a 3x3 matrix, got {inertia!r}")
    rows = [list(row) if isinstance(row, (list, tuple, np.ndarray)) else row for row in inertia]
    if len(rows) == 3 and not any(isinstance(row, list) for row in rows):
        return ca.sparsify(ca.diag(ca.vertcat(*(scalar(e, what) for e in rows))))
    if len(rows) != 3 or any(not isinstance(row, list) or len(row) != 3 for row in rows):
        raise ModelError(f"{what}: expected three principal moments or a 3x3 matrix")
    matrix = ca.vertcat(*(ca.horzcat(*(scalar(e, what) for e in row)) for row in rows))
    if not _is_symmetric(matrix):
        raise ModelError(f"{what}: an inertia matrix must be symmetric")
    return ca.sparsify(ca.triu2symm(ca.triu(matrix)))


def _is_symmetric(matrix: ca.SX) -> bool:
    """Expressions must be the same; numbers, such as those of R I Rᵀ, may differ by rounding."""
    numbers = [abs(float(e)) for e in ca.vertsplit(ca.vec(matrix)) if e.is_constant()]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        gap = ca.simplify(matrix[i, j] - matrix[j, i])
        if not gap.is_constant() or abs(float(gap)) > 1e-12 * max(numbers, default=0.0):
            return False
    return True


def lump(bodies: Sequence[Body]) -> list[Link]:
    """One link a moving frame. Bodies fixed to the world carry no kinetic energy but keep their weight's reference."""
    groups: dict[int, list[tuple[Body, ca.SX, ca.SX]]] = {}
    owners: dict[int, Frame] = {}
    for body in bodies:
        owner, rotation, offset = _carrier(body.frame)
        owners[owner.index] = owner
        groups.setdefault(owner.index, []).append((body, rotation, offset))
    return [_combine(owners[index], group) for index, group in sorted(groups.items())]


def _carrier(frame: Frame) -> tuple[Frame, ca.SX, ca.SX]:
    """The nearest frame up the tree that a coordinate moves, and ``frame``'s constant pose in it."""
    rotation, offset = ca.SX.eye(3), ca.SX(3, 1)
    while frame.parent is not None and frame.motion is not None and frame.motion.coordinate is None:
        r, t = relative(frame.motion, None)
        rotation, offset = r @ rotation, t + r @ offset
        frame = frame.parent
    return frame, rotation, offset


def _combine(owner: Frame, group: list[tuple[Body, ca.SX, ca.SX]]) -> Link:
    if len(group) == 1:
        body, rotation, offset = group[0]
        return Link(owner, body.mass, offset, _turned(body.inertia, rotation))
    mass = sum((body.mass for body, _, _ in group), ca.SX(0))
    center = ca.SX(3, 1)
    if not mass.is_zero():
        center = sum((body.mass * offset for body, _, offset in group), center) / mass
    inertia = ca.SX(3, 3)
    for body, rotation, offset in group:
        # Parallel axes from the common centre: a sum of positive terms, so no cancellation.
        arm = ca.skew(offset - center)
        inertia = inertia + _turned(body.inertia, rotation) + body.mass * (arm.T @ arm)
    return Link(owner, mass, ca.sparsify(center), ca.sparsify(inertia))


def _turned(inertia: ca.SX, rotation: ca.SX) -> ca.SX:
    return ca.sparsify(rotation @ inertia @ rotation.T)


def check_body(frame: Frame, mass: Scalar, inertia: Any, rounded: float = ROUNDED) -> Body:
    what = f"mass on frame {frame.name!r}"
    amount = scalar(mass, what)
    if amount.is_constant() and float(amount) < 0:  # a parameter's value is checked when the system is built
        raise ModelError(f"{what}: must not be negative, got {float(amount)}")
    matrix = inertia_matrix(inertia, f"inertia of {what}")
    if matrix.is_constant():  # here, where a traceback has the line; others when the system is built
        require_possible(np.asarray(ca.DM(matrix)), f"inertia of {what}", rounded=rounded)
    return Body(frame, amount, matrix, rounded)


def require_possible(inertia: Array, what: str, rounded: float = ROUNDED) -> None:
    """Raises ModelError where no body has this inertia (3x3, about its centre of mass).

    Principal moments are integrals of y² + z² and so on: none is negative, and none exceeds the sum of the other two.
    One alone, (0, 0, J), stands for what turns in a plane, where the others do not matter.
    """
    moments = np.linalg.eigvalsh(inertia)
    largest = float(np.abs(moments).max())
    if moments.min() < -1e-12 * max(1.0, largest):
        raise ModelError(f"{what}: must have no negative principal moment, got {inertia.tolist()}")
    low, middle, high = moments
    if rounded < math.inf and middle > NOTHING * largest and high > (low + middle) * (1 + rounded):
        raise ModelError(
            f"{what}: no body has the principal moments {low:.4g}, {middle:.4g} and {high:.4g} kg m²",
            cause="None can exceed the sum of the other two.",
            hint="Check units and digits. Where it turns in a plane only, give the other two as 0.",
        )


def massless(matrices: Array, modes: Sequence[Array]) -> list[int]:
    """Coordinates that move no mass at any of some poses, as mass matrices (poses, n, n) tell; none where all do.

    ``modes`` are slopes (poses, rows, n) of constraints that hold in a mode: what a mechanism with contacts cannot do
    in any of its modes needs no mass, such as the turn of a wheel without inertia about its hub.
    """
    known = np.isfinite(matrices).all(axis=(1, 2))
    if not known.any():
        raise ModelError(
            "the mass matrix is not finite at any of some poses: check the units of masses, inertias and lengths, "
            "and what expressions divide by"
        )
    matrices, modes = matrices[known], [mode[known] for mode in modes]
    weak: list[int] = []
    for matrix in matrices:
        weak = _weak(matrix)
        if not weak:
            return []
    bound = bool(modes) and all(any(_bound(M, D) for M, D in zip(matrices, mode, strict=True)) for mode in modes)
    return [] if bound else weak


def _weak(matrix: Array) -> list[int]:
    scale = np.sqrt(np.diagonal(matrix))
    if not (scale > 0).all():
        return [int(i) for i in np.flatnonzero(~(scale > 0))]
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    return [] if values[0] > 1e-10 else [int(i) for i in np.flatnonzero(np.abs(vectors[:, 0]) > 0.1)]


def _bound(matrix: Array, slope: Array) -> bool:
    """Whether every motion that the rows leave moves mass."""
    _, sizes, directions = np.linalg.svd(slope)
    free = directions[int((sizes > 1e-9).sum()) :]
    return not len(free) or not _weak(free @ matrix @ free.T)
