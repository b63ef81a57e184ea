"""The tree of frames: where things are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import casadi as ca
import numpy as np

from stepmap.errors import ModelError
from stepmap.mechanics.quantity import Ball, Coordinate, Scalar, number, scalar

AXES = ("tx", "ty", "tz", "rx", "ry", "rz")


@dataclass(frozen=True)
class Motion:
    """How a frame moves relative to its parent: along or about one axis, as a ball turns, or by a fixed transform."""

    kind: str  # tx ty tz rx ry rz, ball, or se3
    coordinate: Coordinate | Ball | None
    value: Any  # SX scalar for an axis, (R, t) of SX for se3

    @property
    def axis(self) -> int:
        return "xyz".index(self.kind[1])

    @property
    def turns(self) -> bool:
        return self.kind[0] in "rb"


Register: TypeAlias = Callable[["Frame", str, Any, "str | None"], "Frame"]


@dataclass(frozen=True, eq=False)
class Frame:
    """A node of the tree. Its methods add a child that is moved by a coordinate or a fixed amount."""

    index: int
    name: str
    parent: Frame | None
    motion: Motion | None
    register: Register

    def tx(self, by: Coordinate | Scalar, name: str | None = None) -> Frame:
        """A child displaced along x [m]."""
        return self.register(self, "tx", by, name)

    def ty(self, by: Coordinate | Scalar, name: str | None = None) -> Frame:
        """A child displaced along y [m]."""
        return self.register(self, "ty", by, name)

    def tz(self, by: Coordinate | Scalar, name: str | None = None) -> Frame:
        """A child displaced along z [m]."""
        return self.register(self, "tz", by, name)

    def rx(self, by: Coordinate | Scalar, name: str | None = None) -> Frame:
        """A child turned about x [rad]."""
        return self.register(self, "rx", by, name)

    def ry(self, by: Coordinate | Scalar, name: str | None = None) -> Frame:
        """A child turned about y [rad]."""
        return self.register(self, "ry", by, name)

    def rz(self, by: Coordinate | Scalar, name: str | None = None) -> Frame:
        """A child turned about z [rad]."""
        return self.register(self, "rz", by, name)

    def fixed(self, transform: Any, name: str | None = None) -> Frame:
        """A child at a constant 4x4 homogeneous transform."""
        return self.register(self, "se3", transform, name)

    def translate(self, x: Scalar = 0.0, y: Scalar = 0.0, z: Scalar = 0.0, name: str | None = None) -> Frame:
        """A child displaced by a fixed vector [m]; entries may hold parameters."""
        return self.register(self, "se3", (np.eye(3), (x, y, z)), name)

    def ball(
        self, joint: str, name: str | None = None, *, speed: float | None = None, start: Sequence[float] | None = None
    ) -> Frame:
        """A child that turns freely about the origin of this frame: a ball joint of that name.

        Its unit quaternion (w, x, y, z), child to parent, is stored; it has three tangent dimensions. ``speed`` is the
        largest rate [rad/s] that generated code has to represent. The frame is called like the joint unless it has a
        ``name`` of its own. ``start`` is its quaternion where a pose does not name it.
        """
        return self.register(self, "ball", Joint(joint, speed, start=start), name)

    def free(
        self,
        joint: str,
        name: str | None = None,
        *,
        low: Sequence[float] | None = None,
        high: Sequence[float] | None = None,
        speed: float | None = None,
        start: Sequence[float] | None = None,
    ) -> Frame:
        """A child that moves freely: tx, ty and tz in this frame's axes, then a ball. Seven stored numbers, six
        tangent dimensions; ``low`` and ``high`` bound the position [m]. ``start`` is position and quaternion.
        """
        return self.register(self, "free", Joint(joint, speed, low, high, start=start), name)

    def __repr__(self) -> str:
        return f"Frame({self.name!r})"


@dataclass(frozen=True)
class Joint:
    """What a ball or a free body is asked to be."""

    name: str
    speed: float | None = None
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    place: tuple[Coordinate, ...] = ()
    start: Sequence[float] | None = None


def starting_turn(start: Sequence[float] | None, what: str) -> list[float]:
    """The unit quaternion (w, x, y, z) that a ball starts with."""
    if start is None:
        return [1.0, 0.0, 0.0, 0.0]
    turn = np.array([number(e, what) for e in start])
    size = float(np.linalg.norm(turn)) if len(turn) == 4 else 0.0
    if abs(size - 1.0) > 1e-3:
        raise ModelError(f"{what}: expected a unit quaternion (w, x, y, z), got {list(start)!r}")
    return [float(e) for e in turn / size]


def starting_place(start: Sequence[float] | None, what: str) -> tuple[list[float], Sequence[float] | None]:
    """Position and quaternion that a free body starts with."""
    if start is None:
        return [0.0, 0.0, 0.0], None
    if len(start) != 7:
        raise ModelError(f"{what}: expected position and quaternion, seven numbers, got {list(start)!r}")
    return [number(e, what) for e in start[:3]], start[3:]


def motion(kind: str, by: Any, what: str) -> Motion:
    """The motion ``by`` describes, checked; ``what`` names the frame in errors."""
    if kind == "se3":
        return Motion("se3", None, _transform(by, what))
    if isinstance(by, Coordinate | Ball):
        return Motion(kind, by, None)
    return Motion(kind, None, scalar(by, what))


def _transform(by: Any, what: str) -> tuple[ca.SX, ca.SX]:
    if isinstance(by, tuple) and len(by) == 2:  # from translate
        rotation, offset = by
        return ca.sparsify(ca.SX(rotation)), ca.sparsify(ca.vertcat(*(scalar(e, what) for e in offset)))
    try:
        matrix = np.asarray(by, dtype=float)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what}: expected a 4x4 matrix of numbers") from error
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        raise ModelError(f"{what}: expected a finite 4x4 matrix, got shape {matrix.shape}")
    rotation, offset = matrix[:3, :3], matrix[:3, 3]
    proper = np.abs(rotation @ rotation.T - np.eye(3)).max() < 1e-9 and np.linalg.det(rotation) > 0
    if not proper or np.abs(matrix[3] - (0, 0, 0, 1)).max() > 1e-12:
        raise ModelError(
            f"{what}: not a rigid transform; its upper left 3x3 must be a rotation (R Rᵀ = I, det R = 1) "
            "and its last row 0 0 0 1"
        )
    return ca.sparsify(ca.SX(rotation)), ca.sparsify(ca.SX(offset))
