"""A pointer on a circle from its equations: two stored numbers, one tangent dimension, one unknown, compiled."""

from __future__ import annotations

from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.steps.base import KernelStep
from stepmap.steps.kernels.equations import Equations
from tests.rotor import Circle, direction

PULL = 2.0


class Wheel(Circle):
    """The circle of a pointer that stands still where its input balances the pull."""

    def hold(self, x: ArrayLike, forces: ArrayLike | None = None) -> np.ndarray:
        return -PULL * np.asarray(x, dtype=float)[..., 1:]


class CompiledPointer(KernelStep):
    """θ' = θ + z with z = dt (u + PULL sin(θ + z/2)): driven away from θ = 0, by the midpoint rule."""

    dt, nu, nc = 0.05, 1, 0
    layout = Wheel()  # type: ignore[assignment]
    input_names = ("rate",)  # type: ignore[assignment]

    def rest(self, pose: object = None) -> np.ndarray:
        return direction(0.7)

    @cached_property
    def equations(self) -> Equations:
        x, u, z, dt = ca.SX.sym("x", 2), ca.SX.sym("u"), ca.SX.sym("z"), ca.SX.sym("dt")
        return Equations(
            x,
            u,
            z,
            dt,
            ca.SX(0, 1),
            residual=z - dt * (u + PULL * _turned(x, z / 2)[1]),
            after=_turned(x, z),
            multipliers=ca.SX(0, 1),
            guess=dt * u,
            decisive=1,
            ndx=1,
            retract=_turned,
            difference=lambda a, b: ca.atan2(a[0] * b[1] - a[1] * b[0], ca.dot(a, b)),
        )


def _turned(x: ca.SX, turn: ca.SX) -> ca.SX:
    c, s = ca.cos(turn), ca.sin(turn)
    return ca.vertcat(c * x[0] - s * x[1], s * x[0] + c * x[1])
