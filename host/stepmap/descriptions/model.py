"""What a robot's description says, whatever its format: bodies, joints, loops, tendons and motors as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Vector: TypeAlias = tuple[float, float, float]
Matrix: TypeAlias = tuple[Vector, Vector, Vector]

ORIGIN: Vector = (0.0, 0.0, 0.0)
UPRIGHT: Matrix = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
LARGEST = 1e30  # kg, kg m²: the Earth has 6e24 kg; numbers beyond it overflow in products


@dataclass(frozen=True)
class Inertia:
    """Of one body, in its frame's axes; the matrix is about the centre of mass."""

    mass: float
    center: Vector
    matrix: Matrix

    @property
    def is_none(self) -> bool:
        return self.mass == 0.0 and not any(e for row in self.matrix for e in row)


@dataclass(frozen=True)
class Joint:
    """What moves a body against its parent: about or along an axis in the body's frame, through its anchor."""

    name: str
    kind: str  # hinge slide ball free
    axis: Vector = (0.0, 0.0, 1.0)
    anchor: Vector = ORIGIN
    low: float | None = None
    high: float | None = None
    reference: float = 0.0  # value at which the body stands as its description draws it, and starts
    start: float = 0.0
    damping: float = 0.0
    stiffness: float = 0.0
    rest: float = 0.0
    rotor: float = 0.0
    where: str = ""


@dataclass(frozen=True)
class Body:
    """A frame that its joints move, one after the other, and what has mass in it."""

    name: str
    parent: str | None  # None is the world
    position: Vector = ORIGIN
    rotation: Matrix = UPRIGHT
    joints: tuple[Joint, ...] = ()
    inertia: Inertia | None = None
    where: str = ""


@dataclass(frozen=True)
class Point:
    """A point of a body, in its frame; None is the world."""

    body: str | None
    place: Vector


@dataclass(frozen=True)
class Loop:
    """Two points that stay together; welded ones turn together, too: ``rotation`` is the second's in the first."""

    name: str
    a: Point
    b: Point
    rotation: Matrix | None = None
    axes: str = "xyz"  # of the world, along which they stay together


@dataclass(frozen=True)
class Follower:
    """A joint that follows another: q = c₀ + c₁ d + c₂ d² + …, d = leader − rest."""

    name: str
    joint: str
    leader: str
    coefficients: tuple[float, ...]
    rest: float = 0.0


@dataclass(frozen=True)
class Tendon:
    """A cable through points, or a weighted sum of joints; its spring is slack between ``rest`` lengths."""

    name: str
    path: tuple[Point, ...] = ()
    joints: tuple[tuple[str, float], ...] = ()
    longest: float | None = None
    stiffness: float = 0.0
    rest: tuple[float, float] = (0.0, 0.0)
    damping: float = 0.0


@dataclass(frozen=True)
class Motor:
    """gain · u + bias₀ + bias₁ · length + bias₂ · speed on a joint, times its gear, or along a tendon."""

    name: str
    joint: str | None = None
    tendon: str | None = None
    gear: Vector = (1.0, 0.0, 0.0)
    gain: float = 1.0
    bias: Vector = ORIGIN
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Model:
    """A mechanism as a description has it. ``left_out`` names what the description says besides."""

    name: str
    gravity: Vector
    bodies: tuple[Body, ...]
    loops: tuple[Loop, ...] = ()
    followers: tuple[Follower, ...] = ()
    tendons: tuple[Tendon, ...] = ()
    motors: tuple[Motor, ...] = ()
    left_out: tuple[str, ...] = ()
    file: str = ""


def located(file: str, where: str) -> str:
    """File and line, as errors begin."""
    line = where.removeprefix("line ")
    return f"{file}:{line}" if line.isdigit() else ", ".join(e for e in (file, where) if e)


def several(names: list[str]) -> str:
    """The first names of a list, and how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def vector(values: Any) -> Vector:
    x, y, z = (float(e) for e in values)
    return x, y, z


def matrix(values: Any) -> Matrix:
    a, b, c = (vector(row) for row in values)
    return a, b, c
