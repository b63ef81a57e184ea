"""Generalized forces that a motion takes besides those of its acceleration, in the tangent space of q̄."""

from __future__ import annotations

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.system import Pose, System


def gravity_forces(system: System, pose: Pose) -> Array:
    """∂V/∂q̄, (nv,): the forces that hold the mechanism at rest against gravity and springs [N, N m]."""
    e = system.expressions
    slope = e.centered(ca.gradient(e.charted.potential, e.chart))
    return _evaluate(system, slope, pose, {})


def bias_forces(system: System, pose: Pose, velocity: Pose) -> Array:
    """C(q̄, v̄) v̄, (nv,): Coriolis, centrifugal and gyroscopic forces, without gravity.

    d/dt ∂T/∂v − ∂T/∂q at a constant velocity; a ball has ω × ∂T/∂ω besides, as its axes turn (Euler–Poincaré).
    """
    e = system.expressions
    momentum = ca.gradient(e.charted.kinetic, e.v)
    bias = e.centered(ca.jtimes(momentum, e.chart, e.v) - ca.gradient(e.charted.kinetic, e.chart))
    at_center = e.centered(momentum)
    for _, at in system.tangent.balls:
        turning = ca.SX(bias.shape[0], 1)
        turning[at : at + 3] = ca.cross(e.v[at : at + 3], at_center[at : at + 3])
        bias = bias + turning
    return _evaluate(system, bias, pose, velocity)


def _evaluate(system: System, expression: ca.SX, pose: Pose, velocity: Pose) -> Array:
    e = system.expressions
    function = ca.Function("forces", [e.q, e.v, e.parameters], [expression])
    values = function(system.configuration(pose), system.velocities(velocity), system.parameter_values)
    return np.asarray(values, dtype=float).ravel()
