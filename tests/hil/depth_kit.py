"""The scene of the depth tests, learned once a process."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from stepmap_hil.depth import CameraError, Renderer, Tracker
from stepmap_hil.depth.driver import worker

Vector = NDArray[np.float64]


@cache
def renderer() -> Renderer:
    return Renderer(seed=1)


@cache
def tracker() -> Tracker:
    return Tracker.learn(renderer().empty(20), renderer().camera, renderer().scene)


def motion(k: int) -> tuple[Vector, Vector]:
    """Ball and robot at frame k: through most of the view, and never twice at the same place of a pixel."""
    t = k / 30
    robot = np.array([0.3 + 0.35 * np.sin(0.9 * t), 1.0, 0.0])
    angle, length = 0.35 * np.sin(2.3 * t), 0.65 + 0.25 * np.cos(1.3 * t)
    return robot + length * np.array([np.sin(angle), -np.cos(angle), 0.0]), robot


def truth(ball: Vector, robot: Vector) -> Vector:
    """What the channels should read."""
    return np.array([ball[0], ball[1], robot[0], np.linalg.norm(robot - ball)])


def have_fakenect() -> bool:
    try:
        worker.fakenect()
    except CameraError:
        return False
    return True


needs_fakenect = pytest.mark.skipif(not have_fakenect(), reason="fakenect is not installed (libfreenect0.5)")
