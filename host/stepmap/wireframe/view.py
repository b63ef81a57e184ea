"""From the world to the page: a planar mechanism as it is, any other from a little to the side and above."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.gravity import upward
from stepmap.mechanics.system import System

TURN, TILT = np.radians(62.0), np.radians(10.0)  # of the camera: about the vertical, and down


@dataclass(frozen=True)
class View:
    """Orthographic: world directions of the page's right, of its top, and toward the reader."""

    right: Array
    top: Array
    labels: tuple[str, str] | None  # of the axes, where they are the world's

    @property
    def toward(self) -> Array:
        return np.cross(self.right, self.top)

    def project(self, points: Array) -> Array:
        """World points (..., 3) on the page (..., 2) [m]."""
        page: Array = points @ np.stack([self.right, self.top], axis=-1)
        return page


def choose(system: System, positions: Array) -> View:
    """The view of a motion given by frame positions (..., 3)."""
    flat = [axis for axis in range(3) if np.ptp(positions[..., axis]) < 1e-9]
    vertical = upward(system)
    axis = int(np.argmax(np.abs(vertical)))
    planes = [f for f in flat if f != axis]
    if not planes:
        return _camera(vertical, axis)
    across = 3 - axis - planes[-1]
    unit = np.eye(3)
    return View(unit[across], unit[axis], (f"{'xyz'[across]} [m]", f"{'xyz'[axis]} [m]"))


def _camera(vertical: Array, axis: int) -> View:
    first = np.eye(3)[(axis + 1) % 3]
    first = first - vertical * (first @ vertical)
    first /= np.linalg.norm(first)
    second = np.cross(vertical, first)
    right = np.cos(TURN) * first + np.sin(TURN) * second
    toward = np.cross(right, vertical)
    return View(right, np.cos(TILT) * vertical - np.sin(TILT) * toward, None)
