"""A rotor whose state is a point of a circle: two stored numbers, one tangent dimension, sensors of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

import stepmap as sm
from stepmap.steps.layout import Layout
from stepmap.steps.protocol import Curvature, Linearization, StepResult


class Circle(Layout):
    """x = [cos, sin] of an angle; its tangent vector is a turn [rad]."""

    def __init__(self) -> None:
        super().__init__({"q": [("cos", ""), ("sin", "")]})

    @property
    def ndx(self) -> int:
        return 1

    @property
    def tangent_names(self) -> tuple[str, ...]:
        return ("turn",)

    def difference(self, a: ArrayLike, b: ArrayLike) -> np.ndarray:
        a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
        cross = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
        return np.arctan2(cross, np.sum(a * b, axis=-1))[..., None]

    def retract(self, x: ArrayLike, dx: ArrayLike) -> np.ndarray:
        x, turn = np.asarray(x, dtype=float), np.asarray(dx, dtype=float)[..., 0]
        c, s = np.cos(turn), np.sin(turn)
        return np.stack([c * x[..., 0] - s * x[..., 1], s * x[..., 0] + c * x[..., 1]], axis=-1)


def direction(angle: ArrayLike) -> np.ndarray:
    """x of an angle."""
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


class Rotor(sm.steps.PointwiseStep):
    """Turns by u per step; two sensors read the direction's components, so that no angle is ever wrapped."""

    dt, nu = 0.1, 1
    layout = Circle()
    sensor_channels = (("cos", ""), ("sin", ""))

    def step(self, x: ArrayLike, u: ArrayLike) -> StepResult:
        return StepResult(self.layout.retract(x, np.asarray(u, dtype=float)), np.zeros(0), 0)

    def linearize(self, x: ArrayLike, u: ArrayLike) -> Linearization:
        return Linearization(self.step(x, u).x, np.eye(1), np.eye(1))

    def curvature(self, x: ArrayLike, u: ArrayLike, z: ArrayLike) -> Curvature:
        return Curvature(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))

    def readings(self, x: ArrayLike) -> np.ndarray:
        return np.array(x, dtype=float)

    def readings_slope(self, x: ArrayLike) -> np.ndarray:
        x = np.asarray(x, dtype=float)
        return np.stack([-x[..., 1], x[..., 0]], axis=-1)[..., None]
