"""What of a system can be drawn: links, strings, springs, masses and pivots, read from its tree of frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.constraints import Distance
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.gaps import Contact, String
from stepmap.mechanics.potentials import Spring
from stepmap.mechanics.system import System

Pair = tuple[int, int]


@dataclass(frozen=True)
class Skeleton:
    """Frames, by index, that are ends of something visible."""

    links: tuple[Pair, ...]  # between a frame and its child
    strings: tuple[Pair, ...]
    springs: tuple[Pair, ...]
    masses: tuple[tuple[int, float], ...]  # frame and mass [kg]; centres of rods are left out
    carts: tuple[int, ...]  # frames that only slide and carry a mass or hold a string's end
    pivots: tuple[int, ...]  # joints on a frame that never moves
    planes: tuple[int, ...] = ()  # frames of floors and walls that never move

    @property
    def visible(self) -> list[int]:
        """All frames that something is drawn at."""
        pairs = (*self.links, *self.strings, *self.springs)
        return sorted({*(i for pair in pairs for i in pair), *(i for i, _ in self.masses), *self.carts, *self.pivots})


def skeleton(system: System) -> Skeleton:
    """The drawable parts of a system."""
    moving = {frame.index for frame in system.frames if _moves(frame)}
    strings = tuple((c.a.index, c.b.index) for c in system.constraints if isinstance(c, Distance))
    springs = tuple((p.a.index, p.b.index) for p in system.potentials if isinstance(p, Spring))
    masses = tuple(
        (body.frame.index, mass)
        for body, mass in zip(system.bodies, _masses(system), strict=True)
        if mass > 0 and not _covered(system, body.frame)
    )
    tied = {i for pair in strings for i in pair} | {i for i, _ in masses}
    return Skeleton(
        links=tuple(_links(system.frames, moving)),
        strings=strings,
        springs=springs,
        masses=masses,
        carts=tuple(f.index for f in system.frames if f.index in tied and f.index in moving and _is_cart(f)),
        pivots=tuple(f.index for f in system.frames if _turns(f) and f.parent and f.parent.index not in moving),
        planes=tuple(sorted({c.plane.index for c in system.constraints if isinstance(c, Contact)} - moving)),
    )


def slack(system: System, poses: Array) -> Array:
    """What each string has more than it needs [m], (times, strings); 0 of wires and of those that are taut."""
    gaps = dict(zip(system.constraint_names, system.gaps(poses).T, strict=True))
    tied = [c for c in system.constraints if isinstance(c, Distance)]
    rows = [-gaps[c.name] if isinstance(c, String) else np.zeros(len(poses)) for c in tied]
    out: Array = np.maximum(np.array(rows).reshape(len(tied), len(poses)).T, 0.0)
    return out


def normals(system: System, planes: Sequence[int]) -> Array:
    """Directions to the admissible sides of planes that never move, in world axes, (planes, 3)."""
    e = system.expressions
    found = ca.horzcat(ca.SX(3, 0), *(e.rotations[:, 3 * plane + 2] for plane in planes))
    axes = ca.Function("normals", [e.q, e.parameters], [ca.densify(found)])
    out: Array = np.asarray(axes(np.zeros(system.tangent.nq), system.parameter_values)).T
    return out


def _links(frames: Iterable[Frame], moving: set[int]) -> Iterable[Pair]:
    """Rigid ones, and those along which something slides on what turns: a ball on a beam, a boom that is drawn out."""
    for frame in frames:
        if frame.parent is None or frame.index not in moving:
            continue
        slides = _has_coordinate(frame) and not _turns(frame) and _is_turned(frame.parent)
        if slides or not _has_coordinate(frame):
            yield frame.parent.index, frame.index


def _masses(system: System) -> list[float]:
    symbols = ca.vertcat(*system.symbols) if system.symbols else ca.SX(0, 1)
    masses = ca.Function("masses", [symbols], [ca.vertcat(*(body.mass for body in system.bodies))])
    return [float(mass) for mass in np.asarray(masses(system.parameter_values)).ravel()]


def _covered(system: System, frame: Frame) -> bool:
    """Whether the frame lies on a longer link from the same parent, as the centre of a rod does."""
    if frame.parent is None or _has_coordinate(frame):
        return False
    position = system.positions(system.configuration({}))
    arm = position[frame.index] - position[frame.parent.index]
    for other in system.frames:
        if other.parent is frame.parent and other is not frame and not _has_coordinate(other):
            longer = position[other.index] - position[frame.parent.index]
            along = float(arm @ longer)
            if along > (1 + 1e-6) * float(arm @ arm) and np.linalg.norm(np.cross(arm, longer)) < 1e-6 * along:
                return True
    return False


def _has_coordinate(frame: Frame) -> bool:
    return frame.motion is not None and frame.motion.coordinate is not None


def _turns(frame: Frame) -> bool:
    return _has_coordinate(frame) and frame.motion is not None and frame.motion.turns


def _is_turned(frame: Frame) -> bool:
    return _turns(frame) or (frame.parent is not None and _is_turned(frame.parent))


def _moves(frame: Frame) -> bool:
    return _has_coordinate(frame) or (frame.parent is not None and _moves(frame.parent))


def _is_cart(frame: Frame) -> bool:
    """Slides along one axis from a frame that never moves, or along kinematic axes only."""
    slides = []
    at: Frame | None = frame
    while at is not None and at.parent is not None:
        if _turns(at):
            return False
        if at.motion is not None and at.motion.coordinate is not None:
            slides.append(at.motion.coordinate)
        at = at.parent
    return len(slides) == 1 or (bool(slides) and all(coordinate.kinematic for coordinate in slides))
