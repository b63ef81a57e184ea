"""Tendons: cables through via-points, which only pull. Their length is ℓ(q̄) = Σ |Δ| along the frames."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import casadi as ca

from stepmap.mechanics.constraints import Row, along
from stepmap.mechanics.forces import amount
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.kinematics import Kinematics
from stepmap.mechanics.quantity import Coordinate, Input


def length(path: tuple[Frame, ...], kinematics: Kinematics) -> ca.SX:
    """ℓ of a cable through the origins of frames [m]."""
    places = [kinematics.position(frame) for frame in path]
    return sum((ca.norm_2(b - a) for a, b in pairwise(places)), ca.SX(0))


@dataclass(frozen=True)
class PulledTendon:
    """A tendon with a given tension T: its power is −T dℓ/dt."""

    path: tuple[Frame, ...]
    tension: Input | ca.SX

    def power(self, real: Kinematics, virtual: Kinematics, u: ca.SX) -> ca.SX:
        speed = ca.SX(0)
        for a, b in pairwise(self.path):
            gap = real.position(b) - real.position(a)
            speed += ca.dot(gap, virtual.velocity(b) - virtual.velocity(a)) / ca.norm_2(gap)
        return -amount(self.tension, u) * speed


@dataclass(frozen=True)
class ElasticTendon:
    """½ k max(0, ℓ − length)²: an elastic cable, slack where it is shorter than its length at rest."""

    path: tuple[Frame, ...]
    stiffness: ca.SX
    rest: Coordinate | ca.SX

    def energy(self, kinematics: Kinematics) -> ca.SX:
        return self.stiffness * ca.fmax(length(self.path, kinematics) - along(self.rest, kinematics), 0) ** 2 / 2


@dataclass(frozen=True)
class JointTendon:
    """½ k (Σ c q − rest)²: a spring on a weighted sum of coordinates, as of a tendon over pulleys at joints."""

    weights: tuple[tuple[Coordinate, float], ...]
    stiffness: ca.SX
    rest: ca.SX

    def energy(self, kinematics: Kinematics) -> ca.SX:
        reach = sum((weight * kinematics.coordinate(c) for c, weight in self.weights), ca.SX(0))
        return self.stiffness * (reach - self.rest) ** 2 / 2


@dataclass(frozen=True)
class Tendon:
    """ℓ ≤ length: a cable that does not stretch, a string with via-points."""

    name: str
    path: tuple[Frame, ...]
    length: Coordinate | ca.SX

    restitution = 0.0

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (Row.GAP,)

    def residual(self, kinematics: Kinematics) -> ca.SX:
        return length(self.path, kinematics) - along(self.length, kinematics)

    gap = residual

    def pull(self, kinematics: Kinematics) -> ca.SX:
        return ca.SX(1)
