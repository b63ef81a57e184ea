"""Readings of the sensors with their derivatives by state and by parameters, at many states in one call."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.steps import VariationalStep


class Readings(NamedTuple):
    """Readings (K, nz), by q̄ (K, nz, nv) in its tangent space, and by the parameters (K, nz, np)."""

    z: Array
    H: Array
    T: Array


class Sensors:
    """The sensors of a step map's mechanism."""

    def __init__(self, step: VariationalStep) -> None:
        system = step.system
        if not system.sensor_channels:
            raise ModelError(f"system {system.name!r} has no sensor; add a marker or an encoder to it")
        if system.senses_rates:
            raise ModelError(
                f"system {system.name!r} has a sensor of rates, whose readings depend on the masses; identification "
                "knows markers, encoders and directions"
            )
        self.step = step

    @cached_property
    def _function(self) -> ca.Function:
        e = self.step.system.expressions
        slope = e.centered(ca.jacobian(e.charted.readings, e.chart))
        by_parameters = ca.jacobian(e.readings, e.parameters)
        outputs = [ca.densify(part) for part in (e.readings, slope, by_parameters)]
        return ca.Function("readings", [e.q, e.parameters], outputs)

    def at(self, X: Array, parameters: Array) -> Readings:
        """At states (K, nx)."""
        q = self.step.layout.pose(X)
        n = len(q)
        par = np.tile(parameters[:, None], n)
        z, H, T = (np.asarray(part) for part in self._function(q.T, par))
        nz = len(self.step.system.sensor_channels)

        def stacked(part: Array) -> Array:
            made: Array = part.reshape(nz, n, -1).transpose(1, 0, 2)
            return made

        return Readings(z.T, stacked(H), stacked(T) if len(parameters) else np.zeros((n, nz, 0)))
