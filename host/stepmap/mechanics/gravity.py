"""Gravity as numbers, and which way is up."""

from __future__ import annotations

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.system import System


def gravity(system: System) -> Array:
    """Its vector in world axes [m/s²], (3,)."""
    symbols = ca.vertcat(*system.symbols) if system.symbols else ca.SX(0, 1)
    vector = ca.Function("gravity", [symbols], [ca.vertcat(*system.gravity)])
    return np.asarray(vector(system.parameter_values), dtype=float).ravel()


def upward(system: System) -> Array:
    """Unit vector against gravity; z without gravity."""
    down = gravity(system)
    size = np.linalg.norm(down)
    return -down / size if size > 0 else np.array([0.0, 0.0, 1.0])
