"""Points of moving parts as expressions of the pose."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import casadi as ca
import numpy as np

from stepmap.errors import ModelError
from stepmap.geometry.arithmetic import number
from stepmap.geometry.capsule import Capsule
from stepmap.geometry.sphere import Sphere
from stepmap.mechanics.system import System
from stepmap.text import did_you_mean

Part: TypeAlias = "float | Sphere | Capsule"
SLACK = 1.1  # of a capsule's radius, that balls in its place have at most
MOST = 16  # balls in the place of a capsule


@dataclass(frozen=True)
class Ball:
    """A moving ball: its probe point."""

    at: int
    radius: float


@dataclass(frozen=True)
class Link:
    """A moving capsule: the probe points of its ends, and those of balls that cover it together, ends among them."""

    ends: tuple[int, int]
    radius: float
    cover: tuple[int, ...]


@dataclass(eq=False)
class Probes:
    """Collects probe points of a system; ``points`` are expressions (3) of its pose and parameters."""

    system: System
    points: list[ca.SX] = field(default_factory=list)

    def part(self, frame: str | tuple[str, str], part: Part) -> Ball | Link:
        """A part on a frame, in its axes, or between the origins of two."""
        if isinstance(frame, tuple):
            return self._link(self._place(frame[0]), self._place(frame[1]), number(part, "shape", least=0.0))
        if isinstance(part, Sphere):
            return Ball(self._add(self._place(frame, part.center)), part.radius)
        if isinstance(part, Capsule):
            return self._link(self._place(frame, part.a), self._place(frame, part.b), part.radius)
        return Ball(self._add(self._place(frame)), part)

    def _add(self, point: ca.SX) -> int:
        self.points.append(point)
        return len(self.points) - 1

    def _place(self, name: str, offset: Any = (0.0, 0.0, 0.0)) -> ca.SX:
        known, e = list(self.system.frame_names), self.system.expressions
        if name not in known:
            raise ModelError(f"frame: none is called {name!r}; {did_you_mean(name, known)}there are {', '.join(known)}")
        i = known.index(name)
        origin = e.positions[:, i]
        return origin + e.rotations[:, 3 * i : 3 * i + 3] @ ca.SX(np.asarray(offset)) if np.any(offset) else origin

    def _link(self, a: ca.SX, b: ca.SX, radius: float) -> Link:
        first, last = self._add(a), self._add(b)
        length = self._length(b - a)
        apart = 2 * radius * math.sqrt(SLACK**2 - 1)
        count = min(MOST, math.ceil(length / apart) + 1) if apart * MOST > length else MOST
        inner = [self._add(a + (b - a) * (i / (count - 1))) for i in range(1, count - 1)]
        return Link((first, last), radius, (first, *inner, last))

    def _length(self, along: ca.SX) -> float:
        """How long a link is where the mechanism starts."""
        e, system = self.system.expressions, self.system
        length = ca.Function("length", [e.q, e.parameters], [ca.norm_2(along)])
        return float(length(system.configuration({}), system.parameter_values))
